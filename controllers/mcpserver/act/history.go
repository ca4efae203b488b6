package act

import (
	"context"
	"fmt"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
)

// storeContent keeps the content of the target's backend. An older record is deleted first, because its data cannot be
// changed.
func (x *pass) storeContent(ctx context.Context, a plan.StoreContent) error {
	server, is := x.s.Object.(*v1alpha1.MCPServer)
	if !is {
		return fmt.Errorf("a %T has no backend", x.s.Object)
	}
	content, err := x.content().StoredContent(server, x.made.Target.Generation)
	if err != nil {
		return err
	}
	manager := x.s.Kind.ChildrenManager
	if a.Replaces != nil {
		if err := x.Remove(ctx, manager, a.Replaces); err != nil {
			return err
		}
	}
	_, err = x.Apply(ctx, manager, nil, content, x.opts...)
	return err
}

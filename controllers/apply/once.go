package apply

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// once creates the object, and is content with what stands under its name. It never
// reads that: an object that was deleted is made again only by who asks with no live
// object, and is not remembered.
func (w *Writer) createOnce(
	ctx context.Context, live client.Object, in intent, grant ownership.Grant, k memoryKey,
) (Outcome, error) {
	if !absent(live) {
		return Outcome{UID: live.GetUID(), ResourceVersion: live.GetResourceVersion()}, nil
	}
	outcome, err := w.send(ctx, in, grant, k, preconditions{birth: true})
	w.applier.memory.forget(k)
	// Where the fields are others', the API server says so before it looks at the version.
	var theirs *Conflict
	if errors.Is(err, ErrExists) || errors.As(err, &theirs) {
		return Outcome{}, nil
	}
	return outcome, err
}

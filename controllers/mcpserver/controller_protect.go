package mcpserver

import (
	"context"
	"errors"

	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// protect applies what protects the content that runs, where the wanted content got no
// number.
func (r *Reconciler) protect(ctx context.Context, p *pass, want wanted) (err error) {
	for _, child := range want.children {
		if child.closes {
			_, e := p.Apply(ctx, child.manager, child.live, child.ac)
			err = errors.Join(err, e)
		}
	}
	return err
}

// stopOutdated stops a proxy that the spec no longer lets serve, where what is
// to take its place was refused.
func (r *Reconciler) stopOutdated(ctx context.Context, p *pass, w world, want wanted) error {
	halted := p.server.Spec.Suspend || want.unguarded(w)
	if !halted || w.proxy == nil || revisionOf(w.proxy) == want.revision {
		return nil
	}
	stopped, err := workload.ScaledProxy(w.proxy, want.owner, string(r.kind.ChildrenManager), 0)
	if err != nil {
		// Not built by us, or taken from us whole: then it is not ours to stop.
		return nil //nolint:nilerr // what was refused says why
	}
	_, err = p.Apply(ctx, r.kind.ChildrenManager, w.proxy, stopped, apply.AtVersion, apply.Restated)
	return err
}

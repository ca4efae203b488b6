package mcpserver

import (
	"context"
	"crypto/rand"

	"github.com/freehold-dev/freehold/controllers/workload"
)

// applySession makes the Secret with the key of session ids before new content goes
// out. It is never read, so that its end is no event, and what stands under its name is
// left as it is.
func (r *Reconciler) applySession(ctx context.Context, p *pass, w world, want wanted) error {
	server := p.server
	if !r.kind.Backend || !want.renderable() || want.kept || revisionOf(w.proxy) == want.revision {
		return nil
	}
	if made, ok := r.sessions.Get(server.UID); ok && made == want.revision {
		return nil
	}
	// 256 bits, as text, so that people can copy it.
	key := rand.Text() + rand.Text()
	if _, err := p.Apply(ctx, r.kind.ChildrenManager, nil, workload.SessionSecret(workload.OwnerOf(server), key)); err != nil {
		return err
	}
	r.sessions.Add(server.UID, want.revision)
	return nil
}

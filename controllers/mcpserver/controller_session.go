package mcpserver

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// For sessionDoubt after its birth a server may find the Secret of an earlier one of its
// name, for which the garbage collector has not come yet. It makes its own again each
// sessionRetry until then, because the end of that Secret is no event.
const (
	sessionDoubt = 10 * time.Minute
	sessionRetry = time.Minute
)

// sessionKey is what this process knows of a server's Secret.
type sessionKey struct {
	revision revision.Revision // of the last content before which it was made or found
	// restartedAt is that of the spec at that time.
	restartedAt time.Time
	// own says that what stands is this server's: it was made, or still stood when the
	// proxy had rolled out and the server was no longer young.
	own bool
	// tried is when it was last tried after the roll-out.
	tried time.Time
}

// applySession makes the Secret with the key of session ids before the first content
// that this process rolls out, and again with each new spec.restartedAt, which is how a
// person brings a deleted key back. It is never read, so that its end is no event, and
// what stands under its name is left as it is. That may be of a deleted server of the
// same name, and be collected soon: so where something stood, the Secret is made once
// more after the roll-out, and while the server is young again and again.
func (r *Reconciler) applySession(ctx context.Context, p *pass, w world, want wanted) error {
	server := p.server
	if !want.renderable() || want.kept {
		return nil
	}
	last, _ := r.sessions.Get(server.UID)
	known, _ := last.(sessionKey)
	now := sessionKey{revision: want.revision, own: known.own}
	if at := server.Spec.RestartedAt; at != nil {
		now.restartedAt = at.Time
	}
	switch {
	case revisionOf(w.proxy) == want.revision:
		stood := known.revision == want.revision && !known.own
		if !stood || !w.proxyRolledOut(want.revision, false) || w.proxy.Status.ReadyReplicas == 0 {
			return nil
		}
		now.own, now.tried = r.Now().Sub(server.CreationTimestamp.Time) >= sessionDoubt, r.Now()
		if wait := known.tried.Add(sessionRetry).Sub(now.tried); wait > 0 {
			p.Due(wait)
			return nil
		}
	case known.revision == want.revision, known.own && known.restartedAt.Equal(now.restartedAt):
		return nil
	}
	// 256 bits, as text, so that people can copy it.
	key := rand.Text() + rand.Text()
	done, err := p.Apply(ctx, r.kind.ChildrenManager, nil, workload.SessionSecret(workload.OwnerOf(server), key))
	if err != nil {
		return err
	}
	now.own = now.own || done.Result == apply.Created
	if !now.own && !now.tried.IsZero() {
		p.Due(sessionRetry)
	}
	r.sessions.Add(server.UID, now)
	return nil
}

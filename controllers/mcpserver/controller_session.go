package mcpserver

import (
	"context"
	"crypto/rand"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/runspec"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// makeKey makes the Secret with the key of session ids before the claim that records its
// name, so that what is recorded was made. It is never read, its end is no event, and what
// stands under its name is left as it is: the server's uid is in the name, so that it is
// no earlier server's.
func (r *Reconciler) makeKey(ctx context.Context, p *pass, w world, want wanted) error {
	if !w.lacksKey(p.server, want) {
		return nil
	}
	// 256 bits, as text, so that people can copy it.
	key := rand.Text() + rand.Text()
	_, err := p.Apply(ctx, r.kind.ChildrenManager, nil, workload.SessionSecret(want.owner, want.content.Proxy.SessionSecret, key))
	return err
}

// lacksKey reports whether the Secret was not made yet, or is to be made again: a new
// spec.restartedAt is how a person brings a deleted key back. A claim without a name is of
// an older release, which had made the Secret.
func (w *world) lacksKey(server *v1alpha1.MCPServer, want wanted) bool {
	claimed := server.Status.Workload
	if claimed == nil || claimed.SessionSecret != "" && claimed.SessionSecret != want.content.Proxy.SessionSecret {
		return true
	}
	var runs map[string]string
	switch hasBackend := kinds.Of(server).Backend; {
	case hasBackend && w.backend != nil:
		runs = w.backend.Spec.Template.Annotations
	case !hasBackend && w.proxy != nil:
		runs = w.proxy.Spec.Template.Annotations
	default:
		return false
	}
	return runs[podtemplate.AnnotationRestartedAt] != runspec.RestartedAt(server.Spec.RestartedAt)
}

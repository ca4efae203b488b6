package mcpserver

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// otherOperatorPatience is how long a process leaves a server to another operator that
// renders its spec otherwise. Then it claims the server once more, so that a
// server is not left alone where the other is gone. A timer, because the end of
// another process is no event.
const otherOperatorPatience = 10 * time.Minute

// otherOperator ends the pass over a server that is left to another operator.
type otherOperator struct{}

func (otherOperator) Error() string             { return "another operator runs other content of the same spec" }
func (otherOperator) RetryAfter() time.Duration { return otherOperatorPatience }

// lastClaim is what a process remembers of a server: the revision that it claimed last
// or found claimed as it would have, and since when another's stands instead.
type lastClaim struct {
	revision revision.Revision
	lost     time.Time
}

func (r *Reconciler) lastClaim(server *v1alpha1.MCPServer) lastClaim {
	remembered, _ := r.lastClaims.Get(server.UID)
	t, _ := remembered.(lastClaim)
	return t
}

func (r *Reconciler) hold(server *v1alpha1.MCPServer, rev revision.Revision) {
	r.lastClaims.Add(server.UID, lastClaim{revision: rev})
}

// yields reports whether a server is left to another operator. Two operators of
// different options, each of which believes that it leads, would else claim the
// server in turns for ever, and roll its pods each time. Who claimed last stays:
// that is who started last, and so who was meant to take over.
func (r *Reconciler) yields(p *pass, want revision.Revision) bool {
	server := p.server
	t, now := r.lastClaim(server), r.Now()
	if !superseded(t.revision, server, want) {
		return false
	}
	if t.lost.IsZero() {
		t.lost = now
		r.lastClaims.Add(server.UID, t)
		p.Event(corev1.EventTypeWarning, "OtherOperator", "Claim", fmt.Sprintf(
			"another operator claimed workload generation %d for other content of the same spec, as one of another version does: "+
				"let only one run; this one leaves the server alone for %s", server.Status.Workload.Generation, otherOperatorPatience))
	}
	return now.Before(t.lost.Add(otherOperatorPatience))
}

// workloadPath is what a claim writes, in the terms of field ownership.
var workloadPath = ownership.MustPath("status.workload.hash")

// superseded reports whether a process like ours, and not a person who edits the
// status, claimed other content above what we held, though we want the same as
// before.
func superseded(held revision.Revision, server *v1alpha1.MCPServer, want revision.Revision) bool {
	claimed := server.Status.Workload
	if claimed == nil || held.Hash != want.Hash || claimed.Hash == want.Hash || claimed.Generation <= held.Generation {
		return false
	}
	owners, err := ownership.Owners(server.ManagedFields, workloadPath)
	if err != nil || len(owners) != 1 {
		return false
	}
	return owners[0].Manager == string(kinds.Of(server).WorkloadManager) && owners[0].Operation == metav1.ManagedFieldsOperationApply
}

package config

import (
	"context"
	"errors"
	"strings"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// delete is one pass over a configuration that is being deleted. It ends with the
// last referrer, whose event wakes it, and looks at nothing else: also an invalid
// configuration goes.
func (r *Reconciler) delete(ctx context.Context, p *pass, w world) error {
	if !p.Held() {
		return nil
	}
	want := desired(w)
	if !want.held {
		return p.RemoveFinalizer(ctx)
	}
	movement, message := holds(w)
	return errors.Join(r.count(ctx, p, want, r.judgement(p.config)), p.ReportDeleting(ctx, movement, message))
}

// mostNamed is how many workloads a message names.
const mostNamed = 5

// holds is the condition that a held deletion has beside Ready, and who holds it.
// A person has to act unless all of them are going.
func holds(w world) (movement, message string) {
	var staying, going []string
	for i := range w.servers {
		if w.servers[i].DeletionTimestamp == nil {
			staying = append(staying, w.servers[i].Name)
		} else {
			going = append(going, w.servers[i].Name)
		}
	}
	const waits = "deletion waits until no workload refers to this configuration. "
	if len(staying) > 0 {
		return v1alpha1.ConditionStalled, waits + "These refer to it: " + named(staying) + ". Remove the reference from each, or delete it"
	}
	return v1alpha1.ConditionReconciling, waits + "These refer to it and are being deleted: " + named(going)
}

// named are the first of the names. How many more there are would be a write for
// each of them.
func named(names []string) string {
	more := ""
	if len(names) > mostNamed {
		names, more = names[:mostNamed], " and others"
	}
	return contract.MCPServer.Kind + " " + strings.Join(names, ", ") + more
}

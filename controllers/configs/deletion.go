package configs

import (
	"context"
	"errors"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// delete is one pass over a configuration that is being deleted. It ends with the last referrer, whose event wakes
// it, and looks at nothing else: also an invalid configuration goes.
func (r *Reconciler) delete(
	ctx context.Context, p *reconcile.Pass, config frame.Object, workloads []kinds.Object,
) error {
	if !p.HasFinalizer() {
		return nil
	}
	if len(workloads) == 0 {
		return p.RemoveFinalizer(ctx)
	}
	movement, message := holds(workloads)
	return errors.Join(r.count(ctx, p, config, r.verdict(config), workloads), p.ReportDeleting(ctx, movement, message))
}

// mostNamed is how many workloads a message names.
const mostNamed = 5

// holds is the condition that a held deletion has beside Ready, and who holds it.
// A person has to act unless all of them are going.
func holds(workloads []kinds.Object) (movement, message string) {
	var staying, going []string
	for _, server := range workloads {
		if server.GetDeletionTimestamp() == nil {
			staying = append(staying, kinds.Key(server))
		} else {
			going = append(going, kinds.Key(server))
		}
	}
	const waits = "deletion waits until no workload refers to this configuration. "
	if len(staying) > 0 {
		return v1alpha1.ConditionStalled,
			waits + "These refer to it: " + named(staying) + ". Remove the reference from each, or delete it"
	}
	return v1alpha1.ConditionReconciling, waits + "These refer to it and are being deleted: " + named(going)
}

// named are the first of the objects with these keys, sorted by kind. How many more
// there are would be a write for each of them.
func named(keys []string) string {
	more := ""
	if len(keys) > mostNamed {
		keys, more = keys[:mostNamed], " and others"
	}
	text, last := "", ""
	for _, key := range keys {
		kind, name := kinds.OfKey(key)
		switch {
		case kind.Object.Kind == last:
			text += ", " + name
		case last == "":
			text = kind.Object.Kind + " " + name
		default:
			text += " and " + kind.Object.Kind + " " + name
		}
		last = kind.Object.Kind
	}
	return text + more
}

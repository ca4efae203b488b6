package mcpserver

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// reworded is how often the words of a refusal may change.
const reworded = time.Minute

// steady keeps the words of a refusal that stand. They are somebody else's, and
// may say the same in other words each time, as with the port of a broken
// connection or the number of a request in them: each change is a write, which
// wakes the next pass, which is refused again.
func (r *Reconciler) steady(server *v1alpha1.MCPServer, found map[string]conditions.Finding) {
	stands := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
	now := found[v1alpha1.ConditionReady]
	if now.Reason != v1alpha1.ReasonApplyFailed && now.Reason != v1alpha1.ReasonNotAdoptable {
		return
	}
	if stands == nil || stands.Reason != now.Reason || stands.ObservedGeneration != server.Generation || stands.Message == now.Message {
		return
	}
	remembered, _ := r.words.Get(server.UID)
	if last, ok := remembered.(time.Time); !ok || r.Now().Sub(last) >= reworded {
		r.words.Add(server.UID, r.Now())
		return
	}
	for condition, f := range found {
		if f.Reason == now.Reason && f.Message == now.Message {
			f.Message = stands.Message
			found[condition] = f
		}
	}
}

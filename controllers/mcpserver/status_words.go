package mcpserver

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// reworded is how often the words of a refusal may change.
const reworded = time.Minute

// steady keeps the words of a refusal that stand. They are somebody else's, and
// may say the same in other words each time, as with the port of a broken
// connection or the number of a request in them: each change is a write, which
// wakes the next pass, which is refused again.
func (r *Reconciler) steady(server *v1alpha1.MCPServer, conditionType string, now conditions.Finding) conditions.Finding {
	stands := meta.FindStatusCondition(server.Status.Conditions, conditionType)
	if now.Reason != v1alpha1.ReasonApplyFailed && now.Reason != v1alpha1.ReasonNotAdoptable {
		return now
	}
	if stands == nil || stands.Reason != now.Reason || stands.ObservedGeneration != server.Generation || stands.Message == now.Message {
		return now
	}
	key := words{server.UID, conditionType}
	remembered, _ := r.words.Get(key)
	if last, ok := remembered.(time.Time); !ok || r.Now().Sub(last) >= reworded {
		r.words.Add(key, r.Now())
		return now
	}
	now.Message = stands.Message
	return now
}

// words are those of one condition of one server.
type words struct {
	server    types.UID
	condition string
}

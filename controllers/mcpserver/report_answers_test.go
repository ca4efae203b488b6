package mcpserver

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// Never Ready before MCP has answered for the content.
func TestReadyOnceMCPAnswers(t *testing.T) {
	elsewhere := answered(metav1.ConditionFalse, "NotMCP", "HTTP 404 at /mcp")
	of := func(hash string) edit { return func(s *scene) { s.server.Status.Runtime.BackendHash = hash } }
	checked := func(hash string) edit {
		return func(s *scene) {
			s.server.Status.Runtime.Candidate = &v1alpha1.CandidateStatus{Hash: hash, Answers: true}
		}
	}
	noProxy := func(s *scene) { s.world.Proxy.Status.AvailableReplicas = 0 }
	says{
		"not asked yet": {up(first, answered(metav1.ConditionUnknown, "NotAsked", "")), starting},
		"other content, not asked yet": {
			up(said("Updating"), answered(metav1.ConditionUnknown, "NotAsked", "")),
			updating,
		},
		"a runner that says nothing of it": {up(func(s *scene) { s.server.Status.Conditions = nil }), updating},
		"something else answers":           {up(first, elsewhere), conditions.False("NotMCP", "HTTP 404 at /mcp")},
		"something else, and no proxy is up": {
			up(said("Updating"), elsewhere, noProxy),
			conditions.False("NotMCP", "HTTP 404 at /mcp"),
		},
		"something else answered older content": {
			up(said("Updating"), elsewhere, func(s *scene) { s.server.Status.Runtime.Generation = 2 }), updating,
		},
		"something else answered an earlier server": {
			up(said("Updating"), elsewhere, func(s *scene) { s.server.Status.Runtime.ServerUID = "u" }), updating,
		},
		"it answered, and no proxy is up":      {up(noProxy), unavailable},
		"what got the calls before it answers": {up(said("Updating"), of("other")), updating},
		"what got them before hangs, and it has passed its check": {
			up(said("Updating"), elsewhere, of("other"), checked(digestOf(current).Backend)), isUp,
		},
		"what got them before answers, and other content has passed a check": {
			up(said("Updating"), of("other"), checked("another")), updating,
		},
		"it has passed its check, and something else answers since": {
			up(said("Updating"), elsewhere, of(digestOf(current).Backend), checked(digestOf(current).Backend)),
			conditions.False("NotMCP", "HTTP 404 at /mcp"),
		},
	}.check(t)
}

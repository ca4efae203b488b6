package mcpserver

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/controllers/conditions"
)

// Never Ready before MCP has answered for the content.
func TestReadyOnceMCPAnswers(t *testing.T) {
	elsewhere := answered(metav1.ConditionFalse, "NotMCP", "HTTP 404 at /mcp")
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
		"it answered, and no proxy is up": {up(noProxy), unavailable},
	}.check(t)
}

package mcpserver

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// answers reports whether MCP has answered for the wanted content, as the runner
// says; a finding says why it does not. There is none while the runner has not
// asked.
func answers(server *v1alpha1.MCPServer, want wanted) (bool, *conditions.Finding) {
	runtime := server.Status.Runtime
	c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionBackendAnswers)
	switch {
	case c == nil, runtime == nil, runtime.ServerUID != string(server.UID), !want.claimed(server), runtime.Generation < want.revision.Generation:
		return false, nil
	case c.Status == metav1.ConditionFalse:
		f := conditions.False(c.Reason, c.Message)
		return false, &f
	}
	return c.Status == metav1.ConditionTrue, nil
}

// Package managers is bad input: field managers that the contract does not name.
package managers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
)

const kind = "mcpserver"

var (
	// want `"mcpserver.freehold.dev/children" is a field manager: use its constant in apis/contract`
	written  = "mcpserver.freehold.dev/children"
	other    = "tools.mcpserver.freehold.dev/x" // want `is a field manager`
	together = kind + ".freehold.dev/children"  // want `"mcpserver.freehold.dev/children" is a field manager`
)

const mine ownership.Manager = "nobody" // want `"nobody" is a field manager`

const name = "somebody"

func begun(purpose string) []string {
	return []string{
		"runner.freehold.dev/" + purpose,               // want `"runner.freehold.dev/" is a field manager`
		fmt.Sprintf("runner.freehold.dev/%s", purpose), // want `is a field manager`
	}
}

func given(config *corev1.ConfigMap, options metav1.PatchOptions) {
	_ = client.FieldOwner("operator")                        // want `"operator" is a field manager`
	_ = client.FieldOwner(name)                              // want `"somebody" is a field manager`
	_ = client.FieldOwner(mine)                              // want `"nobody" is a field manager`
	_ = ownership.Manager("operator")                        // want `"operator" is a field manager`
	_ = metav1.ApplyOptions{Force: true, FieldManager: name} // want `"somebody" is a field manager`
	options.FieldManager = "operator"                        // want `"operator" is a field manager`
	_, _ = corev1ac.ExtractConfigMap(config, "operator")     // want `"operator" is a field manager`
	by("operator")                                           // want `"operator" is a field manager`
}

func by(manager ownership.Manager) bool {
	return manager == "operator" // want `"operator" is a field manager`
}

// fromTheContract is how it is done.
func fromTheContract(config *corev1.ConfigMap, from ownership.Manager) any {
	_, _ = corev1ac.ExtractConfigMap(config, string(contract.MCPServerChildren))
	if by(contract.RunnerBackend) || from == "" {
		return client.FieldOwner(contract.RunnerBackend)
	}
	return metav1.ApplyOptions{FieldManager: string(from)}
}

// apiVersion is no manager's name.
const apiVersion = "cli.freehold.dev/v1alpha1"

// labels have no purpose of a kind.
var labels = map[string]string{"freehold.dev/server": "x", "app.kubernetes.io/managed-by": "freehold.dev"}

// Package references relates workloads and shared configurations, in both directions: From reads a spec, To an index
// of the cache.
package references

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/kinds"
)

// From is the name of the configuration of a kind that a workload refers to, or empty.
func From(workload client.Object, config string) string {
	object, ok := workload.(kinds.Object)
	if !ok {
		return ""
	}
	for _, ref := range object.ConfigRefs() {
		if ref.Kind == config {
			return ref.Name
		}
	}
	return ""
}

// Package references knows which workloads refer to which shared configurations,
// in both directions: references.go by what a spec says, index.go by what a cache
// holds.
package references

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/kinds"
)

// From is the name of the configuration of a kind that a workload refers to, empty
// if to none.
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

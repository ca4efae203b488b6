package conditions

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// ForeignContent names the containers and volumes of a workload's pod template
// that manager does not own, as "WORKLOAD container NAME". They stay, because
// other managers own them; the user should know of them.
func ForeignContent(workload string, entries []metav1.ManagedFieldsEntry, manager ownership.Manager, pod corev1.PodSpec) []string {
	owned, err := ownership.Applied(entries, manager, "")
	if err != nil || owned.Empty() {
		return nil
	}
	var names []string
	foreign := func(kind, list, name string) {
		item := fieldpath.MakePathOrDie("spec", "template", "spec", list, fieldpath.KeyByFields("name", name))
		if !owned.Has(item) {
			names = append(names, fmt.Sprintf("%s %s %s", workload, kind, name))
		}
	}
	for i := range pod.InitContainers {
		foreign("init container", "initContainers", pod.InitContainers[i].Name)
	}
	for i := range pod.Containers {
		foreign("container", "containers", pod.Containers[i].Name)
	}
	for i := range pod.Volumes {
		foreign("volume", "volumes", pod.Volumes[i].Name)
	}
	return names
}

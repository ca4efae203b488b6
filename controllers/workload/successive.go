package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// strategyOf is how new content of a backend takes the place of earlier content: as the spec says, else beside it,
// unless pods of two contents could not, or might not, have at a time what the template asks for. Where the spec asks
// for the impossible that is a problem. A host port is refused by package podtemplate, whatever the strategy.
func strategyOf(
	written *v1alpha1.RolloutSpec, template *corev1ac.PodTemplateSpecApplyConfiguration, run *runconfig.Backend,
) (strategy v1alpha1.RolloutStrategy, problems []podtemplate.Problem) {
	pod := ptr.Deref(template.Spec, corev1ac.PodSpecApplyConfiguration{})
	exclusive := exclusiveTo(&pod)
	switch strategy = ptr.Deref(written, v1alpha1.RolloutSpec{}).Strategy; {
	case strategy == v1alpha1.StrategySuccessive:
		for _, what := range exclusive {
			problems = append(problems, podtemplate.Problem{
				Field: "spec.rollout.strategy", Message: fmt.Sprintf(
					"Successive has pods of two contents at a time, which would both need %s: write Replace", what),
			})
		}
	case strategy != "":
	case len(exclusive) > 0, len(run.VolumeClaimTemplates) > 0, slices.ContainsFunc(pod.Volumes, outlivesPod):
		return v1alpha1.StrategyReplace, nil
	default:
		return v1alpha1.StrategySuccessive, nil
	}
	return strategy, problems
}

// exclusiveTo is what one pod may have at a time of what a pod asks for: volumes that it writes, and devices.
func exclusiveTo(pod *corev1ac.PodSpecApplyConfiguration) (what []string) {
	for _, v := range pod.Volumes {
		claim := v.PersistentVolumeClaim
		if claim != nil && !ptr.Deref(claim.ReadOnly, false) {
			what = append(what, fmt.Sprintf("the PersistentVolumeClaim %q", ptr.Deref(claim.ClaimName, "")))
		}
	}
	for _, claim := range pod.ResourceClaims {
		what = append(what, fmt.Sprintf("the resource claim %q", ptr.Deref(claim.Name, "")))
	}
	for _, name := range extended(slices.Concat(pod.InitContainers, pod.Containers)) {
		what = append(what, "the resource "+name)
	}
	return what
}

// outlivesPod reports whether a volume is neither made for its pod alone nor of objects that pods only read. Without a
// source it is an emptyDir.
func outlivesPod(v corev1ac.VolumeApplyConfiguration) bool {
	return v.VolumeSourceApplyConfiguration != corev1ac.VolumeSourceApplyConfiguration{} &&
		v.ConfigMap == nil && v.CSI == nil && v.DownwardAPI == nil && v.EmptyDir == nil && v.Ephemeral == nil &&
		v.Image == nil && v.Projected == nil && v.Secret == nil
}

// extended are the resources of containers that nodes have few of, sorted: those with a domain that is not Kubernetes'.
func extended(containers []corev1ac.ContainerApplyConfiguration) []string {
	names := map[string]bool{}
	add := func(resources *corev1.ResourceList) {
		if resources == nil {
			return
		}
		for name := range *resources {
			domain, _, qualified := strings.Cut(string(name), "/")
			if qualified && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io") {
				names[string(name)] = true
			}
		}
	}
	for _, c := range containers {
		if c.Resources != nil {
			add(c.Resources.Limits)
			add(c.Resources.Requests)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

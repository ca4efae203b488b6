package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// checkSuccessive finds what pods of two contents cannot have at a time, where the spec asks for that.
func checkSuccessive(object kinds.Object, run *runconfig.RunConfig) (problems []podtemplate.Problem) {
	server, is := object.(*v1alpha1.MCPServer)
	if !is || server.Spec.Rollout == nil || server.Spec.Rollout.Strategy != v1alpha1.StrategySuccessive {
		return nil
	}
	template, _ := podtemplate.Backend(run.Backend, nil) // its own problems are found elsewhere
	if template.Spec == nil {
		return nil
	}
	found := func(what string) {
		problems = append(problems, podtemplate.Problem{
			Field: "spec.rollout.strategy", Message: fmt.Sprintf(
				"Successive has pods of two contents at a time, which would both need %s: write Replace", what),
		})
	}
	for _, v := range template.Spec.Volumes {
		claim := v.PersistentVolumeClaim
		if claim != nil && claim.ClaimName != nil && (claim.ReadOnly == nil || !*claim.ReadOnly) {
			found(fmt.Sprintf("the PersistentVolumeClaim %q", *claim.ClaimName))
		}
	}
	for _, name := range extended(slices.Concat(template.Spec.InitContainers, template.Spec.Containers)) {
		found("the resource " + name)
	}
	return problems
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

package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// closed has the bridge of a backend answer the server's proxies alone. By what it knows them only a runner can say
// (StateProxySum): the operator does not have the key, so that the hash of content is that of the variable without a
// value (docs/adr/0090-a-bridge-answers-its-proxies.md).
func closed(template *corev1ac.PodTemplateSpecApplyConfiguration, run runconfig.Backend) {
	if run.Bridge == nil {
		return
	}
	container := &template.Spec.Containers[slices.IndexFunc(template.Spec.Containers, isServer)]
	if at := slices.IndexFunc(template.Spec.InitContainers, isBridge); run.PodPort() != run.Port {
		container = &template.Spec.InitContainers[at]
	}
	container.Env = slices.DeleteFunc(container.Env, isProxySum)
	container.WithEnv(corev1ac.EnvVar().WithName(runconfig.EnvProxySum))
}

func isBridge(container corev1ac.ContainerApplyConfiguration) bool {
	return ptr.Deref(container.Name, "") == runconfig.BridgeContainer
}

func isProxySum(variable corev1ac.EnvVarApplyConfiguration) bool {
	return ptr.Deref(variable.Name, "") == runconfig.EnvProxySum
}

// AsksProxies reports whether a pod has a bridge that answers proxies alone.
func AsksProxies(pod *corev1ac.PodSpecApplyConfiguration) bool {
	return slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers),
		func(c corev1ac.ContainerApplyConfiguration) bool {
			return slices.ContainsFunc(c.Env, isUnstated)
		})
}

// isUnstated tells the variable from one of the spec's with its name, in another container.
func isUnstated(variable corev1ac.EnvVarApplyConfiguration) bool {
	return isProxySum(variable) && variable.Value == nil && variable.ValueFrom == nil
}

// StateProxySum says in a pod by what its bridge knows proxies. It changes nothing that the pod shares with others.
func StateProxySum(pod *corev1ac.PodSpecApplyConfiguration, sum string) {
	for _, containers := range []*[]corev1ac.ContainerApplyConfiguration{&pod.InitContainers, &pod.Containers} {
		*containers = slices.Clone(*containers)
		for i := range *containers {
			c := &(*containers)[i]
			if at := slices.IndexFunc(c.Env, isUnstated); at >= 0 {
				c.Env = slices.Clone(c.Env)
				c.Env[at].Value = &sum
			}
		}
	}
}

// ProxySum is what a pod says of that, empty where it says nothing.
func ProxySum(pod corev1.PodSpec) string {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, variable := range c.Env {
			if variable.Name == runconfig.EnvProxySum {
				return variable.Value
			}
		}
	}
	return ""
}

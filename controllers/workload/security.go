package workload

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// runnerUser is the user and group of the runner's image. A number, because
// kubelet cannot tell whether a named user is root.
const runnerUser = 65532

// podSecurity and containerSecurity together meet the "restricted" Pod Security
// Standard (https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted).
// Both levels say runAsNonRoot and seccompProfile: the pod's for containers
// that an overlay adds, the container's so that an overlay cannot lower ours.
func podSecurity() *corev1ac.PodSecurityContextApplyConfiguration {
	return corev1ac.PodSecurityContext().
		WithRunAsNonRoot(true).
		WithSeccompProfile(seccomp())
}

func containerSecurity() *corev1ac.SecurityContextApplyConfiguration {
	return corev1ac.SecurityContext().
		WithRunAsNonRoot(true).
		WithAllowPrivilegeEscalation(false).
		WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")).
		WithSeccompProfile(seccomp())
}

// runnerSecurity is for our own image, of which we also know that it writes no
// files.
func runnerSecurity() *corev1ac.SecurityContextApplyConfiguration {
	return containerSecurity().
		WithRunAsUser(runnerUser).
		WithRunAsGroup(runnerUser).
		WithReadOnlyRootFilesystem(true)
}

func seccomp() *corev1ac.SeccompProfileApplyConfiguration {
	return corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault)
}

// LeaveNode says in template, for this one write, that the pods stay out of the
// node's network, processes and memory, where somebody put the live ones there,
// and returns which of the fields it set. Stating false always would be dropped
// by the API server and, beside a second applier, be written on every pass.
func LeaveNode(template *corev1ac.PodTemplateSpecApplyConfiguration, live corev1.PodSpec) []string {
	var left []string
	if !live.HostNetwork && !live.HostPID && !live.HostIPC {
		return left
	}
	if template.Spec == nil {
		template.WithSpec(corev1ac.PodSpec()) // restated of a pod spec that another hand replaced
	}
	spec := template.Spec
	if live.HostNetwork {
		spec.WithHostNetwork(false)
		left = append(left, "hostNetwork")
	}
	if live.HostPID {
		spec.WithHostPID(false)
		left = append(left, "hostPID")
	}
	if live.HostIPC {
		spec.WithHostIPC(false)
		left = append(left, "hostIPC")
	}
	return left
}

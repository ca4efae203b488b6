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

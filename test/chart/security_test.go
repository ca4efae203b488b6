package chart

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// loose is what the "restricted" Pod Security Standard, and our own rules,
// miss in a pod: https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
func loose(pod corev1.PodSpec) []string {
	var found []string
	missing := func(ok bool, what string) {
		if !ok {
			found = append(found, what)
		}
	}
	sc := pod.SecurityContext
	missing(sc != nil && isTrue(sc.RunAsNonRoot), "runAsNonRoot")
	missing(sc != nil && sc.SeccompProfile != nil && sc.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"seccompProfile")
	missing(!pod.HostNetwork && !pod.HostPID && !pod.HostIPC, "no host namespaces")
	for _, container := range pod.Containers {
		c := container.SecurityContext
		missing(c != nil && isTrue(c.ReadOnlyRootFilesystem), "readOnlyRootFilesystem")
		missing(c != nil && c.AllowPrivilegeEscalation != nil && !*c.AllowPrivilegeEscalation,
			"allowPrivilegeEscalation: false")
		missing(c != nil && c.Capabilities != nil && slices.Contains(c.Capabilities.Drop, "ALL") &&
			len(c.Capabilities.Add) == 0, "capabilities: drop ALL")
		missing(container.LivenessProbe != nil && container.ReadinessProbe != nil, "probes")
		missing(!container.Resources.Requests.Cpu().IsZero() && !container.Resources.Limits.Memory().IsZero(), "resources")
	}
	return found
}

func isTrue(b *bool) bool { return b != nil && *b }

func TestOperatorRunsRestricted(t *testing.T) {
	for _, golden := range []string{"default", "everything"} {
		var operator appsv1.Deployment
		rendered(t, golden, "Deployment", "freehold-operator", &operator)
		if found := loose(operator.Spec.Template.Spec); len(found) > 0 {
			t.Errorf("%s: the operator's pod lacks %s", golden, strings.Join(found, ", "))
		}
	}
	if found := loose(corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{}}}); len(found) != 8 {
		t.Errorf("of a pod without any setting only %v is seen", found)
	}
}

// TestOperatorSaysWhereItListens holds that each port it opens is declared, and that a value closes metrics.
func TestOperatorSaysWhereItListens(t *testing.T) {
	for golden, want := range map[string][]string{
		"default": {"probes", "metrics"},
		"single":  {"probes"},
	} {
		var operator appsv1.Deployment
		rendered(t, golden, "Deployment", "freehold-operator", &operator)
		var have []string
		for _, port := range operator.Spec.Template.Spec.Containers[0].Ports {
			have = append(have, port.Name)
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: the operator declares %v, want %v", golden, have, want)
		}
	}
}

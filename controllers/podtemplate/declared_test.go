package podtemplate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// Kubelet expands in the pod of a server of transport stdio what it expands without a bridge, which gives variables of
// envFrom another name.
func TestReferencesToVariablesOfEnvFromAreExpanded(t *testing.T) {
	from := []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
	}
	for name, tc := range map[string]struct {
		written, wanted string
		from            []corev1.EnvFromSource
	}{
		"of envFrom":       {"a:$(PASSWORD)@b", "a:$(FREEHOLD_DECLARED_PASSWORD)@b", from},
		"several":          {"$(A)$(B)", "$(FREEHOLD_DECLARED_A)$(FREEHOLD_DECLARED_B)", from},
		"of env before it": {"$(FIRST)", "$(FIRST)", from},
		"of env after it":  {"$(LAST)", "$(FREEHOLD_DECLARED_LAST)", from},
		"a dollar":         {"$$(PASSWORD)", "$$(PASSWORD)", from},
		"and a reference":  {"$$$(PASSWORD)", "$$$(FREEHOLD_DECLARED_PASSWORD)", from},
		"none":             {"$PASSWORD $( ${PASSWORD} $é$", "$PASSWORD $( ${PASSWORD} $é$", from},
		"of the cluster":   {"$(KUBERNETES_SERVICE_HOST)", "$(KUBERNETES_SERVICE_HOST)", from},
		"without envFrom":  {"$(PASSWORD)", "$(PASSWORD)", nil},
	} {
		t.Run(name, func(t *testing.T) {
			template, problems := Backend(runconfig.Backend{
				Transport: "stdio", Port: 8080, Bridge: &runconfig.Bridge{Image: "r", Sessions: 1}, EnvFrom: tc.from,
				Env:     []corev1.EnvVar{{Name: "FIRST", Value: "1"}, {Name: "IT", Value: tc.written}, {Name: "LAST", Value: "3"}},
				Command: []string{"serve"}, Args: []string{tc.written},
			}, nil)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			server := template.Spec.Containers[0]
			if diff := cmp.Diff(tc.wanted, *server.Env[1].Value); diff != "" {
				t.Errorf("env: %s", diff)
			}
			wanted := tc.wanted
			if name == "of env after it" {
				wanted = tc.written // a command is expanded after all of env
			}
			if diff := cmp.Diff(wanted, server.Args[len(server.Args)-1]); diff != "" {
				t.Errorf("args: %s", diff)
			}
		})
	}
}

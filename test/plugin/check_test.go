package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/test/kit"
)

// What check says of an operator that does not run, of accounts with and without rights, and of what it cannot look at.
func TestAnInstallationIsChecked(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.Apply("git", installed)
	got := s.checks()
	s.says(got, 1, "kubernetes OK ", "crds OK ", "operator Failed "+s.Namespace+"/their-release-operator has no replicas",
		"metrics Warning", "policies ", "images OK ", "network Unknown",
		"rights Failed ServiceAccount "+s.Namespace+"/freehold-", " may not ", "; and ")
	s.Apply("git", strings.ReplaceAll(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAMESPACE}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:serviceaccounts:NAMESPACE"}]
`, "NAMESPACE", s.Namespace))
	s.Apply("git", strings.ReplaceAll(installed, "replicas: 0", "replicas: 1"))
	for end := time.Now().Add(s.Patience); !strings.Contains(got.out, "rights OK ") && time.Now().Before(end); {
		got = s.checks() // the API server reads new bindings after a moment
	}
	s.says(got, 1, "rights OK ", "operator Failed "+s.Namespace+"/their-release-operator has no ready pod: pods ",
		"violates PodSecurity")
	s.says(s.asks("", "check", "--network"), 2, "name the server")
}

// A pod runs beside the server to its end, within what the strictest namespaces admit, and is gone.
func TestWhetherABackendIsOpenIsMeasured(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.says(s.checks("echo", "--network"), 1, "network Unknown no NetworkPolicy is about the backend")
	s.Apply("git", kit.Server("echo", "registry.example.com/echo:1", "network: {backendIngress: ProxyOnly}"))
	s.pass("echo")
	for code, says := range map[int32]string{
		runconfig.ReachClosed:  "network OK NetworkPolicies are enforced",
		runconfig.ReachOpen:    "network Failed NetworkPolicies are not enforced",
		runconfig.ReachUnknown: "network Unknown a pod beside the server reaches its proxy no more",
	} {
		said := make(chan answer, 1)
		go func() { said <- s.checks("echo", "--network") }()
		args := s.endStranger(code)
		// No kubelet answers here, so that nothing is forwarded to the proxy.
		s.says(<-said, 1, "answer Failed", says)
		if !slices.Contains(args, fmt.Sprintf("--backend=echo-backend.%s.svc:9443", s.Namespace)) ||
			!slices.Contains(args, fmt.Sprintf("--proxy=echo-proxy.%s.svc:8000", s.Namespace)) {
			t.Errorf("the pod runs %q", args)
		}
		if left := s.strangers(); len(left) > 0 {
			t.Errorf("%d pods are left", len(left))
		}
	}
}

// checks runs check, and returns its table with single spaces.
func (s *story) checks(args ...string) answer {
	s.Helper()
	got := s.asks("", append([]string{"check"}, args...)...)
	got.out = strings.Join(strings.Fields(got.out), " ")
	return got
}

func (s *story) strangers() []corev1.Pod {
	pods := &corev1.PodList{}
	if err := s.Client.List(s.Ctx, pods, client.InNamespace(s.Namespace),
		client.MatchingLabels{"app.kubernetes.io/name": "freehold-check"}); err != nil {
		s.Error(err)
	}
	return pods.Items
}

// endStranger ends the pod of a check, as kubelet does, and returns its arguments.
func (s *story) endStranger(code int32) []string {
	for end := time.Now().Add(s.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, pod := range s.strangers() {
			container := pod.Spec.Containers[0]
			pod.Status.Phase = corev1.PodFailed
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: container.Name, Image: container.Image,
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
			}}
			err := s.Client.Status().Update(s.Ctx, &pod)
			if err == nil {
				return container.Args
			}
			s.Logf("ending pod %s: %v", pod.Name, err)
		}
	}
	s.Fatal("no pod was made")
	return nil
}

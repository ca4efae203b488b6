package mcpserver

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// An account that cannot be made now has no other owner: the rights stay, and the proxy that stands is scaled.
func TestObjects_ARefusedAccountKeepsWhatStands(t *testing.T) {
	r, s := settled(t)
	delete(s.objects, storedKey{"ServiceAccount", workload.RunnerName("echo")})
	edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Proxy.Replicas = new(int32(2)) })
	s.refuse = func(kind string) error {
		if kind == "ServiceAccount" {
			return errors.New("not now")
		}
		return nil
	}
	_, err := r.Reconcile(t.Context(), theServer)
	proxy := s.objects[storedKey{"Deployment", "echo-proxy"}].(*appsv1.Deployment)
	if err == nil || *proxy.Spec.Replicas != 2 || s.objects[storedKey{"RoleBinding", workload.RunnerName("echo")}] == nil {
		t.Errorf("it ends with %v, and has %d proxies and of rights %v", err, *proxy.Spec.Replicas,
			s.objects[storedKey{"RoleBinding", workload.RunnerName("echo")}])
	}
}

// Rights that rest on another's Role go also where the claim of new content is refused.
func TestObjects_ARefusedClaimDoesNotLeaveRightsToAnother(t *testing.T) {
	r, s := settled(t)
	role := s.objects[storedKey{"Role", workload.RunnerName("echo")}].(*rbacv1.Role)
	role.OwnerReferences, role.ManagedFields = nil, []metav1.ManagedFieldsEntry{{
		Manager: "helm", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "rbac.authorization.k8s.io/v1",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:rules":{}}`),
	}}
	s.put(role)
	edited(s, func(m *v1alpha1.MCPServer) { m.Spec.Args = []string{"x"} })
	s.refuse = func(kind string) error {
		if kind == "MCPServer" && read(s).Status.Phase != v1alpha1.PhaseServing {
			return apierrors.NewBadRequest("no claims today")
		}
		return nil
	}
	for range 3 {
		_, _ = r.Reconcile(t.Context(), theServer)
	}
	if read(s).Status.Workload.Generation != 1 || s.objects[storedKey{"RoleBinding", workload.RunnerName("echo")}] != nil {
		t.Errorf("the claim is of %d, and the rights are bound to another's Role", read(s).Status.Workload.Generation)
	}
}

func TestObjects_AHostNamespaceThatIsTakenOffIsAnEvent(t *testing.T) {
	r, s := settled(t)
	recorder := events.NewFakeRecorder(10)
	r.Events = recorder
	if err := s.apply(appsv1ac.Deployment("echo-proxy", "ns").WithSpec(appsv1ac.DeploymentSpec().WithTemplate(
		corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithHostPID(true)))), "intruder", ""); err != nil {
		t.Fatal(err)
	}
	rest(t, r, s)
	close(recorder.Events)
	told := ""
	for e := range recorder.Events {
		told += e + "\n"
	}
	if !strings.Contains(told, "Warning HostAccessRemoved another field manager set hostPID") {
		t.Errorf("told is %q", told)
	}
}

// A Deployment that is rendered again has the labels of now, though its pods are as they were.
func TestObjects_TheProxyHasTheLabelsThatTheReleaseHandsDown(t *testing.T) {
	r, s := settled(t)
	r.renderer.Release.Objects = podtemplate.ObjectDefaults{InheritLabels: []string{"team"}}
	for _, team := range []string{"red", "blue"} {
		server := read(s)
		server.Labels = map[string]string{"team": team}
		s.put(server)
		rest(t, r, s)
		if got := s.objects[storedKey{"Deployment", "echo-proxy"}].GetLabels()["team"]; got != team {
			t.Errorf("the proxy is of team %q, want %q", got, team)
		}
	}
}

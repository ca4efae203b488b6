package identity

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// everybody has all identities of the contract, the runner's being that of echo, with the role that it is given.
func everybody(t *testing.T, s *kit.Env) map[string]*rest.Config {
	t.Helper()
	server := makeServer(t, s, "echo")
	grantor := connect(t, installed(contract.IdentityRBAC))
	for _, resource := range []string{"roles", "rolebindings"} {
		s.Must(server.apply(s.Ctx, grantor, contract.RBACChildren, "", server.intents[resource]),
			"making the runner's rights")
	}
	all := map[string]*rest.Config{
		contract.IdentityOperator: plane.OperatorConfig(),
		contract.IdentityRunner:   plane.AsServiceAccount(s.Namespace, "echo-runner"),
	}
	for _, identity := range contract.Controllers() {
		all[identity] = installed(identity)
	}
	return all
}

// forbidden expects a refusal that says as much.
func forbidden(t *testing.T, what string, err error, says ...string) {
	t.Helper()
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		t.Errorf("%s is not refused: %v", what, err)
		return
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the refusal of %s does not say %q: %v", what, text, err)
		}
	}
}

// TestWhatNobodyMayDo holds what no identity of ours may do, whatever the process does wrong.
func TestWhatNobodyMayDo(t *testing.T) {
	s := kit.NewEnv(t, plane)
	meta := metav1.ObjectMeta{Name: "theirs", Namespace: s.Namespace}
	s.Must(s.Client.Create(s.Ctx, &corev1.Secret{ObjectMeta: meta}), "making a Secret")
	labelled := metav1.ObjectMeta{
		Name: "echo-session", Namespace: s.Namespace,
		Labels: map[string]string{"app.kubernetes.io/managed-by": "freehold"},
	}
	s.Must(s.Client.Create(s.Ctx, &corev1.Secret{ObjectMeta: labelled}), "making a Secret like one of ours")
	s.Must(s.Client.Create(s.Ctx, &appsv1.StatefulSet{ObjectMeta: meta, Spec: idle()}), "making somebody's StatefulSet")
	for identity, config := range everybody(t, s) {
		t.Run(identity, func(t *testing.T) {
			c := connect(t, config)
			merge := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
			forbidden(t, "reading a Secret",
				c.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: "theirs"}, &corev1.Secret{}),
				`cannot get resource "secrets"`)
			forbidden(t, "listing Secrets", c.List(t.Context(), &corev1.SecretList{}, client.InNamespace(s.Namespace)),
				`cannot list resource "secrets"`)
			// The answer to a patch holds the Secret, also to one of nothing.
			for _, name := range []string{"theirs", "echo-session"} {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
				forbidden(t, "a patch of Secret "+name, c.Patch(t.Context(), secret.DeepCopy(), merge))
				forbidden(t, "a patch of nothing of Secret "+name,
					c.Patch(t.Context(), secret.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{}`))))
				forbidden(t, "a dry run of it",
					c.Patch(t.Context(), secret.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{}`)), client.DryRunAll))
				secret.SetGroupVersionKind(contract.Secret.GroupVersionKind)
				again := unstructuredOf(s, secret)
				forbidden(t, "an apply of Secret "+name,
					c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(again),
						client.FieldOwner(contract.MCPServerChildren), client.ForceOwnership))
			}
			forbidden(t, "a pod", c.Create(t.Context(), &corev1.Pod{ObjectMeta: meta}), `cannot create resource "pods"`)
			forbidden(t, "a kind of others", c.Create(t.Context(), &batchv1.Job{ObjectMeta: meta}),
				`cannot create resource "jobs"`)
			forbidden(t, "a change of a kind of others",
				c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}, merge),
				`cannot patch resource "namespaces"`)
			forbidden(t, "a change of another's object", c.Patch(t.Context(), &appsv1.StatefulSet{ObjectMeta: meta}, merge))
			for _, object := range []client.Object{
				&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{GenerateName: "any-", Namespace: s.Namespace}, Spec: idle()},
				&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "any", Namespace: s.Namespace}, Spec: idle()},
				&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "echo-backend", Namespace: s.Namespace}, Spec: idle()},
			} {
				says := `cannot create resource "statefulsets"`
				if identity == contract.IdentityRBAC { // which has the right, to grant it
					says = "belongs to Freehold, which writes StatefulSet only under the field managers of that identity"
				}
				forbidden(t, fmt.Sprintf("creating StatefulSet %q", object.GetName()), c.Create(t.Context(), object), says)
			}
		})
	}
}

// TestTheGrantorUsesNothingThatItGrants holds that the right to a backend is
// good for a Role and nothing else, also under the grantor's own manager.
func TestTheGrantorUsesNothingThatItGrants(t *testing.T) {
	s := kit.NewEnv(t, plane)
	server, c := makeServer(t, s, "echo"), connect(t, installed(contract.IdentityRBAC))
	for _, resource := range []string{"statefulsets", "services"} {
		forbidden(t, "applying "+resource, server.apply(s.Ctx, c, contract.RBACChildren, "", server.intents[resource]),
			"has no grant on "+resource)
	}
	forbidden(t, "reporting", server.apply(s.Ctx, c, contract.RBACChildren, "status", server.intents["mcpservers/status"]),
		"has no grant on mcpservers/status")
	forbidden(t, "writing as a runner", server.apply(s.Ctx, c, contract.RunnerBackend, "", server.intents["statefulsets"]),
		"freehold-rbac belongs to Freehold")
}

// TestTheProcessActsAsItsControllersOnly holds that a process may impersonate
// nobody but its controllers, and that as itself it writes no object.
func TestTheProcessActsAsItsControllersOnly(t *testing.T) {
	s := kit.NewEnv(t, plane)
	server := makeServer(t, s, "echo")
	as := func(user string, groups ...string) client.Client {
		config := plane.OperatorConfig()
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return connect(t, config)
	}
	account := func(namespace, name string) string { return "system:serviceaccount:" + namespace + ":" + name }
	for name, c := range map[string]client.Client{
		"the administrator":                 as("admin", "system:masters"),
		"kube-controller-manager":           as("system:kube-controller-manager"),
		"another account beside it":         as(account(kit.SystemNamespace, "default")),
		"a controller of another namespace": as(account(s.Namespace, contract.IdentityMCPServer)),
		"the runner of a server":            as(account(s.Namespace, "echo-runner")),
		"a controller with another group":   as(account(kit.SystemNamespace, contract.IdentityMCPServer), "system:masters"),
	} {
		forbidden(t, name, c.Get(s.Ctx, client.ObjectKeyFromObject(server.object), &corev1.ConfigMap{}), "cannot impersonate")
	}
	process := connect(t, plane.OperatorConfig())
	for _, g := range freehold.Grants {
		resource := g.Object.Resource()
		if g.Identity == contract.IdentityRunner || g.Identity == contract.IdentityRemoteRunner {
			continue
		}
		intent := server.intents[resource]
		if g.Owner == contract.MCPRemoteProxy {
			intent = server.intents[resource+ofRemote]
		}
		forbidden(t, resource+" as "+string(g.Manager), server.apply(s.Ctx, process, g.Manager, g.Object.Subresource, intent),
			"cannot patch resource")
	}
	controller := as(account(kit.SystemNamespace, contract.IdentityMCPServer))
	s.Must(server.apply(s.Ctx, controller, contract.MCPServerChildren, "", server.intents["serviceaccounts"]),
		"writing as a controller")
}

// TestAConfigurationsStatusIsItsControllers holds that nobody else of ours may write
// it, whatever the field manager: roles say so where no policy is installed.
func TestAConfigurationsStatusIsItsControllers(t *testing.T) {
	s := kit.NewEnv(t, plane)
	for identity, config := range everybody(t, s) {
		for _, c := range contract.Configs() {
			if c.Identity == identity {
				continue
			}
			resource := c.Object.Resource()
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(c.Object.GroupVersionKind)
			object.SetName("echo")
			object.SetNamespace(s.Namespace)
			merge := client.RawPatch(types.MergePatchType, []byte(`{"status":{"workloads":7}}`))
			forbidden(t, resource+"/status as "+identity, connect(t, config).Status().Patch(t.Context(), object, merge),
				"cannot patch resource")
			forbidden(t, resource+" as "+identity, connect(t, config).Patch(t.Context(), object, merge), "cannot patch resource")
		}
	}
}

// idle is a StatefulSet's spec that makes no pod.
func idle() appsv1.StatefulSetSpec {
	labels := map[string]string{"a": "b"}
	return appsv1.StatefulSetSpec{
		Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		},
	}
}

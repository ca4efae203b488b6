package policy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// ownPods are the selector and the pod template of a backend of the server echo, and
// ownedBy the owner of what its runner makes; $uid stands for the server's uid.
const (
	ownLabels = "{freehold.dev/server: echo, app.kubernetes.io/component: backend}"
	ownPods   = "selector: {matchLabels: " + ownLabels + "}, template: {metadata: {labels: " + ownLabels + "}, spec: {" +
		restrictedSpec + "}}"
	owned = `metadata: {annotations: {freehold.dev/workload-generation: "1"}, labels: {app.kubernetes.io/managed-by: freehold, freehold.dev/server: echo}, ` +
		"ownerReferences: [{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, name: echo, uid: $uid, controller: true}]}\n"
	// restrictedSpec is what namespaces of the tests let in.
	restrictedSpec = "containers: [{name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: " +
		"{drop: [ALL]}}}], " +
		"securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}"
	proxyLabels = "{freehold.dev/server: victim, app.kubernetes.io/component: proxy}"
)

// A runner's token makes nothing that is taken for a part of another server, and no
// Service that is reached from elsewhere or leads elsewhere.
func TestAStolenTokenStaysAtItsServer(t *testing.T) {
	s := kit.NewEnv(t, plane)
	uid := makeOwners(s)[contract.MCPServer.Kind]
	runner, m := as(t, s.Namespace, "echo-runner"), string(contract.RunnerBackend)
	set := func(from, to string) error {
		text := owned + "spec: {serviceName: s, " + ownPods + "}"
		o := s.Intent("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: echo-backend}}")
		merge(o.Object, object(strings.ReplaceAll(replaced(t, text, from, to), "$uid", uid)).Object)
		return applied(t.Context(), runner, m, "", o, true)
	}
	service := func(from, to string) error {
		text := owned + "spec: {type: ClusterIP, selector: " + ownLabels + ", ports: [{port: 80, protocol: TCP}]}"
		o := s.Intent("{apiVersion: v1, kind: Service, metadata: {name: echo-backend}}")
		merge(o.Object, object(strings.ReplaceAll(replaced(t, text, from, to), "$uid", uid)).Object)
		return applied(t.Context(), runner, m, "", o, true)
	}
	attack := func() {
		t.Helper()
		refused(t, set("containers:", "serviceAccountName: other-runner, containers:"),
			"an account of a runner, other-runner")
		refused(t, service(ownLabels, "{a: b}"), "the selector of another Service")
		refused(t, service("type: ClusterIP", "type: NodePort"), "the type NodePort")
		refused(t, service("type: ClusterIP", "type: LoadBalancer"), "the type LoadBalancer")
		for _, send := range []func(from, to string) error{set, service} {
			refused(t, send("annotations: {", "annotations: {external-dns.alpha.kubernetes.io/hostname: login.example.com, "),
				"external-dns.alpha.kubernetes.io/hostname")
			refused(t, send("annotations: {", `annotations: {freehold.dev/break-glass-generation: "1", `),
				"freehold.dev/break-glass-generation")
			refused(t, send("labels: {app", "labels: {argocd.argoproj.io/instance: other, app"), "argocd.argoproj.io/instance")
		}
	}
	for _, send := range []func(from, to string) error{set, service} {
		refused(t, send("name: echo, uid", "name: other, uid"), "an owner that is not the MCPServer echo")
		refused(t, send("kind: MCPServer", "kind: MCPRemoteProxy"), "an owner that is not the MCPServer echo")
		refused(t, send(", controller: true", ""), "an owner that is not the MCPServer echo")
	}
	refused(t, set(ownLabels, "{a: b}"), "pods without the labels of this backend", "the selector of another backend")
	// Later the API server holds both to the selector, which cannot change.
	for _, labels := range []string{
		proxyLabels, "{freehold.dev/server: echo, app.kubernetes.io/component: proxy}",
		"{freehold.dev/server: victim, app.kubernetes.io/component: backend}",
	} {
		refused(t, set(ownLabels, labels), "pods without the labels of this backend", "the selector of another backend")
	}
	attack()
	s.Must(set("", ""), "making the backend")
	s.Must(service("", ""), "making its Service")
	attack()
	s.Force("sre", "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: echo-backend}, spec: {template: "+
		"{metadata: {labels: {team: a}}, spec: {serviceAccountName: gitlab-runner}}}}")
	s.Must(set("serviceName: s", "serviceName: s, revisionHistoryLimit: 3"),
		"changing the backend beside what another manager states")
}

// The labels of a slot are on what has the names of that slot alone.
func TestARunnerKeepsItsSlotsApart(t *testing.T) {
	s := kit.NewEnv(t, plane)
	uid := makeOwners(s)[contract.MCPServer.Kind]
	runner := as(t, s.Namespace, "echo-runner")
	send := func(kind, name, slot string) error {
		own := "{freehold.dev/server: echo, app.kubernetes.io/component: " + slot + "}"
		text := "spec: {type: ClusterIP, selector: $own, ports: [{port: 80, protocol: TCP}]}"
		if kind == "apps/v1, kind: StatefulSet" {
			text = "spec: {serviceName: s, " + strings.ReplaceAll(ownPods, ownLabels, "$own") + "}"
		}
		o := s.Intent("{apiVersion: " + kind + ", metadata: {name: " + name + "}}")
		merge(o.Object, object(strings.NewReplacer("$uid", uid, "$own", own).Replace(owned+text)).Object)
		return applied(t.Context(), runner, string(contract.RunnerBackend), "", o, true)
	}
	for _, name := range []string{"echo-backend", "echo-slot2"} {
		slot, other := "backend", "backend-slot2"
		if name == "echo-slot2" {
			slot, other = other, slot
		}
		refused(t, send("apps/v1, kind: StatefulSet", name, other), "pods without the labels of this backend",
			"the selector of another backend")
		s.Must(send("apps/v1, kind: StatefulSet", name, slot), "making the StatefulSet "+name)
		for _, service := range []string{name, name + "-headless"} {
			refused(t, send("v1, kind: Service", service, other), "the selector of another Service")
			s.Must(send("v1, kind: Service", service, slot), "making the Service "+service)
		}
	}
}

// replaced is a text in which something stands in place of all that is from.
func replaced(t *testing.T, text, from, to string) string {
	t.Helper()
	if from != "" && !strings.Contains(text, from) {
		t.Fatalf("there is no %q in %s", from, text)
	}
	if from == "" {
		return text
	}
	return strings.ReplaceAll(text, from, to)
}

// editor is somebody with the cluster's role edit in the namespace.
func editor(s *kit.Env, t *testing.T) client.Client {
	t.Helper()
	s.Must(admin.Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "edit", Namespace: s.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "mallory"}},
	}), "giving edit")
	c := clientOf(t, plane.As("mallory"))
	// The authorizer hears of the binding a moment later.
	s.Must(wait.PollUntilContextTimeout(s.Ctx, 50*time.Millisecond, kit.Patience, true,
		func(ctx context.Context) (bool, error) {
			err := c.Create(ctx, s.Intent("{apiVersion: v1, kind: ConfigMap, metadata: {name: probe}}"), client.DryRunAll)
			return err == nil, ignoreForbidden(err)
		}), "waiting for edit")
	return c
}

func ignoreForbidden(err error) error {
	if apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// templates are the kinds that make pods, with labels of the template.
var templates = map[string]string{
	"Deployment": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {selector: {matchLabels: {a: " +
		"b}}, template: {metadata: {labels: %s}, spec: {" + restrictedSpec + "}}}}",
	"StatefulSet": "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: %s}, spec: {serviceName: s, selector: " +
		"{matchLabels: {a: b}}, " +
		"template: {metadata: {labels: %s}, spec: {" + restrictedSpec + "}}}}",
	"ReplicaSet": "{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: %s}, spec: {selector: {matchLabels: {a: " +
		"b}}, template: {metadata: {labels: %s}, spec: {" + restrictedSpec + "}}}}",
}

const asProxy = "{a: b, freehold.dev/server: victim, app.kubernetes.io/component: proxy}"

// Who may make pods, or what makes them, makes none that are taken for Freehold's.
func TestNobodyElseLabelsPods(t *testing.T) {
	s := kit.NewEnv(t, plane)
	c := editor(s, t)
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: %s}, spec: {" + restrictedSpec + "}}"
	const says = "Leave freehold.dev/server and app.kubernetes.io/component"
	refused(t, c.Create(s.Ctx, s.Intent(fmt.Sprintf(pod, "evil", asProxy))), says)
	mine := s.Intent(fmt.Sprintf(pod, "mine", "{a: b, app.kubernetes.io/component: proxy}"))
	s.Must(c.Create(s.Ctx, mine), "making a pod")
	relabel := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"freehold.dev/server":"victim"}}}`))
	refused(t, c.Patch(s.Ctx, mine, relabel), says)
	for kind, text := range templates {
		t.Run(kind, func(t *testing.T) {
			for _, name := range []string{"evil", "victim-proxy", "victim-backend", "victim-proxy-5d8f"} {
				refused(t, c.Create(s.Ctx, s.Intent(fmt.Sprintf(text, name, asProxy))), says)
			}
			mine := s.Intent(fmt.Sprintf(text, "mine", "{a: b}"))
			s.Must(c.Create(s.Ctx, mine), "making pods")
			relabel := client.RawPatch(types.MergePatchType,
				[]byte(`{"spec":{"template":{"metadata":{"labels":{"freehold.dev/server":"victim"}}}}}`))
			refused(t, c.Patch(s.Ctx, mine, relabel), says)
			hide := `{"metadata":{"labels":{"app.kubernetes.io/managed-by":"freehold"}},"spec":{"template":{"metadata":{"labels":{"freehold.dev/server":"victim"}}}}}`
			refused(t, c.Patch(s.Ctx, mine, client.RawPatch(types.MergePatchType, []byte(hide))), says)
		})
	}
}

// pair makes a proxy and a backend of the server echo, waits until both have a pod, and returns them.
func pair(t *testing.T, s *kit.Env) (proxy, backend *unstructured.Unstructured, pods *corev1.PodList) {
	t.Helper()
	uid := makeOwners(s)[contract.MCPServer.Kind]
	proxy = s.Intent("{apiVersion: apps/v1, kind: Deployment, metadata: {name: echo-proxy}}")
	merge(proxy.Object, object(strings.ReplaceAll(owned, "$uid", uid)+"spec: {replicas: 1, "+
		strings.ReplaceAll(ownPods, "component: backend", "component: proxy")+"}").Object)
	s.Must(applied(s.Ctx, controller(t), string(contract.MCPServerChildren), "", proxy, true), "making a proxy")
	backend = s.Intent("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: echo-backend}}")
	merge(backend.Object, object(strings.ReplaceAll(owned, "$uid", uid)+"spec: {serviceName: s, "+ownPods+"}").Object)
	s.Must(applied(s.Ctx, as(t, s.Namespace, "echo-runner"), string(contract.RunnerBackend), "", backend, true),
		"making a backend")
	pods = &corev1.PodList{}
	s.AwaitAll(pods, "both have a pod", func() error {
		if len(pods.Items) < 2 {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		return nil
	})
	return proxy, backend, pods
}

func mergePatch(text string) client.Patch { return client.RawPatch(types.MergePatchType, []byte(text)) }

// What stands is changed and scaled by whoever may, Kubernetes' controllers make its
// pods, and who may act as Freehold restores it.
func TestWhatIsLabelledGoesOn(t *testing.T) {
	s := kit.NewEnv(t, plane)
	c := editor(s, t)
	proxy, backend, pods := pair(t, s)
	for i := range pods.Items {
		s.Must(c.Patch(s.Ctx, &pods.Items[i], mergePatch(noteB)), "annotating a pod")
		s.Must(c.Patch(s.Ctx, &pods.Items[i], mergePatch(`{"metadata":{"labels":{"freehold.dev/server":null}}}`)),
			"taking a pod out")
	}
	for _, o := range []client.Object{proxy.DeepCopy(), backend.DeepCopy()} {
		s.Must(c.Patch(s.Ctx, o, mergePatch(
			`{"spec":{"template":{"metadata":{"annotations":{"a":"b"},"labels":{"team":"a"}}}}}`)), "changing the template")
	}
	sets := &appsv1.ReplicaSetList{}
	s.Must(admin.List(s.Ctx, sets, client.InNamespace(s.Namespace)), "listing")
	s.Must(c.Patch(s.Ctx, &sets.Items[0],
		mergePatch(`{"metadata":{"annotations":{"a":"b"},"labels":{"team":"a"}},"spec":{"replicas":0}}`)),
		"scaling a ReplicaSet")
	s.Must(admin.Create(s.Ctx, s.Intent(fmt.Sprintf(templates["ReplicaSet"], "restored", asProxy))), "restoring")
	orphan := metav1.DeletePropagationOrphan
	s.Must(c.Delete(s.Ctx, proxy, &client.DeleteOptions{PropagationPolicy: &orphan}), "deleting a proxy")
	s.AwaitAll(sets, "the garbage collector lets its ReplicaSets go", func() error {
		for _, set := range sets.Items {
			if len(set.OwnerReferences) > 0 {
				return fmt.Errorf("%s has owners", set.Name)
			}
		}
		return nil
	})
}

// Who may change pods and ReplicaSets has no other program serve under the labels: their
// controllers would not take that back, as those of a Deployment do.
func TestWhatRunsUnderALabelStays(t *testing.T) {
	s := kit.NewEnv(t, plane)
	c := editor(s, t)
	_, _, pods := pair(t, s)
	sets := &appsv1.ReplicaSetList{}
	s.Must(admin.List(s.Ctx, sets, client.InNamespace(s.Namespace)), "listing")
	const says = "only Freehold changes what it runs"
	for _, change := range []string{
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"evil"}]}}}}`,
		`{"spec":{"template":{"metadata":{"annotations":{"freehold.dev/run-config":"{}"}}}}}`,
		// A Deployment lets go of a ReplicaSet without its labels, and takes none that has another owner.
		`{"metadata":{"labels":{"freehold.dev/server":"elsewhere"}}}`,
		`{"metadata":{"labels":{"app.kubernetes.io/component":null}}}`,
		`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"1","controller":true}]}}`,
	} {
		refused(t, c.Patch(s.Ctx, sets.Items[0].DeepCopy(), mergePatch(change)), says)
	}
	for i := range pods.Items {
		image := client.RawPatch(types.StrategicMergePatchType,
			[]byte(`{"spec":{"containers":[{"name":"c","image":"evil"}]}}`))
		refused(t, c.Patch(s.Ctx, pods.Items[i].DeepCopy(), image), says)
		refused(t, c.Patch(s.Ctx, pods.Items[i].DeepCopy(),
			mergePatch(`{"metadata":{"annotations":{"freehold.dev/run-config":"{}"}}}`)), says)
	}
}

// Labels of a pod are written by its status, too, and by what binds it to a node.
func TestSubresourcesLabelNoPods(t *testing.T) {
	s := kit.NewEnv(t, plane)
	const user = "trent"
	s.Must(admin.Create(s.Ctx, s.Intent(
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: nodes}, rules: [{apiGroups: [''], "+
			"resources: [pods/status, pods/binding, bindings], verbs: [create, patch]}]}")), "making a role")
	s.Must(admin.Create(s.Ctx, s.Intent(
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: nodes}, "+
			"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: nodes}, subjects: [{apiGroup: "+
			"rbac.authorization.k8s.io, kind: User, name: "+user+"}]}")), "giving it")
	mine := s.Intent("{apiVersion: v1, kind: Pod, metadata: {name: mine}, spec: {schedulerName: none, " + restrictedSpec +
		"}}")
	s.Must(admin.Create(s.Ctx, mine), "making a pod")
	c := clientOf(t, plane.As(user))
	s.Must(wait.PollUntilContextTimeout(s.Ctx, 50*time.Millisecond, kit.Patience, true,
		func(ctx context.Context) (bool, error) {
			err := c.Status().Patch(ctx, mine.DeepCopy(), mergePatch(`{"status":{"reason":"a"}}`))
			return err == nil, ignoreForbidden(err)
		}), "waiting for the role")
	const says = "Leave freehold.dev/server and app.kubernetes.io/component"
	refused(t, c.Status().Patch(s.Ctx, mine.DeepCopy(),
		mergePatch(`{"metadata":{"labels":{"freehold.dev/server":"victim","app.kubernetes.io/component":"proxy"}}}`)), says)
	binding := s.Intent("{apiVersion: v1, kind: Binding, metadata: {name: mine, labels: " + asProxy +
		"}, target: {kind: Node, name: a}}")
	refused(t, c.Create(s.Ctx, binding.DeepCopy()), says)
	refused(t, c.SubResource("binding").Create(s.Ctx, mine.DeepCopy(), binding), says)
}

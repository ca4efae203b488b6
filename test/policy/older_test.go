package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// older is the namespace of objects that were there before the policies: they have Update entries of our managers, and
// fields that the contract no longer grants.
const older = "older"

const (
	oldServer = "{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: old, namespace: older, " +
		"finalizers: [freehold.dev/mcpserver]}, spec: {image: i}}"
	// %s are more annotations.
	oldProxy = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: old-proxy, namespace: older, annotations: {freehold.dev/workload-generation: "1"%s},
  labels: {app.kubernetes.io/managed-by: freehold, freehold.dev/server: old}}, spec: {replicas: 1, ` + oldPods + "}}"
	oldBackend = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: old-backend, namespace: older, annotations: {freehold.dev/workload-generation: "1"},
  labels: {app.kubernetes.io/managed-by: freehold, freehold.dev/server: old}}, spec: {serviceName: s, ` + oldPods + "}}"
	oldPods = "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, " +
		"image: 'i:1'}]}}"
	dropped = `, example.com/dropped: "from the contract"`
)

// leaveOlder writes what an older release left behind.
func leaveOlder(ctx context.Context) error {
	if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: older}}); err != nil {
		return err
	}
	finalizer, children, backend := string(contract.MCPServerFinalizer), string(contract.MCPServerChildren),
		string(contract.RunnerBackend)
	server, proxy, set := object(oldServer), object(fmt.Sprintf(oldProxy, "")), object(oldBackend)
	err := errors.Join(
		admin.Create(ctx, server, client.FieldOwner(finalizer)),
		admin.Create(ctx, proxy, client.FieldOwner(children)),
		admin.Create(ctx, set, client.FieldOwner(backend)),
		applied(ctx, admin, children, "", object(fmt.Sprintf(oldProxy, dropped)), true),
		applied(ctx, admin, backend, "", object(oldBackend), true),
		admin.SubResource("scale").Patch(ctx, set, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`)),
			client.FieldOwner(string(contract.MCPServerScale))),
		admin.Status().Patch(ctx, server, client.RawPatch(types.MergePatchType, []byte(`{"status":{"url":"http://a"}}`)),
			client.FieldOwner(string(contract.MCPServerConditions))),
	)
	return errors.Join(err, crowd(ctx))
}

// entriesOf are the managedFields of one manager, as MANAGER/OPERATION.
func entriesOf(o client.Object, manager ownership.Manager) []string {
	var found []string
	for _, e := range o.GetManagedFields() {
		if e.Manager == string(manager) {
			found = append(found, string(e.Operation)+"/"+e.Subresource)
		}
	}
	return found
}

func onOlder(t *testing.T) *kit.Env {
	t.Helper()
	return kit.NewEnv(t, plane).On(older)
}

// TestOlderObjectsAreWrittenByOthers holds that nobody else's write is judged
// by what stands in an object's managedFields.
func TestOlderObjectsAreWrittenByOthers(t *testing.T) {
	s := onOlder(t)
	server, proxy, set := object(oldServer), object(fmt.Sprintf(oldProxy, "")), object(oldBackend)
	s.Read(proxy)
	if got := fmt.Sprint(entriesOf(proxy, contract.MCPServerChildren)); got != "[Apply/ Update/]" &&
		got != "[Update/ Apply/]" {
		t.Fatalf("the older Deployment has the entries %s: the story would tell nothing", got)
	}
	const image = `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i:2"}]}}}}`
	s.Patch(proxy, "kubectl-edit", image)
	s.Patch(set, "kubectl-edit", image)
	deployment, statefulSet := &appsv1.Deployment{}, &appsv1.StatefulSet{}
	deployment.Name, statefulSet.Name = proxy.GetName(), set.GetName()
	s.Await(deployment, "kube-controller-manager rolled the Deployment out", func() error {
		d := deployment.Status
		if d.ObservedGeneration != deployment.Generation || d.UpdatedReplicas != 1 || d.Replicas != 1 ||
			d.ReadyReplicas != 1 {
			return fmt.Errorf("its status is %+v", d)
		}
		return nil
	})
	s.Await(statefulSet, "kube-controller-manager rolled the StatefulSet out", func() error {
		d := statefulSet.Status
		if d.ObservedGeneration != statefulSet.Generation || d.UpdatedReplicas != 1 || d.ReadyReplicas != 1 {
			return fmt.Errorf("its status is %+v", d)
		}
		return nil
	})
	for _, o := range []*unstructured.Unstructured{proxy, set, server} {
		s.Scale(o, "horizontal-pod-autoscaler", 2)
		s.Scale(o, "horizontal-pod-autoscaler", 0)
		s.Patch(o, "kubectl-label", `{"metadata":{"labels":{"example.com/team":"a"}}}`)
		s.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
			live := s.Unstructured(o)
			merge(live.Object, object(note).Object)
			return admin.Update(s.Ctx, live, client.FieldOwner("kubectl-replace"))
		}), "replacing "+o.GetName())
	}
	s.Force("kubectl", "{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: old}, spec: {image: j}}")
}

// TestOlderObjectsAreWrittenByUs holds that what an older contract granted may
// stay in an entry or go, and that nothing is added to it.
func TestOlderObjectsAreWrittenByUs(t *testing.T) {
	s, c, children := onOlder(t), controller(t), string(contract.MCPServerChildren)
	apply := func(more string) error {
		return applied(s.Ctx, c, children, "",
			object(strings.Replace(fmt.Sprintf(oldProxy, more), "replicas: 1", "replicas: 0", 1)), true)
	}
	s.Must(apply(dropped), "keeping a field of the older contract")
	refused(t, apply(dropped+", example.com/new: a"), "adds .metadata.annotations.example.com/new: leave that out")
	refused(t, apply(", example.com/new: a"), "adds .metadata.annotations.example.com/new: leave that out")
	s.Must(apply(""), "dropping a field of the older contract")
	refused(t, apply(dropped), "adds .metadata.annotations.example.com/dropped: leave that out")

	proxy := object(fmt.Sprintf(oldProxy, ""))
	err := c.Patch(s.Ctx, proxy, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minReadySeconds":1}}`)),
		client.FieldOwner(children))
	refused(t, err, "writes by server-side apply alone")
}

// TestOlderObjectsAreTakenOverAndDeleted holds that the Update entries go the
// way that client-go has for it, and that nothing keeps an older object.
func TestOlderObjectsAreTakenOverAndDeleted(t *testing.T) {
	s, c, finalizer := onOlder(t), controller(t), string(contract.MCPServerFinalizer)
	server := s.Unstructured(object(oldServer))
	// The entry held the spec too, which is the user's.
	s.Force("kubectl", "{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: old}, spec: {image: k, "+
		"port: 81, path: /other}}")
	server = s.Unstructured(server)
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(server, sets.New(finalizer), finalizer)
	s.Must(err, "making the patch that takes over")
	took := c.Patch(s.Ctx, server.DeepCopy(), client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(finalizer))
	if took != nil {
		refused(t, took, "may write of this MCPServer only")
		s.Must(c.Patch(s.Ctx, server.DeepCopy(), client.RawPatch(types.JSONPatchType, narrowed(t, server)),
			client.FieldOwner(finalizer)), "taking the finalizer over")
	}
	server = s.Unstructured(server)
	if got := fmt.Sprint(entriesOf(server, contract.MCPServerFinalizer)); got != "[Apply/]" {
		t.Fatalf("after it was taken over the finalizer's manager has the entries %s", got)
	}
	s.Delete(server)
	nothing := object(fmt.Sprintf(
		"{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: old, namespace: older, uid: %s}}",
		server.GetUID()))
	s.Must(applied(s.Ctx, c, finalizer, "", nothing, true), "releasing the finalizer")
	s.AwaitGone(server)
	for _, o := range []*unstructured.Unstructured{object(fmt.Sprintf(oldProxy, "")), object(oldBackend)} {
		s.Delete(o, client.PropagationPolicy(metav1.DeletePropagationForeground))
		s.AwaitGone(o)
	}
}

// narrowed is a JSON patch that gives the finalizer to its manager's apply entry, and drops what else the manager held.
func narrowed(t *testing.T, o *unstructured.Unstructured) []byte {
	t.Helper()
	var entries []metav1.ManagedFieldsEntry
	for _, e := range o.GetManagedFields() {
		if e.Manager == string(contract.MCPServerFinalizer) {
			e.Operation = metav1.ManagedFieldsOperationApply
			e.FieldsV1 = metav1.NewFieldsV1(`{"f:metadata":{"f:finalizers":{"v:\"freehold.dev/mcpserver\"":{}}}}`)
		}
		entries = append(entries, e)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/managedFields", "value": entries},
		{"op": "replace", "path": "/metadata/resourceVersion", "value": o.GetResourceVersion()},
	})
	if err != nil {
		t.Fatal(err)
	}
	return patch
}

// TestWhatAPolicyCannotSee holds the limits that docs/policies.md admits. If
// one of them falls, the page can promise more.
func TestWhatAPolicyCannotSee(t *testing.T) {
	s, c, children := kit.NewEnv(t, plane), controller(t), string(contract.MCPServerChildren)
	intent := object(fmt.Sprintf(oldProxy, ""))
	intent.SetNamespace(s.Namespace)
	s.Must(applied(s.Ctx, c, children, "", intent, true), "making a proxy")
	patched := func(merge string) error {
		return c.Patch(s.Ctx, intent.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(merge)),
			client.FieldOwner(children))
	}
	// A patch that only removes leaves no entry, whoever sends it.
	s.Patch(intent.DeepCopy(), "kubectl", `{"metadata":{"annotations":{"example.com/theirs":"a"}}}`)
	s.Must(patched(`{"metadata":{"annotations":{"example.com/theirs":null}}}`), "removing a foreign annotation")
	// Nor does a reset that only removes, where ours is the only entry.
	config := s.Intent("{apiVersion: v1, kind: ConfigMap, metadata: {name: echo-run-1-abc, annotations: " +
		"{freehold.dev/workload-hash: a}, labels: {app.kubernetes.io/managed-by: freehold}}, data: {a: b}}")
	s.Must(applied(s.Ctx, c, children, "", config, true), "making a run config")
	s.Must(c.Patch(s.Ctx, config,
		client.RawPatch(types.MergePatchType, []byte(`{"data":null,"metadata":{"managedFields":[{}]}}`)),
		client.FieldOwner(children)), "removing all data")
	s.OwnsNothing(config, children)
	// Force is no part of what admission is told.
	s.Force("someone", fmt.Sprintf(
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {revisionHistoryLimit: 1}}", intent.GetName()))
	merge(intent.Object, object("spec: {revisionHistoryLimit: 2}").Object)
	s.Must(applied(s.Ctx, c, children, "", intent, true), "taking a field of the grant by force")
	// A name of ours in managedFields that somebody writes by hand is no request under it.
	s.Must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live := s.Unstructured(intent)
		entries := live.GetManagedFields()
		for i := range entries {
			if entries[i].Manager == "someone" || entries[i].Manager == "kubectl" {
				entries[i].Manager = string(contract.RBACChildren)
			}
		}
		live.SetManagedFields(entries)
		return admin.Update(s.Ctx, live, client.FieldOwner("kubectl"))
	}), "writing managedFields by hand")
	// The status of a Deployment and its scale are not looked at.
	s.Must(admin.Status().Patch(s.Ctx, intent.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+generation+`":"0"}}}`)),
		client.FieldOwner(children)), "writing its status under a name of ours")
	s.Must(admin.SubResource("scale").Patch(s.Ctx, intent.DeepCopy(),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)), client.FieldOwner(children)), "scaling it")
	// Nor is what has not our label, but to see that ours does not make it.
	foreign := s.Intent("{apiVersion: v1, kind: ConfigMap, metadata: {name: foreign}}")
	s.Must(admin.Create(s.Ctx, foreign, client.FieldOwner(children)), "making a ConfigMap under a name of ours")
	s.Must(c.Patch(s.Ctx, foreign, client.RawPatch(types.MergePatchType, []byte(noteB))), "writing it as the controller")
}

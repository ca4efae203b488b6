package model

import (
	"cmp"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
)

const namespace = "default"

// kinds are those of a server, its children, and what servers refer to, by resource.
var kinds = map[string]schema.GroupVersionKind{
	"mcpservers":          contract.MCPServer.GroupVersionKind,
	"mcpauthzconfigs":     contract.ConfigOf("MCPAuthzConfig").Object.GroupVersionKind,
	"mcpoidcconfigs":      contract.ConfigOf("MCPOIDCConfig").Object.GroupVersionKind,
	"deployments":         contract.Deployment.GroupVersionKind,
	"statefulsets":        contract.StatefulSet.GroupVersionKind,
	"services":            contract.Service.GroupVersionKind,
	"secrets":             contract.Secret.GroupVersionKind,
	"controllerrevisions": contract.ControllerRevision.GroupVersionKind,
	"configmaps":          contract.ConfigMap.GroupVersionKind,
	"serviceaccounts":     contract.ServiceAccount.GroupVersionKind,
	"roles":               contract.Role.GroupVersionKind,
	"networkpolicies":     contract.NetworkPolicy.GroupVersionKind,
	"rolebindings":        contract.RoleBinding.GroupVersionKind,
}

// key names an object.
type key struct{ kind, name string }

func (k key) String() string { return k.kind + " " + k.name }

// world is what stands in the API server of what a run is about.
type world struct {
	// order is that of first appearance: names hold hashes, by which nothing may be ordered that a seed is to repeat.
	order  []key
	stands map[key]*unstructured.Unstructured
	kinds  map[string]schema.GroupVersionKind
}

func newWorld() *world {
	w := &world{stands: map[key]*unstructured.Unstructured{}, kinds: map[string]schema.GroupVersionKind{}}
	for _, kind := range kinds {
		w.kinds[kind.Kind] = kind
	}
	return w
}

// put notes what stands now, nil for nothing.
func (w *world) put(k key, object *unstructured.Unstructured) {
	if !slices.Contains(w.order, k) {
		w.order = append(w.order, k)
	}
	w.stands[k] = object
}

// standing are the objects that exist, the server first.
func (w *world) standing() []*unstructured.Unstructured {
	var objects []*unstructured.Unstructured
	for _, k := range w.order {
		if o := w.stands[k]; o != nil {
			objects = append(objects, o)
		}
	}
	return objects
}

// look reads an object from the API server, nil if there is none.
func (p *scenario) look(k key) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(p.world.kinds[k.kind])
	err := plane.Client.Get(p.t.Context(), client.ObjectKey{Namespace: namespace, Name: k.name}, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		p.broke(err)
		return nil
	}
	return object
}

// server is the server of the run, nil if there is none.
func (p *scenario) server() *unstructured.Unstructured {
	return p.world.stands[key{contract.MCPServer.Kind, p.name}]
}

func (p *scenario) child(kind ownership.Object, name string) *unstructured.Unstructured {
	return p.world.stands[key{kind.Kind, name}]
}

// orphan does what kube-controller-manager does for the children of an owner that was deleted with --cascade=orphan: it
// takes the owner off those that it had at first, one after the other, and then lets it go.
func (p *scenario) orphan() {
	server := p.server()
	if server == nil || server.GetDeletionTimestamp() == nil ||
		!slices.Contains(server.GetFinalizers(), metav1.FinalizerOrphanDependents) {
		p.dependents = nil
		return
	}
	if p.dependents == nil {
		p.dependents = []key{}
		for _, o := range p.world.standing() {
			if metav1.IsControlledBy(o, server) {
				p.dependents = append(p.dependents, key{o.GetKind(), o.GetName()})
			}
		}
	}
	for len(p.dependents) > 0 {
		child := p.world.stands[p.dependents[0]]
		p.dependents = p.dependents[1:]
		if child != nil && metav1.IsControlledBy(child, server) {
			freed := child.DeepCopy()
			freed.SetOwnerReferences(nil)
			p.others.attempt("orphaning", p.others.Patch(p.t.Context(), freed, client.MergeFrom(child),
				client.FieldOwner("kube-controller-manager")))
			p.orphaned[child.GetUID()] = true
			p.tally["orphaned"]++
			if p.disorder {
				return
			}
		}
	}
	freed := server.DeepCopy()
	freed.SetFinalizers(slices.DeleteFunc(freed.GetFinalizers(),
		func(f string) bool { return f == metav1.FinalizerOrphanDependents }))
	p.others.attempt("orphaning", p.others.Patch(p.t.Context(), freed, client.MergeFrom(server),
		client.FieldOwner("kube-controller-manager")))
}

// collect does what kube-controller-manager does for children whose owner is gone, and reports whether there were any.
func (p *scenario) collect() bool {
	p.orphan()
	collected := false
	for _, o := range p.world.standing() {
		owner := metav1.GetControllerOf(o)
		if owner == nil || owner.Kind != contract.MCPServer.Kind {
			continue
		}
		if s := p.server(); s != nil && s.GetUID() == owner.UID {
			continue
		}
		collected = true
		uid := o.GetUID()
		p.others.attempt("garbage collection", p.others.Delete(p.t.Context(), o.DeepCopy(), client.Preconditions{UID: &uid}))
	}
	return collected
}

// runWorkloads does what kube-controller-manager and kubelet do: every pod that is wanted is there and ready.
func (p *scenario) runWorkloads() {
	for _, o := range p.world.standing() {
		replicas, stated, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if !stated || o.GetKind() != contract.Deployment.Kind && o.GetKind() != contract.StatefulSet.Kind {
			continue
		}
		status := map[string]any{"observedGeneration": o.GetGeneration(), "replicas": replicas}
		for _, n := range []string{"updatedReplicas", "readyReplicas", "availableReplicas"} {
			if replicas > 0 {
				status[n] = replicas
			}
		}
		if replicas == 0 {
			delete(status, "replicas")
		}
		if o.GetKind() == contract.StatefulSet.Kind {
			status["replicas"], status["availableReplicas"] = replicas, replicas
			status["currentRevision"], status["updateRevision"] = "revision", "revision"
		}
		if seen, _, _ := unstructured.NestedMap(o.Object, "status"); sameNumbers(seen, status) {
			continue
		}
		changed := o.DeepCopy()
		changed.Object["status"] = status
		p.others.attempt("running pods",
			p.others.Status().Update(p.t.Context(), changed, client.FieldOwner("kube-controller-manager")))
	}
}

// sameNumbers compares what runWorkloads writes.
func sameNumbers(seen, want map[string]any) bool {
	for _, field := range []string{
		"observedGeneration", "replicas", "updatedReplicas", "readyReplicas",
		"availableReplicas",
	} {
		a, _ := seen[field].(int64)
		b, _ := want[field].(int64)
		if a != b {
			return false
		}
	}
	return true
}

// entriesOf are the entries of an object's managedFields in an order that does not depend on time.
func entriesOf(o *unstructured.Unstructured) []metav1.ManagedFieldsEntry {
	if o == nil {
		return nil
	}
	entries := o.GetManagedFields()
	slices.SortFunc(entries, func(a, b metav1.ManagedFieldsEntry) int {
		return cmp.Or(cmp.Compare(a.Manager, b.Manager), cmp.Compare(a.Operation, b.Operation),
			cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.APIVersion, b.APIVersion))
	})
	return entries
}

func uidOf(o *unstructured.Unstructured) types.UID {
	if o == nil {
		return ""
	}
	return o.GetUID()
}

func versionOf(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	return o.GetResourceVersion()
}

package writer

import (
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// Deleted between read and write: a plain apply would bring an empty object back.
func TestAWriteToADeletedObjectLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	for _, s := range d.children(server, d.content(server, 1)) {
		d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
		live := d.live(s)
		d.Delete(live.DeepCopyObject().(client.Object), client.PropagationPolicy(metav1.DeletePropagationBackground))
		d.AwaitGone(live.DeepCopyObject().(client.Object))
		for _, opts := range [][]apply.Option{nil, s.opts} {
			// Another process, so that nothing is known of the object but live;
			// without its labels, so that there is something to write.
			d.applier = d.process()
			d.is(d.refused(s.manager, unlabelled(live), s.ac, opts...), apply.ErrGone)
		}
		if d.live(s) != nil {
			t.Fatalf("%s came back", s)
		}
	}
}

func TestAWriteNeverReachesASuccessor(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	for _, s := range d.children(server, d.content(server, 1)) {
		d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
		live := d.live(s)
		d.foreignAgain(s)
		successor := d.live(s)
		d.applier = d.process()
		disowned := unlabelled(live)
		disowned.SetOwnerReferences(nil)
		d.is(d.refused(s.manager, disowned, s.ac), apply.ErrReincarnated)
		// Of what has an owner both preconditions fail; the server names the version first.
		d.is(d.refused(s.manager, unlabelled(live), s.ac, s.opts...), apply.ErrStale)
		d.unmoved(successor)
		d.OwnsNothing(successor, string(s.manager))
	}
}

// A status apply creates nothing. The uid is ignored there, so that only a
// version can tell one incarnation from the next.
func TestAStatusOfAnotherIncarnation(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	claim := v1alpha1ac.MCPServer(server.Name, server.Namespace).WithStatus(v1alpha1ac.MCPServerStatus().
		WithWorkload(v1alpha1ac.WorkloadStatus().WithGeneration(1).WithHash("a")))
	d.Delete(server.DeepCopy())
	d.AwaitGone(server.DeepCopy())
	for _, opts := range [][]apply.Option{nil, atVersion} {
		d.is(d.refused(contract.MCPServerWorkload, server, claim, opts...), apply.ErrGone)
	}
	successor := d.server("echo", "")
	d.is(d.refused(contract.MCPServerWorkload, server, claim, apply.AtVersion), apply.ErrStale)
	d.unmoved(successor)
}

func TestReleaseRemovesOurFinalizerOnly(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	writer := d.applier.As(contract.MCPServerFinalizer)
	_ = d.sent()
	d.Must(writer.Release(d.Ctx, server), "releasing nothing")
	d.quiet()

	d.put(apply.Configured, contract.MCPServerFinalizer, server, finalizer(server))
	d.Apply("other",
		`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo","finalizers":["example.com/theirs"]}}`)
	d.Delete(server.DeepCopy())
	live := read(d, server.DeepCopy(), "echo")
	if live.DeletionTimestamp == nil || len(live.Finalizers) != 2 {
		t.Fatalf("finalizers %v, deleted %v", live.Finalizers, live.DeletionTimestamp)
	}
	d.Must(writer.Release(d.Ctx, live), "releasing")
	live = read(d, server.DeepCopy(), "echo")
	if len(live.Finalizers) != 1 || live.Finalizers[0] != "example.com/theirs" {
		t.Fatalf("finalizers %v", live.Finalizers)
	}
	d.OwnsNothing(live, string(contract.MCPServerFinalizer))
	_ = d.sent()
	d.Must(writer.Release(d.Ctx, live), "releasing once more")
	d.quiet()

	d.Apply("other", `{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo"}}`)
	d.AwaitGone(server.DeepCopy())
}

// Of an object that is gone, or is another one, nothing can be released: that
// is what was wanted, and it leaves no trace.
func TestReleaseOfAnObjectThatWent(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	d.put(apply.Configured, contract.MCPServerFinalizer, server, finalizer(server))
	held := read(d, server.DeepCopy(), "echo")
	d.Must(d.applier.As(contract.MCPServerFinalizer).Release(d.Ctx, held), "releasing")
	d.Delete(server.DeepCopy())
	d.AwaitGone(server.DeepCopy())

	d.applier = d.process()
	_ = d.sent()
	d.Must(d.applier.As(contract.MCPServerFinalizer).Release(d.Ctx, held), "releasing what is gone")
	d.applied(1)
	if d.Exists(server.DeepCopy()) {
		t.Fatal("it came back")
	}

	successor := d.server("echo", "")
	d.put(apply.Configured, contract.MCPServerFinalizer, successor, finalizer(successor))
	successor = read(d, successor, "echo")
	d.Must(d.applier.As(contract.MCPServerFinalizer).Release(d.Ctx, held), "releasing what is another")
	d.unmoved(successor)
}

func TestRemoveDeletesThatIncarnationOnly(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	for _, s := range d.children(server, d.content(server, 1)) {
		switch s.empty.(type) {
		case *corev1.ConfigMap, *appsv1.StatefulSet:
		default:
			continue
		}
		writer := d.applier.As(contract.MCPServerChildren)
		d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
		first := d.live(s)
		err := writer.Remove(d.Ctx, first)
		for errors.Is(err, apply.ErrStale) { // its controller writes its status meanwhile
			first = d.live(s)
			err = writer.Remove(d.Ctx, first)
		}
		d.Must(err, "removing "+s.String())
		d.AwaitGone(first.DeepCopyObject().(client.Object))
		d.Must(writer.Remove(d.Ctx, first), "removing what is gone")

		d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
		second := d.live(s)
		d.Must(writer.Remove(d.Ctx, first), "removing what is another")
		d.unmoved(second)
		if second.GetDeletionTimestamp() != nil || second.GetUID() == first.GetUID() {
			t.Errorf("the successor of %s is being deleted", s)
		}
	}
}

func TestRemoveIsGranted(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	for _, object := range []client.Object{server, &appsv1.Deployment{}, &corev1.Pod{}, &corev1.ServiceAccount{}} {
		object.SetNamespace(d.Namespace)
		object.SetName("echo")
		err := d.applier.As(contract.MCPServerChildren).Remove(d.Ctx, object)
		if refused := cause[*apply.NotGranted](d, err); refused.Manager != contract.MCPServerChildren {
			t.Errorf("%T: %v", object, err)
		}
	}
	d.quiet()
	d.unmoved(server)
}

func finalizer(server *v1alpha1.MCPServer) *v1alpha1ac.MCPServerApplyConfiguration {
	return v1alpha1ac.MCPServer(server.Name, server.Namespace).WithFinalizers(contract.Finalizer)
}

// unlabelled is an object as if somebody had removed our labels.
func unlabelled(object client.Object) client.Object {
	object = object.DeepCopyObject().(client.Object)
	object.SetLabels(nil)
	return object
}

// foreignAgain lets somebody else make another object of a statement's name.
func (d *fixture) foreignAgain(s statement) {
	d.Helper()
	live := d.live(s)
	d.Delete(live.DeepCopyObject().(client.Object), client.PropagationPolicy(metav1.DeletePropagationBackground))
	d.AwaitGone(live)
	d.foreign(s)
}

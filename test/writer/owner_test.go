package writer

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

// born makes the children of a server.
func (d *fixture) born(server *v1alpha1.MCPServer) []statement {
	d.Helper()
	all := d.children(server, d.content(server, 1))
	for _, s := range all {
		d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
	}
	return all
}

// orphan takes the owner off an object, as the garbage collector does.
func (d *fixture) orphan(object client.Object) {
	d.Patch(object, "kube-controller-manager", `{"metadata":{"ownerReferences":null}}`)
}

// reads are the requests of the last step that read an owner.
func reads(log kit.Log) kit.Log {
	return log.Where(func(r kit.Request) bool { return r.Verb == "get" && r.Resource == "mcpservers" })
}

// Whoever deletes an owner with --cascade=orphan keeps its children: nobody gives them back
// to an owner that goes, or is another of the same name, whatever a cache shows.
func TestAnOwnerThatGoesIsNotPutBack(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	children := d.born(server)
	shown := map[int]client.Object{}
	for i, s := range children {
		shown[i] = d.live(s)
	}
	d.Apply("holder", "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo, finalizers: "+
		"[example.com/held]}")
	d.Delete(server)
	changed := server.DeepCopy()
	changed.Spec.Proxy.Port = 8001
	for i, s := range children {
		d.orphan(d.live(s))
		was := d.live(s)
		if _, isService := s.empty.(*corev1.Service); isService && len(s.opts) == 0 {
			// The cache shows the owner, and there is something else to write.
			for _, other := range d.children(changed, d.content(changed, 1)) {
				if other.String() == s.String() {
					d.is(d.refused(s.manager, shown[i], other.ac), apply.ErrStale)
				}
			}
		}
		_ = d.sent()
		d.is(d.refused(s.manager, was, s.ac, s.opts...), apply.ErrOwnerGone)
		d.applied(0)
		d.unmoved(was)
	}

	d.Apply("holder", "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}")
	d.AwaitGone(server)
	for _, s := range children {
		was := d.live(s)
		d.is(d.refused(s.manager, was, s.ac, s.opts...), apply.ErrOwnerGone)
		d.unmoved(was)
	}
	d.server("echo", "")
	for _, s := range children {
		was := d.live(s)
		d.is(d.refused(s.manager, was, s.ac, s.opts...), apply.ErrOwnerGone)
		d.unmoved(was)
	}
}

// An owner that stays is put back, which costs one look at it; where it was never taken off, nobody looks.
func TestAnOwnerThatStaysIsPutBack(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	children := d.born(server)
	for _, s := range children {
		d.put(apply.Unchanged, s.manager, d.live(s), s.ac, s.opts...)
	}
	if looks := reads(d.sent()); len(looks) > 0 {
		t.Errorf("nothing was adopted, and the owner was read: %s", looks)
	}
	for _, s := range children {
		d.orphan(d.live(s))
		live := d.live(s)
		_ = d.sent()
		d.put(apply.Configured, s.manager, live, s.ac, s.opts...)
		if looks := reads(d.sent()); len(looks) != 1 {
			t.Errorf("%s: the owner was read %d times", s, len(looks))
		}
		if !metav1.IsControlledBy(d.live(s), server) {
			t.Errorf("%s: the owner is not back", s)
		}
	}
}

// Who decides by an owner that an object is to go decides about the object as it was read.
func TestWhatWasOrphanedSinceItWasReadIsNotRemoved(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	for _, s := range d.born(d.server("echo", "")) {
		switch s.empty.(type) {
		case *corev1.ConfigMap, *appsv1.StatefulSet:
		default:
			continue
		}
		read := d.live(s)
		d.orphan(d.live(s))
		was := d.live(s)
		d.is(d.applier.As(contract.MCPServerChildren).Remove(d.Ctx, read), apply.ErrStale)
		d.unmoved(was)
		if was.GetDeletionTimestamp() != nil {
			t.Errorf("%s is being deleted", s)
		}
	}
}

package writer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// Each kind of child is born; who does not see it yet finds it; who wants
// something else of it may say so, unless a gate has to look first.
func TestEachKindIsBornOnceAndThenFound(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	for name, spec := range map[string]string{"minimal": "", "full": full} {
		server := d.server(name, spec)
		for _, s := range d.children(server, d.content(server, 1)) {
			_ = d.sent()
			born := d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
			d.applied(1)
			live := d.live(s)
			if born.UID != live.GetUID() || born.ResourceVersion == "" {
				t.Errorf("%s was born as %+v, and is %s", s, born, live.GetUID())
			}

			// Another process whose cache does not show it.
			d.applier = d.process()
			found := d.put(apply.Unchanged, s.manager, nil, s.ac, s.opts...)
			if found.UID != live.GetUID() {
				t.Errorf("%s was found as %+v", s, found)
			}
			if sent := d.sent(); len(sent.Answered(409)) != 1 || len(sent) != 2 || sent[1].Verb != "get" {
				t.Errorf("%s: want a birth that is refused and a look, got %s", s, sent)
			}
			// The same process need not try again: it knows that it was there.
			d.put(apply.Unchanged, s.manager, nil, s.ac, s.opts...)
		}
	}
}

// A birth that meets our own older content: what a gate guards must be looked at first, the rest is made right at once.
// A process that remembers the object and one that does not come to the same end.
func TestABirthThatMeetsOurOlderContent(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	for _, name := range []string{"remembered", "forgotten"} {
		server := d.server(name, "")
		for _, s := range d.children(server, d.content(server, 1)) {
			d.put(apply.Created, s.manager, nil, s.ac, s.opts...)
		}
		if name == "forgotten" {
			d.applier = d.process()
		}
		server.Spec.Image, server.Spec.Port, server.Spec.Proxy.Port = "registry.example.com/echo:2", 8081, 8001
		for _, s := range d.children(server, d.content(server, 2)) {
			switch s.empty.(type) {
			case *corev1.ServiceAccount, *rbacv1.Role, *rbacv1.RoleBinding, *networkingv1.NetworkPolicy:
				d.put(apply.Unchanged, s.manager, nil, s.ac)
			case *corev1.ConfigMap: // each revision has its own
				d.put(apply.Created, s.manager, nil, s.ac)
			default:
				if len(s.opts) == 0 {
					d.put(apply.Configured, s.manager, nil, s.ac)
					continue
				}
				was := d.live(s)
				d.is(d.refused(s.manager, nil, s.ac, s.opts...), apply.ErrExists)
				d.unmoved(was)
				d.put(apply.Configured, s.manager, d.live(s), s.ac)
			}
		}
		if port := read(d, &corev1.Service{}, workload.ProxyName(name)).Spec.Ports[0].Port; port != 8001 {
			t.Errorf("the port is %d", port)
		}
	}
}

func TestAForeignObjectIsLeftAlone(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	for _, s := range d.children(server, d.content(server, 1)) {
		foreign := d.foreign(s)
		_ = d.sent()
		d.is(d.refused(s.manager, nil, s.ac, s.opts...), apply.ErrForeign)
		d.is(d.refused(s.manager, foreign, s.ac, s.opts...), apply.ErrForeign)
		if sent := d.sent(); len(sent) != 2 || len(sent.Answered(200)) != 1 || len(sent.Answered(409)) != 1 {
			t.Errorf("%s: want a birth that is refused and a look, got %s", s, sent)
		}
		d.unmoved(foreign)
		d.OwnsNothing(foreign, string(s.manager))
	}
}

// Deleted since we made it, and not seen by the cache: born anew.
func TestADeletedChildIsBornAnew(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data")))
	first := d.put(apply.Created, one, nil, d.note("n", "a", "1"))
	d.Delete(read(d, &corev1.ConfigMap{}, "n"))
	second := d.put(apply.Created, one, nil, d.note("n", "a", "1"))
	if first.UID == second.UID {
		t.Error("it is the same object")
	}
}

// fleeting is a reader of the API server from which objects vanish once read.
type fleeting struct{ *fixture }

func (f fleeting) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := f.client.Get(ctx, key, object, opts...)
	if err == nil {
		f.Delete(object.DeepCopyObject().(client.Object))
	}
	return err
}

func (f fleeting) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return f.client.List(ctx, list, opts...)
}

// Found by the look that follows a birth, and gone before the write.
func TestABirthThatMeetsAnObjectOnItsWayOut(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data")))
	d.put(apply.Created, one, nil, d.note("n", "a", "1"))
	d.applier = apply.New(d.client, fleeting{d}, controllers.NewConverter(plane.Scheme), d.contract)
	d.is(d.refused(one, nil, d.note("n", "a", "2")), apply.ErrGone)
	if d.Exists(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "n"}}) {
		t.Error("it came back")
	}
}

func TestWithoutCreateAnAbsentObjectIsGone(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	_ = d.sent()
	scale := appsv1ac.StatefulSet("echo-backend", d.Namespace).WithSpec(appsv1ac.StatefulSetSpec().WithReplicas(3))
	d.is(d.refused(contract.MCPServerScale, nil, scale), apply.ErrGone)
	for _, s := range d.statements(server) {
		if d.onStatus(s) || s.manager == contract.MCPServerFinalizer {
			d.is(d.refused(s.manager, nil, s.ac), apply.ErrGone)
		}
	}
	d.quiet()
}

// Two that both saw no object: without the version of a birth the second would have written over the first.
func TestOfTwoBirthsOneIsRefused(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	for pair := range 10 {
		server := d.server(fmt.Sprintf("echo%d", pair), "")
		var wait sync.WaitGroup
		results := make([]error, 2)
		for i, process := range []*apply.Applier{d.process(), d.process()} {
			backend, err := workload.Backend(d.content(server, int64(i+1)), workload.Slot1)
			d.Must(err, "building the backend")
			wait.Go(func() {
				_, results[i] = process.As(contract.RunnerBackend).Apply(d.Ctx, nil, backend, apply.AtVersion)
			})
		}
		wait.Wait()
		first, second := results[0], results[1]
		if (first == nil) == (second == nil) || !errors.Is(errors.Join(first, second), apply.ErrExists) {
			t.Fatalf("two births ended in %v and %v", first, second)
		}
	}
	if creates := d.requests.Since(0).Where(func(r kit.Request) bool { return r.Code == 201 }); len(creates) != 10 {
		t.Errorf("%d were created, want 10", len(creates))
	}
}

// foreign makes what a statement says belong to nobody, under another manager.
func (d *fixture) foreign(s statement) client.Object {
	d.Helper()
	object := d.Intent(d.text(s.ac))
	object.SetOwnerReferences(nil)
	d.Apply("somebody", d.text(object))
	return d.live(s)
}

package writer

import (
	"fmt"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// rounds of a story of quiet, and the time between them: managedFields have
// times of whole seconds, and entries are sorted by them.
const (
	rounds = 5
	pause  = 1050 * time.Millisecond
)

func TestUnchangedIntentsSendNothing(t *testing.T) {
	for name, spec := range map[string]string{"minimal": "", "full": full} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := freehold(t)
			all := d.statements(d.server(name, spec))
			for _, s := range all {
				want := apply.Created
				if d.live(s) != nil {
					want = apply.Configured
				}
				d.state(want, s)
			}
			d.settle(name)
			_ = d.sent()

			before := d.Versions()
			for range rounds {
				time.Sleep(pause)
				d.restate(all, d.applier)
				d.restate(all, d.process())
			}
			d.NothingMoved(before)
			d.applied(0)
		})
	}
}

// A second applier on an object makes the API server sort the entries of managedFields anew; with values that it writes
// differently, each apply would then move the object, for ever.
func TestUnchangedIntentsSendNothingBesideASecondApplier(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	all := d.statements(d.server("echo", full))
	for _, s := range all {
		_, err := d.applier.As(s.manager).Apply(d.Ctx, d.live(s), s.ac, s.opts...)
		d.Must(err, "putting "+s.String())
		d.neighbour(s)
	}
	d.settle("echo")
	before := d.Versions()
	_ = d.sent()
	for range rounds {
		time.Sleep(pause)
		for _, s := range all {
			d.neighbour(s)
		}
		d.restate(all, d.applier)
		d.restate(all, d.process())
	}
	d.NothingMoved(before)
	d.applied(0)

	// Nor would the server write anything if they were sent: they are in the form in which it stores them.
	for range 2 {
		time.Sleep(pause)
		for _, s := range all {
			d.raw(s)
			d.neighbour(s)
		}
	}
	d.NothingMoved(before)
}

// Values that the API server writes differently are found again by what it answered: one write for each process, also
// beside a second applier of such values, and whoever writes meanwhile.
func TestANonCanonicalIntentIsWrittenOnce(t *testing.T) {
	t.Parallel()
	d := under(t, granting(ownership.Grant{
		Manager: one, Object: contract.Deployment, Mode: ownership.Exclusive, Create: true, Fields: ownership.Paths("spec"),
	}))
	odd := func(name string) string {
		return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":0,
			"selector":{"matchLabels":{"app":"d"}},"template":{"metadata":{"labels":{"app":"d"}},"spec":{"containers":[{
			"name":%q,"image":"registry.example.com/a:1",
			"env":[{"name":"EMPTY","value":""},{"name":"POD","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
			"resources":{"limits":{"cpu":"1000m","memory":"1024Mi"}}}]}}}}`, name)
	}
	intent := client.ApplyConfigurationFromUnstructured(d.Intent(odd("ours")))
	live := func() *appsv1.Deployment { return read(d, &appsv1.Deployment{}, "d") }
	d.put(apply.Created, one, nil, intent)
	d.Apply("neighbour", odd("theirs"))
	for n, process := range []*apply.Applier{d.applier, d.process()} {
		d.applier = process
		d.rest()
		_ = d.sent()
		if n > 0 {
			d.put(apply.Configured, one, live(), intent)
		}
		d.put(apply.Unchanged, one, live(), intent)
		for range rounds {
			time.Sleep(pause)
			d.Apply("neighbour", odd("theirs"))
			d.put(apply.Unchanged, one, live(), intent)
		}
		if writes := d.sent().Writes(); len(writes) != n {
			t.Errorf("process %d sent %s", n+1, writes)
		}
		// What it learned is no excuse to overlook a change.
		d.Force("thief",
			`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"template":{"spec":{"containers":[
			{"name":"ours","resources":{"limits":{"cpu":"2"}}}]}}}}`)
		d.put(apply.Configured, one, live(), intent)
	}
	if cpu := live().Spec.Template.Spec.Containers[1].Resources.Limits.Cpu().String(); cpu != "1" {
		t.Errorf("the limit is %s", cpu)
	}
}

// restate puts everything once more and expects that it is unchanged.
func (d *fixture) restate(all []statement, by *apply.Applier) {
	d.Helper()
	for _, s := range all {
		got, err := by.As(s.manager).Apply(d.Ctx, d.live(s), s.ac, s.opts...)
		d.Must(err, "putting "+s.String())
		if got.Result != apply.Unchanged {
			d.Errorf("%s was written again\n%s", s, d.Describe(d.live(s)))
		}
	}
}

// raw applies a statement whether it is needed or not, as the writer would.
func (d *fixture) raw(s statement) {
	d.Helper()
	intent := client.ApplyConfigurationFromUnstructured(d.Intent(d.text(s.ac)))
	var err error
	if d.onStatus(s) {
		err = plane.Client.Status().Apply(d.Ctx, intent, client.FieldOwner(s.manager), client.ForceOwnership)
	} else {
		err = plane.Client.Apply(d.Ctx, intent, client.FieldOwner(s.manager), client.ForceOwnership)
	}
	d.Must(err, "applying "+s.String())
}

func (d *fixture) onStatus(s statement) bool {
	_, main := d.contract.Grant(s.manager, ownership.Object{GroupVersionKind: d.gvk(s.empty)}, *s.ac.(named).GetName())
	return !main
}

// neighbour lets another party apply something of its own beside a statement:
// a condition beside a status, a sidecar beside containers, else an annotation.
func (d *fixture) neighbour(s statement) {
	d.Helper()
	gvk, name := d.gvk(s.empty), *s.ac.(named).GetName()
	head := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"annotations":{"example.com/neighbour":"x"}}`,
		gvk.GroupVersion(), gvk.Kind, name)
	switch s.ac.(type) {
	case *appsv1ac.DeploymentApplyConfiguration, *appsv1ac.StatefulSetApplyConfiguration:
		head += `,"spec":{"template":{"spec":{"containers":[{"name":"aaa","image":"registry.example.com/aaa:1",
			"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}},
			"env":[{"name":"POD","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.name"}}}],
			"resources":{"limits":{"cpu":"1"}}}]}}}`
	}
	if d.onStatus(s) {
		d.ApplyStatus("neighbour", head+`,"status":{"conditions":[
			{"type":"Aaa","status":"True","reason":"Theirs","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
		return
	}
	d.Apply("neighbour", head+"}")
}

// settle waits until the workloads of a server, and the objects behind them, have come to rest.
func (d *fixture) settle(server string) {
	d.Helper()
	for _, object := range []client.Object{&appsv1.Deployment{}, &appsv1.StatefulSet{}} {
		object.SetNamespace(d.Namespace)
		object.SetName(workload.ProxyName(server))
		if _, ok := object.(*appsv1.StatefulSet); ok {
			object.SetName(workload.BackendName(server))
		}
		live := d.Intent(d.text(map[string]any{
			"apiVersion": "apps/v1", "kind": d.gvk(object).Kind, "metadata": map[string]any{"name": object.GetName()},
		}))
		d.Await(live, "it is at rest", func() error {
			is, why, err := kit.Kstatus(live)
			if err == nil && is != status.CurrentStatus {
				err = fmt.Errorf("kstatus says %s: %s", is, why)
			}
			return err
		})
	}
	d.rest()
}

// rest waits until nothing in the namespace has moved for a while.
func (d *fixture) rest() {
	d.Helper()
	for before := d.Versions(); ; {
		time.Sleep(pause)
		after := d.Versions()
		if len(before.Moved(after)) == 0 {
			return
		}
		before = after
	}
}

func (d *fixture) gvk(object client.Object) schema.GroupVersionKind {
	d.Helper()
	gvk, err := apiutil.GVKForObject(object, plane.Scheme)
	d.Must(err, "finding the kind of an object")
	return gvk
}

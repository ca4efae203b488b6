// Package writer tells the stories of controllers/apply, the only writer, on a real API server with a real
// kube-controller-manager: what reaches the wire, what stays in the object, and which error names which mishap. One
// file is one subject. What needs no API server is tested beside the writer.
package writer

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/test/kit"
)

var plane *kit.Plane

func TestMain(m *testing.M) {
	flag.Parse()
	// Stories wait for the clock more than they compute.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	kit.Main(m, &plane, startWiki)
}

// fixture is an environment with a writer at it whose requests are counted.
type fixture struct {
	*kit.Env
	applier  *apply.Applier
	contract ownership.Contract
	requests *kit.Requests
	client   client.Client
	seen     kit.Mark
}

// freehold is a fixture under the contract of the operator.
func freehold(t *testing.T) *fixture { return under(t, contract.Freehold()) }

func under(t *testing.T, contract ownership.Contract) *fixture {
	t.Helper()
	d := &fixture{Env: kit.NewEnv(t, plane), contract: contract, requests: &kit.Requests{}}
	var err error
	d.client, err = client.New(d.requests.Wrap(plane.Config),
		client.Options{Scheme: plane.Scheme, Mapper: plane.Client.RESTMapper()})
	d.Must(err, "building a counted client")
	d.applier = d.process()
	return d
}

// process is the applier of a process that has just started.
func (d *fixture) process() *apply.Applier {
	return apply.New(d.client, d.client, controllers.NewConverter(plane.Scheme), d.contract)
}

// put is Apply that must succeed with a result.
func (d *fixture) put(
	want apply.Result, manager ownership.Manager, live client.Object, ac runtime.ApplyConfiguration,
	opts ...apply.Option,
) apply.Outcome {
	d.Helper()
	got, err := d.applier.As(manager).Apply(d.Ctx, live, ac, opts...)
	d.Must(err, "putting")
	if got.Result != want {
		d.Fatalf("the result is %d, want %d, after %s", got.Result, want, d.requests.Since(d.seen))
	}
	return got
}

// refused is Apply that must fail.
func (d *fixture) refused(
	manager ownership.Manager, live client.Object, ac runtime.ApplyConfiguration, opts ...apply.Option,
) error {
	d.Helper()
	got, err := d.applier.As(manager).Apply(d.Ctx, live, ac, opts...)
	if err == nil {
		d.Fatalf("it was not refused, and the result is %d", got.Result)
	}
	return err
}

// is fails the story unless err is want.
func (d *fixture) is(err, want error) {
	d.Helper()
	if !errors.Is(err, want) {
		d.Fatalf("the error is %v, want %v", err, want)
	}
}

// cause is the error of one type in err.
func cause[E error](d *fixture, err error) E {
	d.Helper()
	var found E
	if !errors.As(err, &found) {
		d.Fatalf("the error is %v, want a %T", err, found)
	}
	return found
}

// quiet expects that nothing was sent since it was last asked, neither read nor write.
func (d *fixture) quiet() {
	d.Helper()
	if sent := d.sent(); len(sent) > 0 {
		d.Fatalf("nothing was to be sent, but there were %s", sent)
	}
}

// applied expects exactly n applies since it was last asked, and no other write.
func (d *fixture) applied(n int) {
	d.Helper()
	sent := d.sent()
	writes := sent.Where(func(r kit.Request) bool { return r.Verb != "get" })
	applies := sent.Where(func(r kit.Request) bool { return r.Verb == "apply" })
	if len(applies) != n || len(writes) != n {
		d.Fatalf("want %d applies and no other write, got %s", n, sent)
	}
}

func (d *fixture) sent() kit.Log {
	log := d.requests.Since(d.seen)
	d.seen = d.requests.Mark()
	return log
}

// read is the object as the API server has it.
func read[T client.Object](d *fixture, object T, name string) T {
	d.Helper()
	object.SetName(name)
	d.Read(object)
	return object
}

// unmoved expects that an object is as it was read, but for what Kubernetes' controllers report of it.
func (d *fixture) unmoved(was client.Object) {
	d.Helper()
	now := d.Unstructured(was)
	if now.GetResourceVersion() == was.GetResourceVersion() {
		return
	}
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(was)
	d.Must(err, "converting an object")
	if diff := cmp.Diff(unreported(before), unreported(now.Object)); diff != "" {
		d.Fatalf("%s moved (-before +now):\n%s", d.Title(was), diff)
	}
}

func unreported(object map[string]any) map[string]any {
	u := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	u.SetManagedFields(slices.DeleteFunc(u.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == "kube-controller-manager"
	}))
	u.SetResourceVersion("")
	annotations := u.GetAnnotations()
	delete(annotations, "deployment.kubernetes.io/revision")
	u.SetAnnotations(annotations)
	for _, field := range []string{"status", "apiVersion", "kind"} {
		delete(u.Object, field)
	}
	return u.Object
}

// The managers of contracts of the tests' own.
const (
	one ownership.Manager = "tests.freehold.dev/one"
	two ownership.Manager = "tests.freehold.dev/two"
)

var configMap = ownership.Object{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}

// grant lets a manager write fields of a ConfigMap.
func grant(manager ownership.Manager, fields ...string) ownership.Grant {
	return ownership.Grant{
		Manager: manager, Object: configMap, Mode: ownership.Exclusive, Create: true,
		Fields: ownership.Paths(fields...),
	}
}

func granting(grants ...ownership.Grant) ownership.Contract {
	return ownership.Contract{Grants: grants}
}

// note is an intent about a ConfigMap. pairs are keys and values of its data.
func (d *fixture) note(name string, pairs ...string) *corev1ac.ConfigMapApplyConfiguration {
	data := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		data[pairs[i]] = pairs[i+1]
	}
	return corev1ac.ConfigMap(name, d.Namespace).WithData(data)
}

// there makes a ConfigMap that somebody else created, and reads it.
func (d *fixture) there(name string) *corev1.ConfigMap {
	d.Helper()
	d.Apply("somebody", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{"theirs":"x"}}`,
		name))
	return read(d, &corev1.ConfigMap{}, name)
}

// text is a value as JSON, to compare it.
func (d *fixture) text(value any) string {
	d.Helper()
	data, err := json.Marshal(value)
	d.Must(err, "encoding")
	return string(data)
}

package writer

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
)

// The API server answers 500 to an intent that does not fit its schema, which would be retried for ever if it were
// taken for a fault of the server. It happens where the schema there is older than ours.
func TestASchemaErrorIsABadIntent(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	newer := apply.NewConverter(plane.Scheme,
		map[string]managedfields.TypeConverter{"freehold.dev": managedfields.NewDeducedTypeConverter()})
	d.applier = apply.New(d.client, d.client, newer, granting(ownership.Grant{
		Manager: one, Object: contract.MCPServerSub, Mode: ownership.Exclusive, Fields: ownership.Paths("status.later"),
	}))
	_ = d.sent()
	intent := client.ApplyConfigurationFromUnstructured(d.Intent(
		`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo"},"status":{"later":"x"}}`))
	bad := cause[*apply.BadIntent](d, d.refused(one, server, intent))
	if len(d.sent().Answered(500)) != 1 || !strings.Contains(bad.Error(), ".status.later: field not declared in schema") {
		t.Errorf("it says %q", bad)
	}
}

func TestWhatOurSchemaRefusesIsNotSent(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data")))
	for name, text := range map[string]string{
		"an unknown field": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"},"dataa":{"a":"b"}}`,
		"a wrong type":     `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"},"data":["a"]}`,
		"a uid":            `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","uid":"u"},"data":{"a":"b"}}`,
		"a version":        `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","resourceVersion":"1"},"data":{"a":"b"}}`,
		"a key twice":      `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n","ownerReferences":[{"uid":"u"},{"uid":"u"}]}}`,
		"no name":          `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":""},"data":{"a":"b"}}`,
	} {
		_ = cause[*apply.BadIntent](d, d.refused(one, nil, client.ApplyConfigurationFromUnstructured(d.Intent(text))))
		if sent := d.sent(); len(sent) > 0 {
			t.Errorf("%s was sent: %s", name, sent)
		}
	}
}

func TestAValidationErrorIsABadIntent(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data")))
	bad := cause[*apply.BadIntent](d, d.refused(one, nil, d.note("n", "not a key", "1")))
	if len(d.sent().Answered(422)) != 1 || !strings.Contains(bad.Error(), "data[not a key]") {
		t.Errorf("it says %q", bad)
	}
}

// The rules of the schema's root refuse a workload generation that falls.
func TestABrokenRuleIsABadIntent(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	server := d.server("echo", "")
	claim := func(generation int64) *v1alpha1ac.MCPServerApplyConfiguration {
		return v1alpha1ac.MCPServer("echo", d.Namespace).WithStatus(v1alpha1ac.MCPServerStatus().
			WithWorkload(v1alpha1ac.WorkloadStatus().WithGeneration(generation).WithHash("a")))
	}
	d.put(apply.Configured, contract.MCPServerWorkload, server, claim(2), apply.AtVersion)
	live := read(d, server, "echo")
	_ = cause[*apply.BadIntent](d, d.refused(contract.MCPServerWorkload, live, claim(1), apply.AtVersion))
	d.unmoved(live)
}

func TestABirthInATerminatingNamespace(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data")))
	d.Apply("somebody",
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"holds","finalizers":["example.com/hold"]}}`)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: d.Namespace}}
	d.Must(plane.Client.Delete(d.Ctx, namespace), "deleting the namespace")
	d.is(d.refused(one, nil, d.note("n", "a", "1")), apply.ErrNamespaceTerminating)
	// What stands there can still be written.
	d.put(apply.Configured, one, read(d, &corev1.ConfigMap{}, "holds"), d.note("holds", "a", "1"))
	d.Apply("somebody", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"holds"}}`)
}

// Without managedFields nothing can be said about ownership, so that a cache
// that strips them is an error, and a server that has none is not.
func TestAStrippedObjectIsAnError(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data.a")))
	live := d.there("shared")
	stripped := live.DeepCopy()
	stripped.ManagedFields = nil
	_ = d.sent()
	d.is(d.refused(one, stripped, d.note("shared", "a", "1")), apply.ErrStripped)
	d.applied(0)
	d.is(d.applier.As(one).Release(d.Ctx, stripped), apply.ErrStripped)
	d.applied(0)

	d.Must(plane.Client.Patch(d.Ctx, live,
		client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`))), "resetting managedFields")
	reset := read(d, live, "shared")
	if len(reset.ManagedFields) != 0 {
		t.Fatalf("managedFields were not reset: %v", reset.ManagedFields)
	}
	d.put(apply.Configured, one, reset, d.note("shared", "a", "1"))
	live = read(d, live, "shared")
	d.Owns(live, string(one), "data.a")
	if live.Data["theirs"] != "x" || live.Data["a"] != "1" {
		t.Errorf("data is %v", live.Data)
	}
	d.put(apply.Unchanged, one, live, d.note("shared", "a", "1"))
}

func TestAStrippedObjectThatWentIsGone(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data.a")))
	stripped := d.there("shared")
	stripped.ManagedFields = nil
	d.Delete(stripped.DeepCopy())
	d.is(d.refused(one, stripped, d.note("shared", "a", "1")), apply.ErrGone)
	if d.Exists(stripped.DeepCopy()) {
		t.Error("it came back")
	}
}

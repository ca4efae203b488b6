package policy

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/test/kit"
)

// A namespace is closed by the sample that administrators may apply, unless its label
// opens it. What stands there already goes on.
func TestTheSampleKeepsNetworksClosed(t *testing.T) {
	closed, open := kit.NewEnv(t, plane), kit.NewEnv(t, plane)
	open.Patch(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: open.Namespace}}, "kubectl",
		`{"metadata":{"labels":{"freehold.dev/network":"open"}}}`)
	const egress, nothing, anyone = "network: {egress: [{ports: [{port: 443}]}]}", "network: {egress: []}",
		"network: {backendIngress: Any}"
	server := func(name, more string) string { return kit.Server(name, "registry.example.com/echo:1", more) }
	old := closed.Apply("git", server("old", egress))
	closed.Apply("git", server("exposed", anyone))

	lift := bind(t, "../../config/samples/closed-networks.yaml", func() bool {
		_, err := closed.ApplyErr("git", server("probe", egress), client.DryRunAll)
		return err != nil
	})
	defer lift()
	const opens = " opens the network of namespace %s, which is closed: remove the field, or ask an administrator of " +
		"the cluster to label the namespace freehold.dev/network=open"
	saysEgress := fmt.Sprintf("spec.network.egress"+opens, closed.Namespace)
	saysAny := strings.Replace(fmt.Sprintf("spec.network.backendIngress Any"+opens, closed.Namespace), "the network of",
		"the backend in", 1)
	for what, tc := range map[string]struct{ name, spec, says string }{
		"rules":                         {"echo", egress, saysEgress},
		"the empty list, which is DNS":  {"echo", nothing, saysEgress},
		"a backend for all":             {"echo", anyone, saysAny},
		"no network":                    {"echo", "", ""},
		"an empty network":              {"echo", "network: {}", ""},
		"a backend for the proxy alone": {"echo", "network: {backendIngress: ProxyOnly}", ""},
		"what stood":                    {"old", egress + "\nargs: [a]", ""},
		"the end of what stood":         {"old", "", ""},
		"less than stood":               {"old", nothing, saysEgress},
		"more than stood":               {"old", "network: {backendIngress: Any, egress: [{ports: [{port: 443}]}]}", saysAny},
		"what stood exposed":            {"exposed", anyone + "\nargs: [a]", ""},
		"rules for what stood exposed":  {"exposed", "network: {backendIngress: Any, egress: []}", saysEgress},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := closed.ApplyErr("git", server(tc.name, tc.spec), client.DryRunAll)
			if tc.says != "" {
				refused(t, err, tc.says)
			} else if err != nil {
				t.Error(err)
			}
			if _, err := open.ApplyErr("git", server(tc.name, tc.spec), client.DryRunAll); err != nil {
				t.Errorf("in a namespace that may be open: %v", err)
			}
		})
	}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "mcpservers-closed-networks"},
	}
	closed.On("").Await(policy, "its types are checked", func() error {
		if policy.Status.TypeChecking == nil {
			return errors.New("they are not")
		}
		return nil
	})
	for _, w := range policy.Status.TypeChecking.ExpressionWarnings {
		t.Errorf("%s: %s", w.FieldRef, w.Warning)
	}
	// The operator holds what stood with its finalizer.
	finalizer := closed.Intent(fmt.Sprintf("{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: old, "+
		"uid: %s, finalizers: [%s]}}", old.GetUID(), contract.Finalizer))
	if err := applied(closed.Ctx, controller(t), string(contract.MCPServerFinalizer), "", finalizer, true); err != nil {
		t.Error(err)
	}
}

// bind applies a file of objects of the cluster, and waits until holds. What it
// returns deletes them, and waits until that holds no more.
func bind(t *testing.T, file string, holds func() bool) (lift func()) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		o := object(document)
		objects = append(objects, o)
		if err := admin.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o),
			client.FieldOwner("kubectl")); err != nil {
			t.Fatal(err)
		}
	}
	await := func(want bool) {
		for begun := time.Now(); holds() != want; time.Sleep(100 * time.Millisecond) {
			if time.Since(begun) > kit.Patience {
				t.Fatalf("that %s holds is still %t", file, !want)
			}
		}
	}
	lift = func() {
		for _, o := range objects {
			if err := admin.Delete(t.Context(), o); err != nil {
				t.Error(err)
			}
		}
		await(false)
	}
	await(true)
	return lift
}

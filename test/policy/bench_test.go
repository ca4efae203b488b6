package policy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
)

// BenchmarkApply are applies that change an object, by the operator and by somebody else, whom the policies must not
// slow down: what one of them takes of the API server with and without policies. What they say is in docs/policies.md.
func BenchmarkApply(b *testing.B) {
	const (
		deployment = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: %s}, spec: {replicas: 0, " + oldPods + "}}"
		config     = "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}}"
		service    = "{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {ports: [{port: 80}]}}"
		children   = string(contract.MCPServerChildren)
	)
	namespaces := spared(b)
	for _, row := range []struct {
		name, text, object string
		ours, born         bool
	}{
		{"our Deployment", deployment, "bench-proxy", true, false},
		{"our Service", service, "bench-proxy", true, false},
		{"our run config", config, "bench-run-1-a", true, false},
		{"a Deployment", deployment, "bench", false, false},
		{"a Service", service, "bench", false, false},
		{"a ConfigMap", config, "bench", false, false},
		{"a new ConfigMap", config, "bench", false, true},
	} {
		c, manager, n := admin, "someone", 0
		if row.ours {
			c, manager = controller(b), children
		}
		send := func(namespace string) {
			n++
			name := row.object
			if row.born {
				name += fmt.Sprint("-", n)
			}
			o := object(fmt.Sprintf(row.text, name))
			o.SetNamespace(namespace)
			if row.ours {
				merge(o.Object, object(numbered).Object)
			}
			o.SetAnnotations(map[string]string{generation: fmt.Sprint(n)})
			if err := applied(b.Context(), c, manager, "", o, true); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(row.name, func(b *testing.B) {
			took := map[string][]float64{}
			for b.Loop() {
				for _, i := range rand.Perm(len(namespaces)) { // so that what else the machine does falls on both
					took[namespaces[i]] = append(took[namespaces[i]], batch(b, func() { send(namespaces[i]) }))
				}
			}
			for _, namespace := range namespaces {
				slices.Sort(took[namespace])
				b.ReportMetric(took[namespace][len(took[namespace])/2], namespace+"-ms")
			}
		})
	}
}

// batch is what one of a few writes takes of the API server, in milliseconds, and
// what kube-controller-manager writes in answer.
func batch(b *testing.B, write func()) float64 {
	b.Helper()
	const writes = 25
	before, err := plane.APIServer.CPU()
	for range writes {
		write()
	}
	time.Sleep(200 * time.Millisecond)
	after, late := plane.APIServer.CPU()
	if err := errors.Join(err, late); err != nil {
		b.Fatal(err)
	}
	return (after - before).Seconds() * 1000 / writes
}

// spared are a namespace that the policies look at, and one that they do not. They
// stay what they are meanwhile: to compile them anew costs more than they do.
func spared(b *testing.B) []string {
	b.Helper()
	const with, without = "policies", "none"
	for _, name := range []string{with, without} {
		if err := admin.Create(b.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			b.Fatal(err)
		}
	}
	var bindings admissionregistrationv1.ValidatingAdmissionPolicyBindingList
	if err := admin.List(b.Context(), &bindings); err != nil {
		b.Fatal(err)
	}
	for i := range bindings.Items {
		spare := fmt.Sprintf(
			`{"spec":{"matchResources":{"namespaceSelector":{"matchExpressions":[{"key":%q,"operator":"NotIn","values":[%q]}]}}}}`, corev1.LabelMetadataName, without)
		if err := admin.Patch(b.Context(), &bindings.Items[i],
			client.RawPatch(types.MergePatchType, []byte(spare))); err != nil {
			b.Fatal(err)
		}
	}
	for namespace, want := range map[string]bool{with: true, without: false} {
		probe := object("{apiVersion: v1, kind: ConfigMap, metadata: {name: probe, labels: {app.kubernetes.io/managed-by: " +
			"freehold}}}")
		probe.SetNamespace(namespace)
		if err := wait.PollUntilContextTimeout(b.Context(), 100*time.Millisecond, time.Minute, true,
			func(ctx context.Context) (bool, error) {
				return (applied(ctx, admin, string(contract.MCPServerChildren), "", probe, true) != nil) == want, nil
			}); err != nil {
			b.Fatal("waiting for the policies: ", err)
		}
	}
	time.Sleep(5 * time.Second) // until all bindings are seen, and what is new is compiled
	return []string{with, without}
}

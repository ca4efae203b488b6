package policy

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
)

// BenchmarkApply is an apply that changes a proxy's Deployment, sent by the
// operator with and without the policies, and a patch by somebody else, whom
// they must not slow down. The numbers are in docs/policies.md.
func BenchmarkApply(b *testing.B) {
	ours, children := controller(b), string(contract.MCPServerChildren)
	writes := map[string]func(n int64) error{
		"ours": func(n int64) error {
			o := object(fmt.Sprintf(oldProxy, ""))
			o.SetName("bench-proxy")
			set(b, o, int64(0), "spec", "replicas")
			set(b, o, n, "spec", "revisionHistoryLimit")
			return applied(b.Context(), ours, children, "", o, true)
		},
		"another's": func(n int64) error {
			o := object("{apiVersion: v1, kind: ConfigMap, metadata: {name: bench, namespace: older}}")
			set(b, o, fmt.Sprint(n), "data", "n")
			return applied(b.Context(), admin, "someone", "", o, true)
		},
	}
	n := int64(0)
	measure := func(name string) {
		for _, whose := range []string{"ours", "another's"} {
			b.Run(name+"/"+whose, func(b *testing.B) {
				before := serverSeconds(b)
				defer func() { b.ReportMetric(1000*(serverSeconds(b)-before)/float64(b.N), "apiserver-ms/op") }()
				for b.Loop() {
					n++
					if err := writes[whose](n); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
	// In turns, so that what else the machine does falls on both.
	for round := range 3 {
		measure(fmt.Sprintf("with/%d", round))
		without(b, func() { measure(fmt.Sprintf("without/%d", round)) })
	}
}

var cpuSeconds = regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`)

// serverSeconds is the CPU time that the API server has taken, which says more
// than the clock on a machine that does other things.
func serverSeconds(b *testing.B) float64 {
	b.Helper()
	api, err := plane.HTTP()
	if err != nil {
		b.Fatal(err)
	}
	text, err := api.Get().AbsPath("/metrics").DoRaw(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	found := cpuSeconds.FindSubmatch(text)
	if found == nil {
		b.Fatal("the API server does not say what it took")
	}
	seconds, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return seconds
}

func set(b *testing.B, o *unstructured.Unstructured, value any, fields ...string) {
	b.Helper()
	if err := unstructured.SetNestedField(o.Object, value, fields...); err != nil {
		b.Fatal(err)
	}
}

// without takes the policies away while it does something.
func without(b *testing.B, do func()) {
	b.Helper()
	var policies admissionregistrationv1.ValidatingAdmissionPolicyList
	if err := admin.List(b.Context(), &policies); err != nil {
		b.Fatal(err)
	}
	if err := admin.DeleteAllOf(b.Context(), &admissionregistrationv1.ValidatingAdmissionPolicy{}); err != nil {
		b.Fatal(err)
	}
	held(b, false)
	do()
	for _, p := range policies.Items {
		p.ResourceVersion, p.UID = "", ""
		if err := admin.Create(b.Context(), &p); err != nil {
			b.Fatal(err)
		}
	}
	held(b, true)
}

// held waits until the API server refuses what it is to refuse, or no longer
// does.
func held(b *testing.B, want bool) {
	b.Helper()
	probe := object("{apiVersion: v1, kind: ConfigMap, metadata: {name: probe, namespace: older}}")
	err := wait.PollUntilContextTimeout(b.Context(), 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := applied(ctx, admin, string(contract.MCPServerChildren), "", probe, true)
		return (err != nil) == want, nil
	})
	if err != nil {
		b.Fatal("waiting for the policies: ", err)
	}
	// The last of them comes after the first.
	time.Sleep(2 * time.Second)
	if err := client.IgnoreNotFound(admin.Delete(b.Context(), probe)); err != nil {
		b.Fatal(err)
	}
}

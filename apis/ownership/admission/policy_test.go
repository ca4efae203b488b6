package admission

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/freehold-dev/freehold/apis/ownership"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// thing is a contract that has everything which can be said in one.
func thing() ownership.Contract {
	object := ownership.Object{GroupVersionKind: schema.GroupVersionKind{
		Group: "example.com", Version: "v1",
		Kind: "Thing",
	}}
	status := object
	status.Subresource = "status"
	return ownership.Contract{Grants: []ownership.Grant{
		{
			Manager: "example/whole", Identity: "operator", Object: object, Names: []string{"it's", "SERVER-*-*"},
			Mode: ownership.Exclusive, Why: "w",
			Fields: ownership.Paths("metadata.labels[*]", "metadata.labels.a", `spec.list[key="a'b\\c"]`,
				`metadata.finalizers[="x/y"]`, "spec.n.m"),
		},
		{
			Manager: "example/status", Identity: "agent-SERVER-x", Object: status, Names: []string{"SERVER", "a-SERVER-*-b"},
			Mode: ownership.Exclusive, Why: "w",
			Fields: ownership.Paths("status"),
		},
		{
			Manager: "example/other", Identity: "OWNER.other-x", Object: object, Names: []string{"OWNER-other"},
			Mode: ownership.Exclusive, Why: "w",
			Fields: ownership.Paths("spec.other"),
		},
	}}
}

// TestPolicyIsWrittenAsBefore holds a whole policy.
func TestPolicyIsWrittenAsBefore(t *testing.T) {
	compiled, err := Compile(thing(), Options{
		Product: "Example", Namespace: "example-system", Page: "the page",
		Rules: map[schema.GroupKind][]Rule{{Group: "example.com", Kind: "Thing"}: {{Broken: "object.broken"}}},
	})
	if err != nil || len(compiled) != 1 {
		t.Fatalf("%d policies, %v", len(compiled), err)
	}
	got, err := compiled[0].YAML()
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "things.golden.yaml")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the policy differs; if that is meant, run make golden (-want +got):\n%s", diff)
	}
}

func TestWhatCannotBeCompiledIsRefused(t *testing.T) {
	for want, change := range map[string]func(*ownership.Grant){
		"path spec.list[*].a: a * may only stand at the end": func(g *ownership.Grant) {
			g.Fields = ownership.Paths("spec.list[*].a")
		},
	} {
		contract := thing()
		change(&contract.Grants[0])
		if _, err := Compile(contract, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

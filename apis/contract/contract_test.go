package contract

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/ownership/admission"
	"github.com/freehold-dev/freehold/apis/ownership/rbac"
)

func TestTheContractHoldsItsOwnRules(t *testing.T) {
	for _, err := range Freehold().Check() {
		t.Error(err)
	}
}

func TestNobodyMayReadSecrets(t *testing.T) {
	c := Freehold()
	for _, r := range c.Rights {
		if strings.HasPrefix(r.Resource, "secrets") {
			t.Errorf("%s may %v %s", r.Identity, r.Verbs, r.Resource)
		}
	}
	for _, g := range c.Grants {
		if g.Object.Kind == "Secret" && !g.Once {
			t.Errorf("%s writes Secrets that exist, and reads them in the answer", g.Manager)
		}
	}
}

func TestOnlyItsIdentityMayRemove(t *testing.T) {
	c := Freehold()
	for identity, want := range map[string]bool{
		IdentityMCPServer: true, IdentityOperator: false, IdentityRBAC: false,
		IdentityRunner: false, "": false,
	} {
		if c.MayRemove(identity, StatefulSet.GroupVersionKind) != want {
			t.Errorf("%q may remove a StatefulSet: %t", identity, !want)
		}
	}
	if c.MayRemove(IdentityMCPServer, Deployment.GroupVersionKind) {
		t.Error("a Deployment may be removed")
	}
}

func TestLeavesOutsideAGrantAreNamed(t *testing.T) {
	grant, ok := Freehold().Grant(MCPServerConditions, MCPServerSub, "echo")
	if !ok {
		t.Fatal("no grant")
	}
	set := fieldpath.NewSet(
		fieldpath.MakePathOrDie("status", "observedGeneration"),
		fieldpath.MakePathOrDie("status", "conditions", fieldpath.KeyByFields("type", "Ready"), "status"),
		fieldpath.MakePathOrDie("status", "conditions", fieldpath.KeyByFields("type", "BackendApplied"), "status"),
		fieldpath.MakePathOrDie("status", "url"),
	)
	got := strings.Join(grant.Outside(set), " ")
	want := `.status.url .status.conditions[type="BackendApplied"].status`
	if got != want {
		t.Errorf("outside = %s, want %s", got, want)
	}
}

func TestGrantsAreFoundByName(t *testing.T) {
	c := Freehold()
	for name, want := range map[string]ownership.Manager{
		"echo-proxy": MCPServerChildren, "echo-backend": RunnerBackend,
		"echo-backend-headless": RunnerBackend,
	} {
		for _, manager := range []ownership.Manager{MCPServerChildren, RunnerBackend} {
			if _, ok := c.Grant(manager, Service, name); ok != (manager == want) {
				t.Errorf("grant of %s on Service %s: %v", manager, name, ok)
			}
		}
	}
}

func TestAManagerIsOfOneIdentity(t *testing.T) {
	c := Freehold()
	c.Grants[0].Identity = "somebody"
	c.Grants = append(c.Grants, ownership.Grant{
		Manager: c.Grants[0].Manager, Identity: "else", Object: ConfigMap, Mode: ownership.Exclusive, Why: "w",
		Fields: ownership.Paths("binaryData"),
	})
	errs := c.Check()
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "else and somebody both write as "+
		string(MCPServerFinalizer)) {
		t.Errorf("got %v", errs)
	}
}

// TestFreeholdsPoliciesAreInstalled holds that what is compiled is what is in config/policy.
func TestFreeholdsPoliciesAreInstalled(t *testing.T) {
	dir := filepath.Join("..", "..", "config", "policy")
	compiled, err := admission.Compile(Narrowed(), Policies())
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "managers-*.yaml"))
	if err != nil || len(files) != len(compiled) || len(compiled) < 8 {
		t.Errorf("%d policies are compiled, and %d installed (%v): run make generate", len(compiled), len(files), err)
	}
	for _, p := range compiled {
		want, err := p.YAML()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "managers-"+p.Name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		_, installed, _ := strings.Cut(string(got), "\n") // the comment
		if diff := cmp.Diff(string(want), installed); diff != "" {
			t.Errorf("what is installed for %s differs: run make generate (-compiled +installed):\n%s", p.Name, diff)
		}
	}
}

// TestFreeholdsRolesAreInstalled holds that what is compiled is what is in config/rbac.
func TestFreeholdsRolesAreInstalled(t *testing.T) {
	dir := filepath.Join("..", "..", "config", "rbac")
	var want []string
	for _, identity := range Freehold().Identities() {
		if regexp.MustCompile("[A-Z]").MatchString(identity) {
			continue // its roles the operator makes
		}
		want = append(want, filepath.Join(dir, identity+".yaml"))
		compiled, err := rbac.YAML(Freehold(), identity, Policies().Namespace)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, identity+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		_, installed, _ := strings.Cut(string(text), "\n") // the comment
		if diff := cmp.Diff(string(compiled), installed); diff != "" {
			t.Errorf("what is installed for %s differs: run make generate (-compiled +installed):\n%s", identity, diff)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*.yaml")); err != nil || !cmp.Equal(files, want) || len(want) != 7 {
		t.Errorf("there are files %v, want %v (%v): run make generate", files, want, err)
	}
}

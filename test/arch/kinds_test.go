package arch

import (
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/hack/docs/lists"
	"github.com/freehold-dev/freehold/test/library/toy"
)

// ofOneKind are names that only what is special about a kind of configuration has: of its types, and of what it
// states in a run config.
var ofOneKind = regexp.MustCompile(`(OIDC|Authz)Config|^Authorization$`)

// special is what a kind of configuration touches: its types, its row, its package, its line, and
// what becomes one when others' objects are converted.
var special = []string{
	"apis/v1alpha1", "apis/contract", "applyconfig/...", "controllers/configs/authz", "controllers/configs/oidc",
	"cmd/kubectl-freehold/internal/clients", "cmd/kubectl-freehold/internal/conversion", "test/...", "hack/...",
	// What enforces it.
	"apis/runconfig", "cmd/runner/...",
	// Policies that a server states itself.
	"controllers/workload",
}

// Whoever adds a kind of configuration finds all places by those of another one: they are few.
func TestAKindOfConfigurationsIsNamedWhereItIsSpecial(t *testing.T) {
	for _, s := range sources(t) {
		if s.isTest() || s.generated() || fitsAny(s.dir(), special) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok && ofOneKind.MatchString(name.Name) {
				t.Errorf("%s: %s is special about one kind of configurations: ask all that the registry lists, "+
					"or move it to one of %s", s.at(name.Pos()), name.Name, strings.Join(special, ", "))
			}
			return true
		})
	}
}

// generated are files that follow from the types and the contract, as does the chart's copy of them.
var generated = []string{
	"config/crd/*.yaml", "config/rbac/*.yaml", "config/policy/managers-*.yaml", "config/chart/files/*/*.yaml",
}

// unlike are texts about a kind that no other kind has: examples, what is converted, and how the proxy enforces it.
var unlike = []string{
	"docs/*", "docs/*/*", "docs/*/*/*", "hack/demo.sh", "config/samples/*", "config/gitops/team/base/login.yaml",
	"config/gitops/team/base/policies.yaml", "config/gitops/team/base/kustomization.yaml",
	"cmd/kubectl-freehold/internal/conversion/*", "controllers/workload/*", "CHANGELOG.md",
	"cmd/runner/*", "cmd/runner/internal/*/*",
}

// A third kind is one package and a line in three: its types, its row in the contract, its line in
// the registry. What else names the kind MCPAuthzConfig is generated, or is about that kind alone.
func TestAThirdKindTouchesThreePlacesAndItsPackage(t *testing.T) {
	named := regexp.MustCompile(`(?i)mcpauthzconfigs?\b|authzConfigRef\b|configs/authz"`)
	advice := regexp.MustCompile(`(an|the) MCPAuthzConfig\b`)
	matches := func(name string, patterns []string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, err := path.Match(pattern, name)
			return err != nil || ok
		})
	}
	places := map[string]bool{}
	for _, name := range files(t) {
		if matches(name, generated) || matches(name, unlike) || strings.HasPrefix(name, "test/") || path.Ext(name) == "" ||
			strings.HasPrefix(name, "applyconfig/") || strings.HasSuffix(name, "_test.go") ||
			strings.Contains(name, "/testdata/") || strings.Contains(name, "zz_generated") {
			continue
		}
		text := read(t, name)
		if slices.Contains(lists.Files(), name) {
			text = withoutKinds(t, name, text)
		}
		for number, line := range strings.Split(text, "\n") {
			code, _, _ := strings.Cut(line, "// ")
			if strings.HasPrefix(strings.TrimSpace(line), "#") || !named.MatchString(code) || advice.MatchString(code) {
				continue
			}
			if places[path.Dir(name)] = true; path.Ext(name) != ".go" {
				t.Errorf("%s:%d names a kind of configuration: generate the list (hack/docs/lists)", name, number+1)
			}
		}
	}
	want := map[string]bool{
		"apis/v1alpha1": true, "apis/contract": true, "controllers/configs/registry": true, "controllers/configs/authz": true,
	}
	for place := range places {
		if !want[place] {
			t.Errorf("a kind of configuration is named in %s, too: ask all that the registry or the contract lists", place)
		}
	}
	if len(places) != len(want) {
		t.Errorf("it is named in %d places, want three and its package: %v", len(places), places)
	}
}

// withoutKinds is a file with empty lists. It holds that the lists are those of the contract, and that one
// of a further kind has it.
func withoutKinds(t *testing.T, name, text string) string {
	t.Helper()
	written := func(more ...contract.Config) string {
		all := contract.Kinds()
		for _, c := range more {
			all = append(all, c.Object)
		}
		again, err := lists.Written(name, text, all)
		if err != nil {
			t.Error(err)
		}
		return again
	}
	if written() != text {
		t.Errorf("%s lists other kinds than the contract: run make generate", name)
	}
	if third := strings.ToLower(written(toy.Kind{}.Row())); !strings.Contains(third, "mcptoolconfig") {
		t.Errorf("%s does not list a third kind", name)
	}
	empty, err := lists.Written(name, text, contract.Kinds()[:1])
	if err != nil {
		t.Error(err)
	}
	return empty
}

package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

// below is what every controller may import.
var below = []string{
	"apis/...", "applyconfig/...", "controllers/apply", "controllers/authz", "controllers/complaints",
	"controllers/conditions",
	"controllers/configs/authz", "controllers/configs/frame", "controllers/configs/registry", "controllers/configs/store",
	"controllers/kinds", "controllers/metrics", "controllers/podtemplate", "controllers/reconcile",
	"controllers/references", "controllers/revision", "controllers/rollout", "controllers/routes", "controllers/runspec",
	"controllers/workload",
}

// layers is the picture of docs/architecture.md: which packages of ours a package may import. The longest name that
// fits a package counts; a name that ends in /... fits everything below it too. A package may always import what lies
// below itself.
var layers = map[string][]string{
	"apis/v1alpha1":            {},
	"apis/ownership":           {},
	"apis/ownership/admission": {"apis/ownership"},
	"apis/ownership/rbac":      {"apis/ownership"},
	"apis/contract":            {"apis/ownership", "apis/ownership/admission"},
	"apis/runconfig":           {"apis/v1alpha1"},
	"apis/printable":           {},

	"applyconfig/...": {"apis/v1alpha1", "applyconfig/..."},

	"controllers/conditions": {"apis/...", "applyconfig/..."},
	"controllers/authz":      {},
	"controllers/runspec":    {"apis/...", "applyconfig/...", "controllers/kinds"},
	"controllers/revision":   {},
	"controllers/kinds":      {"apis/...", "applyconfig/..."},
	"controllers/rollout":    {"apis/...", "controllers/conditions", "controllers/kinds"},
	"controllers/podtemplate": {
		"apis/...", "applyconfig/...", "controllers/configs/frame", "controllers/configs/registry",
		"controllers/revision", "controllers/runspec",
	},
	"controllers/workload": {
		"apis/...", "applyconfig/...", "controllers/configs/authz", "controllers/configs/frame",
		"controllers/configs/registry",
		"controllers/kinds", "controllers/podtemplate", "controllers/revision", "controllers/rollout", "controllers/runspec",
	},
	// A kind of shared configuration is one package, and a line of the registry.
	"controllers/configs/frame": {"apis/...", "applyconfig/...", "controllers/kinds"},
	"controllers/configs/authz": {
		"apis/...", "applyconfig/...", "controllers/authz", "controllers/configs/frame", "controllers/kinds",
		"controllers/runspec",
	},
	"controllers/configs/oidc": {
		"apis/...", "applyconfig/...", "controllers/configs/frame", "controllers/kinds", "controllers/runspec",
	},
	"controllers/configs/group":    {"apis/...", "applyconfig/...", "controllers/configs/frame", "controllers/kinds"},
	"controllers/configs/registry": {"apis/...", "controllers/configs/..."},
	"controllers/configs/store": {
		"apis/...", "controllers/configs/frame", "controllers/configs/registry",
		"controllers/kinds", "controllers/reconcile", "controllers/rollout",
	},
	// With apis/ownership the library for other operators (docs/library.md): neither knows our kinds.
	"controllers/apply":      {"apis/ownership"},
	"controllers/metrics":    {"apis/..."},
	"controllers/complaints": {"controllers/conditions", "controllers/workload"},
	"controllers/routes":     {"apis/contract"},
	"controllers/reconcile":  {"apis/...", "controllers/apply", "controllers/conditions", "controllers/metrics"},
	"controllers/references": {"apis/...", "controllers/kinds"},

	"controllers/backend":              below,
	"controllers/mcpserver":            below,
	"controllers/mcpserver/successive": {"apis/...", "controllers/conditions", "controllers/workload"},
	"controllers/mcpserver/snapshot":   append([]string{"controllers/mcpserver/successive"}, below...),
	"controllers/mcpserver/render":     append([]string{"controllers/mcpserver/snapshot"}, below...),
	"controllers/mcpserver/plan": append([]string{
		"controllers/mcpserver/snapshot", "controllers/mcpserver/successive", "controllers/mcpserver/render",
	}, below...),
	"controllers/mcpserver/report": append([]string{
		"controllers/mcpserver/snapshot", "controllers/mcpserver/successive", "controllers/mcpserver/plan",
	}, below...),
	"controllers/mcpserver/act": append([]string{"controllers/mcpserver/..."}, below...),
	"controllers/configs":       below,
	"controllers":               {"apis/...", "applyconfig/...", "controllers/..."},

	"cmd/internal/...": {"apis/printable"},
	"cmd/operator/...": {
		"apis/...", "cmd/internal/...", "applyconfig/...", "controllers", "controllers/apply",
		"controllers/podtemplate", "controllers/workload",
	},
	"cmd/runner/...": append([]string{"controllers/backend", "cmd/internal/...", "cmd/runner/..."}, below...),
	// Of the controllers it has the writer, and what is pure.
	"cmd/kubectl-freehold/...": {
		"apis/...", "config/crd", "controllers/apply", "controllers/configs/registry", "controllers/kinds",
		"controllers/podtemplate", "controllers/references", "controllers/runspec", "controllers/workload",
		"cmd/kubectl-freehold/...",
	},

	"config/...": {"apis/..."},
	"hack/...":   {"apis/...", "applyconfig/...", "bin/...", "hack/..."},
	"test/...":   {"..."},
	// Another author's operator has nothing of ours but the library.
	"test/library/operator/...": {"apis/ownership", "controllers/apply"},
}

// pure packages decide and never do.
var pure = []string{
	"apis/contract", "apis/ownership", "apis/ownership/admission", "apis/ownership/rbac", "apis/printable",
	"apis/runconfig", "cmd/runner/internal/protocol", "controllers/authz", "controllers/conditions",
	"controllers/configs/authz", "controllers/configs/frame", "controllers/configs/group", "controllers/configs/oidc",
	"controllers/configs/registry",
	"controllers/kinds", "controllers/mcpserver/successive", "controllers/podtemplate", "controllers/revision",
	"controllers/rollout", "controllers/runspec",
	"controllers/workload",
}

// outside is what apis may import beside the standard library: whoever
// imports our API gets these modules, and no client.
var outside = []string{
	"k8s.io/api/...", "k8s.io/apimachinery/...", "sigs.k8s.io/structured-merge-diff/v6/...", "sigs.k8s.io/json",
	"sigs.k8s.io/yaml",
}

// impure is what reaches outside a process, or remembers.
var impure = []string{
	"context", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec", "log", "log/slog",
	"k8s.io/client-go/...", "sigs.k8s.io/controller-runtime/...", "k8s.io/klog/v2",
}

// builders is the one part of client-go that is data.
const builders = "k8s.io/client-go/applyconfigurations/..."

func fits(name, pattern string) bool {
	prefix, tree := strings.CutSuffix(pattern, "...")
	if !tree {
		return name == pattern
	}
	return strings.HasPrefix(name+"/", prefix)
}

func fitsAny(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return fits(name, p) })
}

// layerOf finds a package's place in the picture.
func layerOf(dir string) (string, bool) {
	best, found := "", false
	for name := range layers {
		if fits(dir, name) && len(name) >= len(best) {
			best, found = name, true
		}
	}
	return best, found
}

// direction judges the imports of our own packages by the picture.
func direction(dir string, imports map[string]string) []string {
	layer, placed := layerOf(dir)
	if !placed {
		return []string{fmt.Sprintf("%s has no place in the picture of docs/architecture.md: "+
			"add it to layers in test/arch/layers_test.go, or move its code to a package that has one", dir)}
	}
	var findings []string
	for _, imported := range slices.Sorted(maps.Keys(imports)) {
		ours, isOurs := strings.CutPrefix(imported, module+"/")
		if !isOurs || fitsAny(ours, layers[layer]) || fits(ours, dir+"/...") {
			continue
		}
		findings = append(findings, fmt.Sprintf("%s: %s may not import %s: nothing points up or sideways; "+
			"it may import %s. Move what both need into one of those", imports[imported], dir, ours, list(layers[layer])))
	}
	return findings
}

// strict judges the imports of apis: what others depend on carries no client.
func strict(dir string, imports map[string]string) []string {
	if !fits(dir, "apis/...") {
		return nil
	}
	var findings []string
	for _, imported := range slices.Sorted(maps.Keys(imports)) {
		first, _, _ := strings.Cut(imported, "/")
		standard := !strings.Contains(first, ".")
		if standard || strings.HasPrefix(imported, module+"/") || fitsAny(imported, outside) {
			continue
		}
		findings = append(findings, fmt.Sprintf("%s: %s may not import %s: apis is what others depend on, "+
			"and brings them %s only. Move the function that needs it to controllers", imports[imported], dir, imported,
			list(outside)))
	}
	return findings
}

// purity judges the imports of a pure package, and its use of the clock.
func purity(s source) []string {
	if !slices.Contains(pure, s.dir()) {
		return nil
	}
	var findings []string
	imports := s.imports()
	for _, imported := range slices.Sorted(maps.Keys(imports)) {
		if fitsAny(imported, impure) && !fits(imported, builders) {
			findings = append(findings, fmt.Sprintf("%s: %s is pure and may not import %s: take what was read as an argument, "+
				"and leave reading to the controller's observe.go", imports[imported], s.dir(), imported))
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.SelectorExpr)
		if pkg, isName := selected(call, ok); isName && pkg == "time" &&
			slices.Contains([]string{"Now", "Since", "Until"}, call.Sel.Name) {
			findings = append(findings, fmt.Sprintf("%s: %s is pure and may not read the clock: take the time as an argument",
				s.at(call.Pos()), s.dir()))
		}
		return true
	})
	return findings
}

// selected is the name before the dot of x.y.
func selected(expr *ast.SelectorExpr, ok bool) (string, bool) {
	if !ok {
		return "", false
	}
	name, ok := expr.X.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, true
}

func list(names []string) string {
	if len(names) == 0 {
		return "none of ours"
	}
	return strings.Join(names, ", ")
}

func TestImportsFollowThePicture(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() {
			report(t, direction(s.dir(), s.imports()))
		}
	}
}

func TestApisBringNoClient(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() {
			report(t, strict(s.dir(), s.imports()))
		}
	}
}

func TestPurePackagesDecideOnly(t *testing.T) {
	for _, s := range sources(t) {
		if !s.isTest() {
			report(t, purity(s))
		}
	}
}

func TestDirectionSeesWrongImports(t *testing.T) {
	for name, tc := range map[string]struct{ dir, imported, finding string }{
		"up":                      {"controllers/workload", "controllers/mcpserver", "may not import controllers/mcpserver"},
		"sideways":                {"controllers/mcpserver", "controllers/backend", "may not import controllers/backend"},
		"the operator's half":     {"cmd/runner", "controllers/mcpserver", "may not import controllers/mcpserver"},
		"the root from a part":    {"controllers/mcpserver", "controllers", "may not import controllers:"},
		"a test":                  {"controllers/apply", "test/kit", "may not import test/kit"},
		"the plugin a controller": {"cmd/kubectl-freehold", "controllers/mcpserver", "may not import controllers/mcpserver"},
		"our kinds in the writer": {"controllers/apply", "apis/v1alpha1", "may not import apis/v1alpha1"},
		"our kinds in a contract": {"apis/ownership", "apis/v1alpha1", "may not import apis/v1alpha1"},
		"our rows in the writer":  {"controllers/apply", "apis/contract", "may not import apis/contract"},
		"our intents, written":    {"controllers/apply", "applyconfig/apis/v1alpha1", "may not import applyconfig"},
		"our findings, elsewhere": {
			"test/library/operator", "controllers/conditions",
			"may not import controllers/conditions",
		},
		"nowhere": {"controllers/util", "apis/v1alpha1", "has no place in the picture"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, direction(tc.dir, map[string]string{module + "/" + tc.imported: "x.go:3"}), tc.finding)
		})
	}
	expect(t, direction("controllers/mcpserver",
		map[string]string{module + "/controllers/workload": "x.go:3", "context": "x.go:4"}))
	expect(t, direction("controllers/apply", map[string]string{module + "/controllers/apply/internal/x": "x.go:3"}))
}

func TestStrictSeesAClient(t *testing.T) {
	expect(t, strict("apis/ownership", map[string]string{
		"k8s.io/client-go/rest": "x.go:3", "strings": "x.go:4", "k8s.io/apimachinery/pkg/types": "x.go:5",
	}), "may not import k8s.io/client-go/rest")
	expect(t, strict("controllers/apply", map[string]string{"k8s.io/client-go/rest": "x.go:3"}))
}

func TestPuritySeesImpureCode(t *testing.T) {
	const text = `package workload
import (
	"context"
	"time"

	ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/rest"
)
var now = time.Now()
`
	expect(t, purity(mustParse(t, "controllers/workload/x.go", text)),
		"may not import context", "may not import k8s.io/client-go/rest", "may not read the clock")
	expect(t, purity(mustParse(t, "controllers/apply/x.go", text)))
}

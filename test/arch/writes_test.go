package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// writers are the packages whose types reach the API server, each with the
// names that write.
var writers = []struct {
	from  string
	verbs *regexp.Regexp
}{
	{"sigs.k8s.io/controller-runtime/pkg/client", regexp.MustCompile(`^(Create|Update|Patch|Apply|Delete|DeleteAllOf)$`)},
	{"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil", regexp.MustCompile(`^(CreateOrUpdate|CreateOrPatch)$`)},
	{"k8s.io/client-go/kubernetes", regexp.MustCompile(`^(Create|Update|Patch|Apply|Delete|Bind|Evict)`)},
	{"k8s.io/client-go/gentype", regexp.MustCompile(`^(Create|Update|Patch|Apply|Delete)`)},
	{"k8s.io/client-go/dynamic", regexp.MustCompile(`^(Create|Update|Patch|Apply|Delete)`)},
	{"k8s.io/client-go/metadata", regexp.MustCompile(`^(Patch|Delete)`)},
	{"k8s.io/client-go/scale", regexp.MustCompile(`^(Update|Patch)`)},
	{"k8s.io/client-go/rest", regexp.MustCompile(`^(Post|Put|Patch|Delete|Verb)$`)},
}

// writes finds the calls that write to the API server, by the type they are
// called on, whatever the variable is named.
func writes(fset *token.FileSet, syntax []*ast.File, info *types.Info) []string {
	var findings []string
	for _, file := range syntax {
		ast.Inspect(file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			fn, ok := info.Uses[sel.Sel].(*types.Func)
			if ok && fn.Pkg() != nil && isWrite(fn.Pkg().Path(), fn.Name()) {
				at := fset.Position(sel.Pos())
				findings = append(findings, fmt.Sprintf("%s:%d: %s of %s writes to the API server, and only controllers/apply may: "+
					"state an intent and give it to a Writer (apply.Applier.As), or read through client.Reader",
					filepath.Base(at.Filename), at.Line, fn.Name(), fn.Pkg().Path()))
			}
			return true
		})
	}
	return findings
}

func isWrite(from, name string) bool {
	for _, w := range writers {
		if (from == w.from || strings.HasPrefix(from, w.from+"/")) && w.verbs.MatchString(name) {
			return true
		}
	}
	return false
}

// load type-checks packages as the product is built.
func load(t *testing.T, dir string, patterns ...string) []*packages.Package {
	t.Helper()
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes |
			packages.NeedTypesInfo | packages.NeedImports,
		Dir:        dir,
		BuildFlags: []string{"-tags=fieldsv1string"},
	}, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded) == 0 {
		t.Fatalf("no package fits %v: the check would pass without looking", patterns)
	}
	for _, pkg := range loaded {
		for _, err := range pkg.Errors {
			t.Errorf("%s does not compile: %v", pkg.PkgPath, err)
		}
	}
	return loaded
}

func TestOnlyApplyWrites(t *testing.T) {
	patterns := []string{"./apis/..."}
	for _, tree := range []string{"controllers", "cmd"} {
		if hasGo(t, tree) {
			patterns = append(patterns, "./"+tree+"/...")
		}
	}
	for _, pkg := range load(t, root(t), patterns...) {
		if fits(strings.TrimPrefix(pkg.PkgPath, module+"/"), "controllers/apply/...") {
			continue
		}
		for _, finding := range writes(pkg.Fset, pkg.Syntax, pkg.TypesInfo) {
			t.Errorf("%s: %s", pkg.PkgPath, finding)
		}
	}
}

func hasGo(t *testing.T, tree string) bool {
	t.Helper()
	for _, name := range files(t) {
		if strings.HasPrefix(name, tree+"/") && strings.HasSuffix(name, ".go") {
			return true
		}
	}
	return false
}

func TestWritesSeesEveryVerb(t *testing.T) {
	var findings []string
	for _, pkg := range load(t, ".", "./testdata/writes") {
		findings = append(findings, writes(pkg.Fset, pkg.Syntax, pkg.TypesInfo)...)
	}
	expect(t, findings,
		"Create of sigs.k8s.io/controller-runtime/pkg/client",
		"Patch of sigs.k8s.io/controller-runtime/pkg/client",
		"Update of sigs.k8s.io/controller-runtime/pkg/client",
		"DeleteAllOf of sigs.k8s.io/controller-runtime/pkg/client",
		"Apply of sigs.k8s.io/controller-runtime/pkg/client",
		"CreateOrUpdate of sigs.k8s.io/controller-runtime/pkg/controller/controllerutil",
		"UpdateStatus of k8s.io/client-go/kubernetes/typed/apps/v1",
		"Delete of k8s.io/client-go/dynamic",
		"Put of k8s.io/client-go/rest",
		"Patch of sigs.k8s.io/controller-runtime/pkg/client",
	)
}

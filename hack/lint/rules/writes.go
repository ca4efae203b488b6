package rules

import (
	"go/ast"
	"go/types"
	"regexp"
	"slices"

	"golang.org/x/tools/go/analysis"
)

var writes = &analysis.Analyzer{
	Name: "writes",
	Doc: "only controllers/apply writes to the API server\n\n" +
		"Everything else states an intent and gives it to a Writer, or reads through client.Reader. " +
		"A call is judged by the type that declares the method, whatever the variable is named.",
	Run: runWrites,
}

// verbs are the ways to write, and what to do instead.
var verbs = []struct {
	source
	instead string
}{
	{
		source{"sigs.k8s.io/controller-runtime/pkg/client", matches(`^(Create|Update|Patch|Apply|Delete|DeleteAllOf)$`)},
		state,
	},
	{
		source{"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil", matches(`^CreateOr`)},
		"get, compare and update takes the fields of others: " + state,
	},
	{
		source{"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil", matches(`^(Add|Remove)Finalizer$`)},
		"a finalizer is an intent of its own manager, and Release removes it",
	},
	{source{"k8s.io/client-go/kubernetes", matches(`^(Create|Update|Patch|Apply|Delete|Bind|Evict)`)}, state},
	{source{"k8s.io/client-go/gentype", matches(`^(Create|Update|Patch|Apply|Delete)`)}, state},
	{source{"k8s.io/client-go/dynamic", matches(`^(Create|Update|Patch|Apply|Delete)`)}, state},
	{source{"k8s.io/client-go/metadata", matches(`^(Patch|Delete)`)}, state},
	{source{"k8s.io/client-go/scale", matches(`^(Update|Patch)`)}, state},
	{source{"k8s.io/client-go/rest", matches(`^(Post|Put|Patch|Delete|Verb)$`)}, state},
	{source{"k8s.io/cli-runtime/pkg/resource", matches(`^(Create|Patch|Replace|Delete|DeleteWithOptions)$`)}, state},
}

// asks are clients of kinds that are questions: the API server answers a create and
// stores nothing (docs/adr/0029-a-review-is-a-question.md).
var asks = []source{
	{"k8s.io/client-go/kubernetes/typed/authentication", matches(`^Create$`)},
	{"k8s.io/client-go/kubernetes/typed/authorization", matches(`^Create$`)},
}

// state is what to do instead of most of them.
const state = "state an intent and give it to a Writer (apply.Applier.As), or read through client.Reader"

func matches(pattern string) func(string) bool { return regexp.MustCompile(pattern).MatchString }

func runWrites(pass *analysis.Pass) (any, error) {
	if !judged(pass, writers...) {
		return nil, nil
	}
	for _, file := range pass.Files {
		if isTest(pass.Fset.Position(file.Pos()).Filename) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			name, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			fn, ok := pass.TypesInfo.Uses[name].(*types.Func)
			if !ok || slices.ContainsFunc(asks, func(s source) bool { return s.has(fn) }) {
				return true
			}
			for _, verb := range verbs {
				if verb.has(fn) {
					pass.Reportf(name.Pos(), "%s of %s writes to the API server, and only %s may: %s",
						fn.Name(), fn.Pkg().Path(), Writers()[0], verb.instead)
				}
			}
			return true
		})
	}
	return nil, nil
}

package arch

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// ofOneKind are names that only what is special about a kind of configuration has.
var ofOneKind = regexp.MustCompile(`(OIDC|Authz)Config`)

// special is what a kind of configuration touches: its types, its row, its package, its line, and
// what becomes one when others' objects are converted.
var special = []string{
	"apis/v1alpha1", "apis/contract", "applyconfig/...", "controllers/configs/authz", "controllers/configs/oidc",
	"cmd/kubectl-freehold/internal/conversion", "test/...", "hack/...",
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

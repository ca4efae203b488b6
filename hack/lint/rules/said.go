package rules

import (
	"go/ast"

	"golang.org/x/tools/go/analysis"
)

var said = &analysis.Analyzer{
	Name: "said",
	Doc: "what a condition says is not read to decide\n\n" +
		"Reason and message of a condition are for people. What another step needs is a field of the status, such as " +
		"status.phase, or a fact of the snapshot.",
	Run: runSaid,
}

// readers may read what conditions say: conditions turns it into facts and says it again, and the others count it and
// show it.
var readers = []string{
	module + "/controllers/conditions", module + "/controllers/metrics", module + "/cmd/kubectl-freehold",
}

func runSaid(pass *analysis.Pass) (any, error) {
	if !judged(pass, readers...) {
		return nil, nil
	}
	for _, file := range pass.Files {
		if isTest(pass.Fset.Position(file.Pos()).Filename) {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			field, ok := n.(*ast.SelectorExpr)
			if ok && (field.Sel.Name == "Reason" || field.Sel.Name == "Message") &&
				is(pass.TypesInfo.TypeOf(field.X), metav1, "Condition") {
				pass.Reportf(field.Pos(), "a condition's %s is read here, which is for people: read status.phase, "+
					"or state a field that says it", field.Sel.Name)
			}
			return true
		})
	}
	return nil, nil
}

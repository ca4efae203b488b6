package rules

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"

	"golang.org/x/tools/go/analysis"
)

var managers = &analysis.Analyzer{
	Name: "managers",
	Doc: "a field manager is a constant of apis/contract\n\n" +
		"A misspelt manager would claim fields under a name that nobody knows, and keep them for ever. " +
		"So a text that looks like one of our managers, and any constant that is given where a field manager " +
		"is wanted, must come from the contract.",
	Run: runManagers,
}

// managerName is the form of our field managers, KIND.freehold.dev/PURPOSE, also of one that is put together. A purpose
// has letters only; a version of an API has a number.
var managerName = regexp.MustCompile(`^[^\s/]+\.freehold\.dev/([a-z]*|%.*)$`)

// wanted are the names of parameters and fields that take a field manager.
var wanted = regexp.MustCompile(`^([fF]ieldManager|[fF]ieldOwner)$`)

func runManagers(pass *analysis.Pass) (any, error) {
	if !judged(pass, language, contract, operators) {
		return nil, nil
	}
	m := &managerRule{pass: pass, seen: map[token.Pos]bool{}}
	for _, file := range pass.Files {
		if !ast.IsGenerated(file) && !isTest(pass.Fset.Position(file.Pos()).Filename) {
			ast.Inspect(file, m.visit)
		}
	}
	return nil, nil
}

type managerRule struct {
	pass *analysis.Pass
	// seen are the places of texts that were judged as part of a larger one.
	seen map[token.Pos]bool
}

func (m *managerRule) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		m.call(n)
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && m.field(key) && wanted.MatchString(key.Name) {
			m.manager(n.Value)
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if sel, ok := left.(*ast.SelectorExpr); ok && wanted.MatchString(sel.Sel.Name) && len(n.Lhs) == len(n.Rhs) {
				m.manager(n.Rhs[i])
			}
		}
	case *ast.BinaryExpr:
		m.text(n)
	case *ast.BasicLit:
		m.text(n)
	}
	return true
}

// field reports whether a key is a struct's field.
func (m *managerRule) field(key *ast.Ident) bool {
	v, ok := m.pass.TypesInfo.Uses[key].(*types.Var)
	return ok && v.IsField()
}

// call judges what a call gives as a field manager, by the names of its parameters, or by the type that it converts to.
func (m *managerRule) call(call *ast.CallExpr) {
	fun := m.pass.TypesInfo.Types[call.Fun]
	if fun.IsType() {
		if len(call.Args) == 1 && isManager(fun.Type) {
			m.manager(call.Args[0])
		}
		return
	}
	signature, ok := fun.Type.(*types.Signature)
	if !ok {
		return
	}
	for i, arg := range call.Args {
		if i < signature.Params().Len() && wanted.MatchString(signature.Params().At(i).Name()) {
			m.manager(arg)
		}
	}
}

// isManager reports whether t is a type of field managers.
func isManager(t types.Type) bool {
	return is(t, language, "Manager") || is(t, "sigs.k8s.io/controller-runtime/pkg/client", "FieldOwner")
}

// manager judges an expression that is used as a field manager.
func (m *managerRule) manager(expr ast.Expr) {
	value := m.pass.TypesInfo.Types[expr].Value
	if value == nil || value.Kind() != constant.String || constant.StringVal(value) == "" || m.declared(expr) {
		return
	}
	m.report(expr, constant.StringVal(value))
}

// text judges a text by its type and its form.
func (m *managerRule) text(expr ast.Expr) {
	tv := m.pass.TypesInfo.Types[expr]
	if tv.Value == nil || tv.Value.Kind() != constant.String {
		return
	}
	value := constant.StringVal(tv.Value)
	if (managerName.MatchString(value) || value != "" && isManager(tv.Type)) && !m.declared(expr) {
		m.report(expr, value)
	}
}

// declared reports whether the expression is made of a manager of the contract.
func (m *managerRule) declared(expr ast.Expr) bool {
	found := false
	ast.Inspect(expr, func(n ast.Node) bool {
		name, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		c, ok := m.pass.TypesInfo.Uses[name].(*types.Const)
		found = found || ok && c.Pkg() != nil && c.Pkg().Path() == contract && isManager(c.Type())
		return true
	})
	return found
}

// report says it once of an expression and its parts.
func (m *managerRule) report(expr ast.Expr, value string) {
	if m.seen[expr.Pos()] {
		return
	}
	ast.Inspect(expr, func(n ast.Node) bool {
		if n != nil {
			m.seen[n.Pos()] = true
		}
		return true
	})
	m.pass.Reportf(expr.Pos(), "%q is a field manager: use its constant in apis/contract, or declare it there with its "+
		"grants", value)
}

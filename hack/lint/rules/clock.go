package rules

import (
	"go/ast"
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var clock = &analysis.Analyzer{
	Name: "clock",
	Doc: "a condition is told the time\n\n" +
		"A condition that reads the clock while it is stated differs from the one that stands, so that every pass " +
		"writes. Its time is that of the live condition while the status is the same, else the pass's own: " +
		"conditions.Stamp knows.",
	Run: runClock,
}

// clocks are what reads the clock.
var clocks = []source{
	{"time", matches(`^Now$`)},
	{metav1, matches(`^Now(Micro)?$`)},
}

// hidden reads the clock behind its caller's back.
var hidden = source{"k8s.io/apimachinery/pkg/api/meta", matches(`^SetStatusCondition$`)}

const metav1 = "k8s.io/apimachinery/pkg/apis/meta/v1"

func runClock(pass *analysis.Pass) (any, error) {
	if !judged(pass) {
		return nil, nil
	}
	for _, file := range pass.Files {
		if isTest(pass.Fset.Position(file.Pos()).Filename) {
			continue
		}
		c := &clockRule{pass: pass, read: map[types.Object]bool{}}
		ast.Inspect(file, c.spread)
		ast.Inspect(file, c.visit)
	}
	return nil, nil
}

// clockRule knows which variables of a file were read from the clock.
type clockRule struct {
	pass *analysis.Pass
	read map[types.Object]bool
}

// spread notes the variables that are given what was read from the clock, or what an earlier one was given.
func (c *clockRule) spread(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			if name, ok := left.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) && c.fromClock(n.Rhs[i]) {
				c.read[c.pass.TypesInfo.ObjectOf(name)] = true
			}
		}
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if len(n.Names) == len(n.Values) && c.fromClock(n.Values[i]) {
				c.read[c.pass.TypesInfo.ObjectOf(name)] = true
			}
		}
	}
	return true
}

func (c *clockRule) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.CallExpr:
		c.call(n)
	case *ast.CompositeLit:
		if !isCondition(c.pass.TypesInfo.TypeOf(n)) {
			return true
		}
		for _, element := range n.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				c.value(pair.Value)
			} else {
				c.value(element)
			}
		}
	case *ast.AssignStmt:
		for i, left := range n.Lhs {
			field, ok := left.(*ast.SelectorExpr)
			if ok && len(n.Lhs) == len(n.Rhs) && isCondition(c.pass.TypesInfo.TypeOf(field.X)) {
				c.value(n.Rhs[i])
			}
		}
	}
	return true
}

// call judges a step of a builder, and what sets a condition by itself.
func (c *clockRule) call(call *ast.CallExpr) {
	fn := c.callee(call)
	if fn == nil {
		return
	}
	if hidden.has(fn) {
		c.pass.Reportf(call.Pos(), "%s reads the clock where a condition has no time, and writes into the object that was "+
			"read: state the condition with conditions.Stamp", fn.Name())
		return
	}
	if recv := fn.Signature().Recv(); recv != nil && isCondition(recv.Type()) {
		for _, arg := range call.Args {
			c.value(arg)
		}
	}
}

func (c *clockRule) value(expr ast.Expr) {
	if c.fromClock(expr) || c.tells(expr) {
		c.pass.Reportf(expr.Pos(), "a condition reads the clock here, so that each pass writes another time: take the time "+
			"as an argument, and keep that of the live condition while its status is the same, as conditions.Stamp does")
	}
}

// tells reports whether a text is made with the clock, as of a message.
func (c *clockRule) tells(expr ast.Expr) bool {
	if basic, ok := c.pass.TypesInfo.TypeOf(expr).Underlying().(*types.Basic); !ok || basic.Info()&types.IsString == 0 {
		return false
	}
	found := false
	ast.Inspect(expr, func(n ast.Node) bool {
		part, ok := n.(ast.Expr)
		found = found || ok && c.fromClock(part)
		return !found
	})
	return found
}

// fromClock reports whether an expression is what the clock said, as it is or in another form. What a function makes of
// it is that function's affair: it was told the time.
func (c *clockRule) fromClock(expr ast.Expr) bool {
	switch e := expr.(type) {
	case *ast.Ident:
		return c.read[c.pass.TypesInfo.ObjectOf(e)]
	case *ast.ParenExpr:
		return c.fromClock(e.X)
	case *ast.StarExpr:
		return c.fromClock(e.X)
	case *ast.UnaryExpr:
		return c.fromClock(e.X)
	case *ast.SelectorExpr: // now.Time
		return c.fromClock(e.X)
	case *ast.KeyValueExpr:
		return c.fromClock(e.Value)
	case *ast.CompositeLit: // metav1.Time{Time: now}
		return isTime(c.pass.TypesInfo.TypeOf(e)) && len(e.Elts) == 1 && c.fromClock(e.Elts[0])
	case *ast.CallExpr:
		return c.callFromClock(e)
	}
	return false
}

func (c *clockRule) callFromClock(call *ast.CallExpr) bool {
	fn := c.callee(call)
	for _, clock := range clocks {
		if fn != nil && fn.Signature().Recv() == nil && clock.has(fn) {
			return true
		}
	}
	// now.UTC().Truncate(time.Second)
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && isTime(c.pass.TypesInfo.TypeOf(sel.X)) {
		return c.fromClock(sel.X)
	}
	// metav1.NewTime(now), ptr.To(now), new(now), metav1.Time(now)
	result := c.pass.TypesInfo.TypeOf(call)
	form := fn == nil || fn.Pkg().Path() == metav1 || fn.Pkg().Path() == "k8s.io/utils/ptr"
	return form && isTime(result) && len(call.Args) == 1 && c.fromClock(call.Args[0])
}

// callee is the function that is called by its name; nil for conversions, builtins and values.
func (c *clockRule) callee(call *ast.CallExpr) *types.Func {
	fun := call.Fun
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	var name *ast.Ident
	switch f := fun.(type) {
	case *ast.Ident:
		name = f
	case *ast.SelectorExpr:
		name = f.Sel
	default:
		return nil
	}
	fn, ok := c.pass.TypesInfo.Uses[name].(*types.Func)
	if !ok || fn.Pkg() == nil {
		return nil
	}
	return fn
}

// isCondition reports whether t is a condition, or states one.
func isCondition(t types.Type) bool {
	n := named(t)
	return n != nil && (strings.HasSuffix(n.Name(), "Condition") ||
		strings.HasSuffix(n.Name(), "ConditionApplyConfiguration"))
}

// isTime reports whether t is a moment, also behind a pointer.
func isTime(t types.Type) bool {
	return is(t, "time", "Time") || is(t, metav1, "Time") || is(t, metav1, "MicroTime")
}

package rules

import (
	"cmp"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

var reuse = &analysis.Analyzer{
	Name: "reuse",
	Doc: "an intent is applied once\n\n" +
		"A client may decode the server's answer into the apply configuration that it was given. Applied again it " +
		"states what others own, and takes it. So after an apply an intent is built anew. Judged is one function at " +
		"a time: what a caller keeps, or a list holds, is not followed.",
	Run: runReuse,
}

// appliers are given intents.
var appliers = []source{
	{module + "/controllers/apply", matches(`^Apply$`)},
	{module + "/controllers/reconcile", matches(`^Apply$`)},
	{"sigs.k8s.io/controller-runtime/pkg/client", matches(`^Apply$`)},
	{"k8s.io/client-go/kubernetes", matches(`^Apply`)},
	{"k8s.io/client-go/gentype", matches(`^Apply`)},
}

func runReuse(pass *analysis.Pass) (any, error) {
	// A writer freezes what it is given, and keeps the answer apart.
	if !judged(pass, writers...) {
		return nil, nil
	}
	for _, fn := range functions(pass) {
		for _, block := range fn.Blocks {
			for i, instruction := range block.Instrs {
				if call, ok := instruction.(*ssa.Call); ok && applies(call) {
					reportReuse(pass, call, i)
				}
			}
		}
	}
	return nil, nil
}

// functions are those that the package's files declare, in their order, in SSA form: there each value has one place
// where it is made. (passes/buildssa would read the sources of every dependency for it.)
func functions(pass *analysis.Pass) []*ssa.Function {
	program := ssa.NewProgram(pass.Fset, ssa.BuilderMode(0))
	for _, imported := range pass.Pkg.Imports() {
		program.CreatePackage(imported, nil, nil, true)
	}
	pkg := program.CreatePackage(pass.Pkg, pass.Files, pass.TypesInfo, false)
	pkg.Build()
	var found []*ssa.Function
	for fn := range ssautil.AllFunctions(program) {
		if fn.Pkg == pkg && fn.Syntax() != nil && !isTest(pass.Fset.Position(fn.Pos()).Filename) {
			found = append(found, fn)
		}
	}
	slices.SortFunc(found, func(a, b *ssa.Function) int { return cmp.Compare(a.Pos(), b.Pos()) })
	return found
}

func applies(call *ssa.Call) bool {
	fn := call.Call.Method
	if callee := call.Call.StaticCallee(); callee != nil {
		fn, _ = callee.Object().(*types.Func)
	}
	return fn != nil && slices.ContainsFunc(appliers, func(s source) bool { return s.has(fn) })
}

// isIntent reports whether values of t are apply configurations.
func isIntent(t types.Type) bool {
	method, _, _ := types.LookupFieldOrMethod(t, true, nil, "IsApplyConfiguration")
	_, ok := method.(*types.Func)
	return ok
}

// reportReuse finds where the intents of one apply, the instruction at a place of its block, are used again.
func reportReuse(pass *analysis.Pass, call *ssa.Call, at int) {
	for _, arg := range call.Call.Args {
		if !isIntent(arg.Type()) {
			continue
		}
		for _, intent := range origins(arg, false) {
			if _, none := intent.(*ssa.Const); none {
				continue
			}
			if again := usedAgain(intent, call.Block(), at); again != nil {
				pos := again.Pos()
				if !pos.IsValid() {
					pos = call.Pos()
				}
				pass.Reportf(pos, "this intent was applied in line %d and is used again: the server's answer may have "+
					"filled it with what others own; build it anew", pass.Fset.Position(call.Pos()).Line)
			}
		}
	}
}

// usedAgain follows the ways that lead on from an apply, and returns the first
// use of the intent on one of them. A way ends where the intent is made anew.
func usedAgain(intent ssa.Value, block *ssa.BasicBlock, at int) ssa.Instruction {
	seen := map[*ssa.BasicBlock]bool{}
	var walk func(block *ssa.BasicBlock, from int) ssa.Instruction
	walk = func(block *ssa.BasicBlock, from int) ssa.Instruction {
		for _, instruction := range block.Instrs[from:] {
			switch {
			case makes(instruction, intent):
				return nil
			case uses(instruction, intent):
				return instruction
			}
		}
		for _, next := range block.Succs {
			if !seen[next] {
				seen[next] = true
				if found := walk(next, 0); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return walk(block, at+1)
}

// makes reports whether an instruction makes the intent, or what holds it, or puts another one into its place.
func makes(instruction ssa.Instruction, intent ssa.Value) bool {
	if value, ok := instruction.(ssa.Value); ok && value == holder(intent) {
		return true
	}
	store, ok := instruction.(*ssa.Store)
	load, held := intent.(*ssa.UnOp)
	return ok && held && (same(store.Addr, load.X) || store.Addr == holder(intent))
}

// uses reports whether an instruction does something with the intent, more
// than to give it another form or to ask whether it is nil.
func uses(instruction ssa.Instruction, intent ssa.Value) bool {
	switch instruction.(type) {
	case *ssa.MakeInterface, *ssa.ChangeInterface, *ssa.ChangeType, *ssa.Phi, *ssa.BinOp, *ssa.DebugRef:
		return false
	}
	for _, operand := range instruction.Operands(nil) {
		if *operand != nil && slices.ContainsFunc(origins(*operand, true),
			func(o ssa.Value) bool { return same(o, intent) }) {
			return true
		}
	}
	return false
}

// origins are the values that a value may be, before it was given another form or another field: builders return what
// they were called on. Where ways meet it may be one of several, if those are asked for.
func origins(v ssa.Value, several bool) []ssa.Value {
	var found []ssa.Value
	seen := map[ssa.Value]bool{}
	var follow func(v ssa.Value)
	follow = func(v ssa.Value) {
		if seen[v] {
			return
		}
		seen[v] = true
		switch v := v.(type) {
		case *ssa.MakeInterface:
			follow(v.X)
		case *ssa.ChangeInterface:
			follow(v.X)
		case *ssa.ChangeType:
			follow(v.X)
		case *ssa.TypeAssert:
			follow(v.X)
		case *ssa.Phi:
			if !several {
				found = append(found, v)
				return
			}
			for _, edge := range v.Edges {
				follow(edge)
			}
		case *ssa.Call:
			callee := v.Call.StaticCallee()
			if callee != nil && callee.Signature.Recv() != nil && types.Identical(callee.Signature.Recv().Type(), v.Type()) {
				follow(v.Call.Args[0])
				return
			}
			found = append(found, v)
		default:
			found = append(found, v)
		}
	}
	follow(v)
	return found
}

// holder is what a value was taken from: the struct of a field, the variable of a load.
func holder(v ssa.Value) ssa.Value {
	for {
		switch t := v.(type) {
		case *ssa.Field:
			v = t.X
		case *ssa.FieldAddr:
			v = t.X
		case *ssa.UnOp:
			switch t.X.(type) {
			case *ssa.FieldAddr, *ssa.Alloc, *ssa.FreeVar:
				v = t.X
			default:
				return v
			}
		default:
			return v
		}
	}
}

// same reports whether two values are one: the same, or the same field of the same.
func same(a, b ssa.Value) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	switch a := a.(type) {
	case *ssa.Field:
		b, ok := b.(*ssa.Field)
		return ok && a.Field == b.Field && same(a.X, b.X)
	case *ssa.FieldAddr:
		b, ok := b.(*ssa.FieldAddr)
		return ok && a.Field == b.Field && same(a.X, b.X)
	case *ssa.UnOp:
		b, ok := b.(*ssa.UnOp)
		return ok && a.Op == b.Op && same(a.X, b.X)
	}
	return false
}

// Package rules are analyzers for what the API server cannot hold against us and a reviewer overlooks. writes.go: only
// controllers/apply writes. managers.go: a field manager is a constant of the contract. clock.go: a condition is told
// the time. reuse.go: an intent is applied once. said.go: what a condition says is not read to decide.
//
// There is no comment that silences a rule. What a rule does not judge is written in scope.go.
package rules

import (
	"go/types"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// All are the analyzers.
func All() []*analysis.Analyzer {
	return []*analysis.Analyzer{writes, managers, clock, reuse, said}
}

// source is a family of packages, by import path, whose functions and methods
// of certain names matter to a rule. Packages below it count too.
type source struct {
	path  string
	names func(name string) bool
}

// has reports whether fn is declared in the source under one of its names. A method counts where its interface or type
// is declared, whatever it is called on.
func (s source) has(fn *types.Func) bool {
	return fn.Pkg() != nil && within(fn.Pkg().Path(), s.path) && s.names(fn.Name())
}

func within(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// named is the declared type of t, also behind a pointer; nil if it has none.
func named(t types.Type) *types.TypeName {
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	if n, ok := types.Unalias(t).(*types.Named); ok {
		return n.Obj()
	}
	return nil
}

// is reports whether t is the type called name of a package.
func is(t types.Type, path, name string) bool {
	n := named(t)
	return n != nil && n.Pkg() != nil && n.Pkg().Path() == path && n.Name() == name
}

package rules

import (
	"strings"

	"golang.org/x/tools/go/analysis"
)

// module is the import path of the repository's root.
const module = "github.com/freehold-dev/freehold"

// language is the package of field managers' type, and contract the one that names ours.
const (
	language = module + "/apis/ownership"
	contract = module + "/apis/contract"
)

// writers may write to the API server. P2 of docs/architecture.md names them, and test/arch compares the two.
var writers = []string{module + "/controllers/apply"}

// Writers are the packages that may write to the API server, relative to the root of the repository.
func Writers() []string {
	var names []string
	for _, path := range writers {
		names = append(names, strings.TrimPrefix(path, module+"/"))
	}
	return names
}

// tests play everybody else who writes, under names of their own. But operators is another author's operator, which is
// judged as ours is; it has a contract of its own.
const (
	tests     = module + "/test"
	operators = module + "/test/library/operator"
)

// judged reports whether a rule looks at a package at all. exempt are those that the rule is not about.
func judged(pass *analysis.Pass, exempt ...string) bool {
	path := pass.Pkg.Path()
	for _, root := range exempt {
		if within(path, root) {
			return false
		}
	}
	return !within(path, tests) || within(path, operators)
}

// isTest reports whether a file is a test, which plays other writers.
func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

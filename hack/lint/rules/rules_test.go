package rules

import (
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

// Each rule finds every line that says what it wants, and no rule finds
// another. The types are the real ones, so that a client of another release
// with another method shows here.
func TestRulesFindWhatTheyAreFor(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	// All rules in one run, because loading is what takes the time.
	all := &analysis.Analyzer{Name: "all", Doc: "every rule", Run: func(pass *analysis.Pass) (any, error) {
		for _, rule := range All() {
			if _, err := rule.Run(pass); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}}
	var patterns []string
	for _, rule := range All() {
		if len(rule.Requires) > 0 || len(rule.FactTypes) > 0 {
			t.Fatalf("%s needs what the analyzer of this test does not have", rule.Name)
		}
		patterns = append(patterns, "./hack/lint/rules/testdata/"+rule.Name)
	}
	analysistest.Run(t, root, all, patterns...)
}

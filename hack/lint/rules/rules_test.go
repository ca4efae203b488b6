package rules

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/packages"
)

// wantComment says what a rule finds in its line, or in the next one where it has a line of its own.
var wantComment = regexp.MustCompile("^\\s*(.*?)// want (`[^`]+`(?: `[^`]+`)*)$")

// Each rule finds every line that says what it wants, and no rule finds another. The types are the real ones, so that a
// client of another release with another method shows here: analysistest would read all of Kubernetes from source for
// them, and this test takes them as the compiler has exported them.
func TestRulesFindWhatTheyAreFor(t *testing.T) {
	var patterns []string
	for _, rule := range All() {
		if len(rule.Requires) > 0 || len(rule.FactTypes) > 0 {
			t.Fatalf("%s needs what this test does not give it", rule.Name)
		}
		patterns = append(patterns, "./hack/lint/rules/testdata/"+rule.Name)
	}
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.LoadSyntax,
		Dir:  filepath.Join("..", "..", ".."), Tests: true, BuildFlags: []string{"-tags=fieldsv1string"},
	}, patterns...)
	if err != nil || len(loaded) < len(patterns) {
		t.Fatalf("%d packages of %d: %v", len(loaded), len(patterns), err)
	}
	for _, pkg := range loaded {
		for _, failed := range pkg.Errors {
			t.Error(failed)
		}
		want := wants(t, pkg)
		for _, rule := range All() {
			pass := &analysis.Pass{
				Analyzer: rule, Fset: pkg.Fset, Files: pkg.Syntax, Pkg: pkg.Types, TypesInfo: pkg.TypesInfo,
				Report: func(found analysis.Diagnostic) {
					at := pkg.Fset.Position(found.Pos)
					if !taken(want[fmt.Sprintf("%s:%d", at.Filename, at.Line)], found.Message) {
						t.Errorf("%s: %s finds %s", at, rule.Name, found.Message)
					}
				},
			}
			if _, err := rule.Run(pass); err != nil {
				t.Errorf("%s of %s: %v", rule.Name, pkg.PkgPath, err)
			}
		}
		for line, left := range want {
			if text := strings.Join(left, ""); text != "" {
				t.Errorf("%s: nothing finds %s", line, text)
			}
		}
	}
}

// wants are the expressions of a package's comments, by their lines.
func wants(t *testing.T, pkg *packages.Package) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, name := range pkg.GoFiles {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			match := wantComment.FindStringSubmatch(line)
			if match == nil {
				continue
			}
			at := i + 1
			if match[1] == "" {
				at++
			}
			found[fmt.Sprintf("%s:%d", name, at)] = strings.Split(strings.Trim(match[2], "`"), "` `")
		}
	}
	return found
}

// taken takes the first expression of a line that a message matches.
func taken(want []string, message string) bool {
	for i, text := range want {
		if text != "" && regexp.MustCompile(text).MatchString(message) {
			want[i] = ""
			return true
		}
	}
	return false
}

package arch

import (
	"regexp"
	"strings"
	"testing"
)

// Whoever reads a reason, an Event or an error code finds what to do about it.
func TestEverySayingIsExplained(t *testing.T) {
	page := read(t, "docs/conditions.md")
	for _, said := range []struct {
		name, says string
		where      []string
	}{
		{"condition or reason", `(?m)^\s(?:Condition|Reason)\w+ += "(\w+)"$`, []string{"apis/v1alpha1/conditions.go"}},
		{"Event", `\.Event\(corev1\.EventType\w+, "(\w+)"`, sourcesBelow(t, "controllers/")},
		{"error code", `(?m)^\sCode\w+ += (-\d+)$`, []string{
			"cmd/runner/internal/proxy/errors.go", "cmd/runner/internal/budget/body.go",
		}},
	} {
		found := 0
		for _, file := range said.where {
			for _, match := range regexp.MustCompile(said.says).FindAllStringSubmatch(read(t, file), -1) {
				found++
				if !strings.Contains(page, "\n| `"+match[1]+"` |") && !strings.Contains(page, "\n| "+match[1]+" |") {
					t.Errorf("docs/conditions.md does not explain the %s %s, which %s has", said.name, match[1], file)
				}
			}
		}
		if found == 0 {
			t.Errorf("no %s is found in %v: is the expression right still?", said.name, said.where)
		}
	}
}

// sourcesBelow are the files below a folder that are no tests.
func sourcesBelow(t *testing.T, folder string) (names []string) {
	t.Helper()
	for _, name := range files(t) {
		if strings.HasPrefix(name, folder) && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
	}
	return names
}

// Whoever reads the operator's log finds what a line says.
func TestEveryLogLineIsExplained(t *testing.T) {
	page, found := read(t, "docs/logs.md"), 0
	says := regexp.MustCompile(`(?:FromContext\(ctx\)|\blogger|\blog)\.(?:Info\(|Error\(\w+, )"([^"]+)"`)
	for _, file := range append(sourcesBelow(t, "controllers/"), sourcesBelow(t, "cmd/operator/")...) {
		for _, match := range says.FindAllStringSubmatch(read(t, file), -1) {
			found++
			if !strings.Contains(page, "\n| `"+match[1]+"` |") {
				t.Errorf("docs/logs.md does not explain the line %q of %s", match[1], file)
			}
		}
	}
	if found < 5 {
		t.Errorf("%d lines are found: is the expression right still?", found)
	}
}

package conformance

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each duty of a proxy that docs/protocol.md lists has a test, which is where the page says.
func TestEachDutyHasItsTest(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| duty | test |\n| --- | --- |\n")
	if !found {
		t.Fatal("docs/protocol.md has no table of duties")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.SplitSeq(strings.TrimSpace(table), "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 4 {
			t.Errorf("%s has %d cells", row, len(cells)-2)
			continue
		}
		tests := 0
		for part := range strings.SplitSeq(cells[2], ";") {
			where, names, _ := strings.Cut(strings.TrimSpace(part), ":")
			for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(names, -1) {
				tests++
				if where == "conformance" {
					continue // a scenario of the suite, of which none is left out
				}
				if !strings.HasPrefix(name[1], "Test") && !strings.HasPrefix(name[1], "Fuzz") {
					t.Errorf("%s: %s is no test", cells[1], name[1])
				} else if !declared(t, strings.Trim(where, "`"), name[1]) {
					t.Errorf("%s: package %s has no %s", cells[1], where, name[1])
				}
			}
		}
		if tests == 0 {
			t.Errorf("%s: no test", cells[1])
		}
	}
}

// declared reports whether a package of the runner declares a test; runner is that of
// the program itself.
func declared(t *testing.T, pkg, name string) bool {
	t.Helper()
	folder := filepath.Join("../../cmd/runner/internal", pkg)
	if pkg == "runner" {
		folder = "../../cmd/runner"
	}
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(code), "func "+name+"(") {
			return true
		}
	}
	return false
}

package arch

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// reasons is the page on which every dependency earns its line.
const reasons = "docs/maintainers/dependencies.md"

// aLine is one line of that page: | `module` | what it is for |
var aLine = regexp.MustCompile("(?m)^\\| `([^`]+)` +\\| +(\\S.*?) +\\|$")

// direct are the modules that a module file asks for by itself: those that are
// imported, and those that hold one of its tools.
func direct(name, text string) ([]string, error) {
	file, err := modfile.Parse(name, []byte(text), nil)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, require := range file.Require {
		if !require.Indirect {
			found[require.Mod.Path] = true
		}
	}
	for _, tool := range file.Tool {
		if holder := holds(file, tool.Path); holder != "" {
			found[holder] = true
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// holds is the required module that a package lies in.
func holds(file *modfile.File, pkg string) string {
	best := ""
	for _, require := range file.Require {
		if p := require.Mod.Path; (pkg == p || strings.HasPrefix(pkg, p+"/")) && len(p) > len(best) {
			best = p
		}
	}
	return best
}

// sections are the page's tables by the folder of the module they speak of:
// each stands under a heading that names it, "## `hack/tools`".
func sections(page string) map[string][]string {
	found := map[string][]string{}
	for section := range strings.SplitSeq(page, "\n## ") {
		heading, body, _ := strings.Cut(section, "\n")
		_, name, ok := strings.Cut(heading, "`")
		if name, _, closed := strings.Cut(name, "`"); ok && closed {
			found[name] = []string{}
			for _, line := range aLine.FindAllStringSubmatch(body, -1) {
				found[name] = append(found[name], line[1])
			}
		}
	}
	return found
}

// earned compares one module's dependencies with the page.
func earned(dir string, depends, listed []string) []string {
	var findings []string
	for _, module := range depends {
		if !slices.Contains(listed, module) {
			findings = append(findings, fmt.Sprintf("%s/go.mod depends on %s, and %s does not say why: add a line under `%s`, "+
				"or do without it", dir, module, reasons, dir))
		}
	}
	for _, module := range listed {
		if !slices.Contains(depends, module) {
			findings = append(findings, fmt.Sprintf("%s lists %s under `%s`, whose go.mod does not ask for it: remove the line",
				reasons, module, dir))
		}
	}
	return findings
}

func TestEveryDependencyHasAReason(t *testing.T) {
	page := sections(read(t, reasons))
	judged := 0
	for _, name := range files(t) {
		if path.Base(name) != "go.mod" {
			continue
		}
		depends, err := direct(name, read(t, name))
		if err != nil {
			t.Fatal(err)
		}
		report(t, earned(path.Dir(name), depends, page[path.Dir(name)]))
		judged++
	}
	if judged != len(page) {
		t.Errorf("%s has %d sections for %d modules: remove those without a go.mod", reasons, len(page), judged)
	}
}

func TestEarnedSeesBothSides(t *testing.T) {
	depends, err := direct("go.mod", `module x

go 1.26.0

tool example.com/tools/cmd/gen

require (
	example.com/used v1.0.0
	example.com/below v1.0.0 // indirect
	example.com/tools v1.0.0 // indirect
)
`)
	if err != nil {
		t.Fatal(err)
	}
	page := sections("# Dependencies\n\n## `hack/x`\n\n| module | for |\n| --- | --- |\n| `example.com/used` | parsing " +
		"|\n| `example.com/gone` | nothing |\n| `example.com/empty` | |\n")
	expect(t, earned("hack/x", depends, page["hack/x"]),
		"hack/x/go.mod depends on example.com/tools", "lists example.com/gone under `hack/x`")
}

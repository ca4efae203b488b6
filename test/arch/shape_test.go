package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// How long things may be, in lines, so that one can be read without scrolling.
const (
	fileLimit      = 500
	functionLimit  = 60
	reconcileLimit = 40
	lineLimit      = 120 // in columns; a tab is one
)

// controllers are the packages that P5 speaks of: one kind each.
var controllers = []string{"controllers/mcpserver", "controllers/configs"}

// verbs are the files of a controller: a reader who knows one knows all.
var verbs = []string{"controller", "watches", "observe", "desired", "status"}

// mayHave are the files that only some controllers need.
var mayHave = []string{"deletion", "doc"}

// steps are the packages of a controller that has outgrown these files.
var steps = map[string]string{"observe": "snapshot", "desired": "plan", "status": "report"}

// size judges the length of a hand-written file and of its functions.
func size(s source) []string {
	if s.generated() {
		return nil
	}
	findings := longLines(s)
	if s.lines() > fileLimit {
		findings = append(findings, fmt.Sprintf("%s has %d lines, more than %d: it holds more than one subject; "+
			"give each a file named after it", s.name, s.lines(), fileLimit))
	}
	for _, decl := range s.file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		limit := functionLimit
		if fn.Name.Name == "Reconcile" {
			limit = reconcileLimit
		}
		lines := s.fset.Position(fn.End()).Line - s.fset.Position(fn.Pos()).Line + 1 - rows(s, fn)
		if lines > limit {
			findings = append(findings, fmt.Sprintf("%s: %s has %d lines, more than %d: name its steps and make them functions",
				s.at(fn.Pos()), fn.Name.Name, lines, limit))
		}
	}
	return findings
}

// rows counts the lines of a function that are elements of tables: they are data, and are read one at a time.
func rows(s source, fn *ast.FuncDecl) int {
	count := 0
	ast.Inspect(fn, func(n ast.Node) bool {
		table, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		count += s.fset.Position(table.Rbrace).Line - s.fset.Position(table.Lbrace).Line
		return false
	})
	return count
}

// longLines are the lines that do not fit the limit, without those that Go gives no way to break: raw strings, the
// output of an example, a word of half a line, as an address is, directives and markers, and what silences a linter.
func longLines(s source) []string {
	whole := map[int]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && strings.HasPrefix(literal.Value, "`") {
			for line := s.fset.Position(literal.Pos()).Line; line <= s.fset.Position(literal.End()).Line; line++ {
				whole[line] = true
			}
		}
		return true
	})
	for _, group := range s.file.Comments {
		if strings.HasPrefix(group.Text(), "Output:") {
			for line := s.fset.Position(group.Pos()).Line; line <= s.fset.Position(group.End()).Line; line++ {
				whole[line] = true
			}
		}
	}
	var findings []string
	for i, line := range strings.Split(s.text, "\n") {
		code, _, _ := strings.Cut(line, " //nolint:")
		marker := strings.HasPrefix(strings.TrimSpace(line), "// +") || strings.HasPrefix(line, "//go:")
		longWord := slices.ContainsFunc(strings.Fields(code), func(word string) bool { return len(word) > lineLimit/2 })
		if columns := utf8.RuneCountInString(code); columns > lineLimit && !whole[i+1] && !marker && !longWord {
			findings = append(findings, fmt.Sprintf("%s:%d has %d columns, more than %d: break the line, or name a part of it",
				s.name, i+1, columns, lineLimit))
		}
	}
	return findings
}

// names judges the file names of one controller package, which has these packages below it.
func names(dir string, files []string, below ...string) []string {
	var findings []string
	have := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "zz_generated") {
			continue
		}
		// status_pods.go is a part of status.go that has outgrown it.
		subject, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
		have[strings.TrimSuffix(file, ".go")] = true
		if !slices.Contains(verbs, subject) && !slices.Contains(mayHave, subject) {
			findings = append(findings, fmt.Sprintf("%s/%s: a controller's files are %s.go, and %s.go where needed: "+
				"say which of them this belongs to (status_%s is a part of status.go), or move it to a package below controllers",
				dir, file, strings.Join(verbs, ".go "), strings.Join(mayHave, ".go "), file))
		}
	}
	for _, verb := range verbs {
		if !have[verb] && !slices.Contains(below, steps[verb]) {
			findings = append(findings, fmt.Sprintf(
				"%s has no %s.go: each controller has the same files, so that a reader finds them", dir, verb))
		}
	}
	return findings
}

// handWritten judges a file below applyconfig, which is generated whole.
func handWritten(s source) []string {
	if !strings.HasPrefix(s.name, "applyconfig/") || s.generated() {
		return nil
	}
	return []string{s.name + " is written by hand: `make generate` deletes it; put it into the package that needs it"}
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, s := range sources(t) {
		report(t, size(s))
	}
}

func TestControllersHaveTheSameFiles(t *testing.T) {
	found, below := map[string][]string{}, map[string][]string{}
	for _, s := range sources(t) {
		if slices.Contains(controllers, s.dir()) {
			found[s.dir()] = append(found[s.dir()], path.Base(s.name))
		}
		if parent, name := path.Split(s.dir()); slices.Contains(controllers, path.Clean(parent)) {
			below[path.Clean(parent)] = append(below[path.Clean(parent)], name)
		}
	}
	for dir, files := range found {
		report(t, names(dir, files, below[dir]...))
	}
}

func TestApplyConfigurationsAreGenerated(t *testing.T) {
	for _, s := range sources(t) {
		report(t, handWritten(s))
	}
}

func TestSizeSeesLongCode(t *testing.T) {
	long := func(name string, lines int) string {
		return "func " + name + "() {\n" + strings.Repeat("\tcall()\n", lines-2) + "}\n"
	}
	expect(t, size(mustParse(t, "cmd/x.go", "package x\n"+long("run", functionLimit+1))), "run has 61 lines, more than 60")
	expect(t, size(mustParse(t, "cmd/x.go", "package x\n"+long("Reconcile", reconcileLimit+1))),
		"Reconcile has 41 lines, more than 40")
	expect(t, size(mustParse(t, "cmd/x.go", "package x\n"+strings.Repeat("\n", fileLimit))),
		"cmd/x.go has 501 lines, more than 500")
	wide := strings.Repeat("x x ", lineLimit/4)
	expect(t, size(mustParse(t, "cmd/x.go", "package x\n\n// "+wide[1:]+"\n")),
		"cmd/x.go:3 has 122 columns, more than 120")
	table := "func TestX(t *testing.T) {\n\trows := []int{\n" + strings.Repeat("\t\t1,\n", functionLimit) + "\t}\n"
	expect(t, size(mustParse(t, "cmd/x.go", "package x\n"+table+strings.Repeat("\tcall()\n", functionLimit)+"}\n")),
		"TestX has 63 lines, more than 60")

	expect(t, size(mustParse(t, "cmd/x.go", "package x\n"+table+"}\n")))
	expect(t, size(mustParse(t, "cmd/x.go", "package x\n\nconst x = `"+wide+"`\n\n// +marker:"+wide+"\n\n"+
		"var y = 1 //nolint:x // "+wide+"\n")))
	expect(t, size(mustParse(t, "cmd/x.go", "package x\n"+long("run", functionLimit))))
	expect(t, size(mustParse(t, "cmd/x.go", "// Code generated by a tool. DO NOT EDIT.\n\npackage x\n"+long("run", 1000))))
}

func TestNamesSeesAStrangeFile(t *testing.T) {
	whole := []string{"controller.go", "watches.go", "observe.go", "desired.go", "status.go"}
	expect(t, names("controllers/mcpserver", append(whole, "helpers.go")), "controllers/mcpserver/helpers.go")
	expect(t, names("controllers/mcpserver", whole[1:]), "has no controller.go")
	expect(t, names("controllers/mcpserver", []string{"controller.go", "watches.go", "desired.go", "status.go"},
		"snapshot"))
	expect(t, names("controllers/mcpserver", []string{"controller.go", "watches.go", "desired.go", "status.go"}, "other"),
		"has no observe.go")
	expect(t, names("controllers/mcpserver", append(whole, "deletion.go", "status_pods.go", "desired_test.go")))
}

func TestHandWrittenSeesAFileOfOurs(t *testing.T) {
	expect(t, handWritten(mustParse(t, "applyconfig/apis/v1alpha1/extra.go", "package v1alpha1\n")), "is written by hand")
	expect(t, handWritten(mustParse(t, "apis/v1alpha1/extra.go", "package v1alpha1\n")))
}

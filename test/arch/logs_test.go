package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// docs/logs.md lists each line that our programs log, with its level and keys,
// below the program: whoever meets a line finds it there, and none that is gone.

// programOf is the heading below which the lines of a folder are, or empty.
func programOf(folder string) string {
	for prefix, program := range map[string]string{
		"cmd/runner/internal/bench": "", "cmd/runner/internal/bridge": "The bridge", "cmd/runner": "The runner",
		"cmd/operator": "The operator", "controllers": "The operator",
	} {
		if folder == prefix || path.Dir(folder) == prefix {
			return program
		}
	}
	if strings.HasPrefix(folder, "cmd/runner/internal/") {
		return "The runner"
	}
	if strings.HasPrefix(folder, "controllers/") {
		return "The operator"
	}
	return ""
}

// logging are the methods that write a line, and where its message is among their
// arguments: those of slog, and of logr, whose Error takes the error first.
var logging = map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "Log": 2, "LogAttrs": 2}

var (
	logger   = regexp.MustCompile(`(?i)(^|\.)(log|logger|audit)$|FromContext$`)
	rowOfLog = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z ]+) \\|([^|]*)\\|")
)

// lines are the rows, without their meaning, of what a file's code logs.
func lines(t *testing.T, name, text string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants, found := map[string]string{}, []string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is && len(spec.Names) == len(spec.Values) {
			for i, value := range spec.Values {
				constants[spec.Names[i].Name] = literal(value)
			}
		}
		return true
	})
	for _, declared := range file.Decls {
		ast.Inspect(declared, func(n ast.Node) bool {
			call, isCall := n.(*ast.CallExpr)
			if !isCall {
				return true
			}
			method, isMethod := call.Fun.(*ast.SelectorExpr)
			if !isMethod {
				return true
			}
			_, logs := logging[method.Sel.Name]
			switch by := written(method.X); {
			case !logs:
			case logger.MatchString(by):
				found = append(found, line(t, method.Sel.Name, call.Args, declared, constants))
			case unseen(call, method.X):
				t.Errorf("%s: %s.%s writes a line that is not found: call it of a variable whose name ends in log or logger", name,
					by, method.Sel.Name)
			}
			return true
		})
	}
	return found
}

// unseen reports whether a call writes a line by what no name tells to be a logger: by what
// another call returned, or by a package's logger for all.
func unseen(call *ast.CallExpr, by ast.Expr) bool {
	_, returned := by.(*ast.CallExpr)
	return returned && len(call.Args) > 0 || slices.Contains([]string{"slog", "klog"}, written(by))
}

// line is the row of one call.
func line(t *testing.T, method string, args []ast.Expr, around ast.Node, constants map[string]string) string {
	t.Helper()
	at, level, keys := logging[method], strings.ToLower(method), []string{}
	said := func() string {
		if name, is := args[at].(*ast.Ident); is {
			return constants[name.Name]
		}
		return literal(args[at])
	}
	if method == "Error" && said() == "" {
		at, keys = 1, append(keys, "error")
	}
	if said() == "" {
		t.Error("a line whose message is no constant cannot be listed")
	}
	if at == 2 {
		level = strings.Join(named(args[1], around, levelIn), " or ")
	}
	for i, arg := range args[at+1:] {
		switch {
		case method == "LogAttrs":
			keys = append(keys, named(arg, around, keyIn)...)
		case i%2 == 0:
			keys = append(keys, literal(arg))
		}
	}
	slices.Sort(keys)
	return "`" + said() + "` | " + level + " | " + strings.Join(keys, ", ")
}

func levelIn(n ast.Node) string {
	if of, is := n.(*ast.SelectorExpr); is && strings.HasPrefix(of.Sel.Name, "Level") {
		return strings.ToLower(strings.TrimPrefix(of.Sel.Name, "Level"))
	}
	return ""
}

func keyIn(n ast.Node) string {
	if of, is := n.(*ast.CallExpr); is && strings.HasPrefix(written(of.Fun), "slog.") && len(of.Args) == 2 {
		return literal(of.Args[0])
	}
	return ""
}

// named are the names in an expression, or in the function around one that has none.
func named(in ast.Node, around ast.Node, name func(ast.Node) string) []string {
	found := map[string]bool{}
	for _, node := range []ast.Node{in, around} {
		if len(found) == 0 {
			ast.Inspect(node, func(n ast.Node) bool {
				if is := name(n); is != "" {
					found[is] = true
				}
				return true
			})
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func literal(e ast.Expr) string {
	if of, is := e.(*ast.BasicLit); is {
		if text, err := strconv.Unquote(of.Value); err == nil {
			return text
		}
	}
	return ""
}

// written is an expression as the code has it, without arguments.
func written(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return written(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		return written(e.Fun)
	}
	return ""
}

func TestThePageListsEachLineOfTheLogs(t *testing.T) {
	logged, listed := map[string]bool{}, map[string]bool{}
	for _, name := range files(t) {
		program := programOf(path.Dir(name))
		if program == "" || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, line := range lines(t, name, read(t, name)) {
			logged[program+": "+line] = true
		}
	}
	for _, section := range strings.Split(read(t, "docs/logs.md"), "\n## ")[1:] {
		program, table, _ := strings.Cut(section, "\n")
		for _, row := range rowOfLog.FindAllStringSubmatch(table, -1) {
			keys := strings.Split(strings.ReplaceAll(strings.TrimSpace(row[3]), "`", ""), ", ")
			slices.Sort(keys)
			listed[program+": `"+row[1]+"` | "+row[2]+" | "+strings.Join(keys, ", ")] = true
		}
	}
	if len(logged) < 20 {
		t.Errorf("the code logs %d lines", len(logged))
	}
	for line := range logged {
		if !listed[line] {
			t.Errorf("docs/logs.md does not list: %s", line)
		}
	}
	for line := range listed {
		if !logged[line] {
			t.Errorf("docs/logs.md lists what nothing logs: %s", line)
		}
	}
}

package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// markers judges the fields of the API types in one file: each says whether it is required or optional, so that nobody
// has to know what controller-gen makes of omitempty and pointers.
func markers(fset *token.FileSet, file *ast.File) []string {
	var findings []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if structure, ok := spec.Type.(*ast.StructType); ok && !strings.HasSuffix(spec.Name.Name, "List") {
			for _, field := range structure.Fields.List {
				findings = append(findings, marked(fset, spec.Name.Name, field)...)
			}
		}
		return true
	})
	return findings
}

func marked(fset *token.FileSet, owner string, field *ast.Field) []string {
	name, options := tag(field)
	if name == "" || name == "-" {
		// An inlined struct: its own fields are marked.
		return nil
	}
	at := fset.Position(field.Pos())
	where := fmt.Sprintf("%s:%d: %s.%s", filepath.Base(at.Filename), at.Line, owner, name)
	required, optional := has(field, "+required"), has(field, "+optional")
	omits := slices.Contains(options, "omitempty") || slices.Contains(options, "omitzero")
	switch {
	case required == optional:
		return []string{where + " says neither or both of +required and +optional: say one"}
	case optional && !omits:
		return []string{where + " is optional and has no omitempty: whoever leaves it out would write it"}
	case required && omits:
		return []string{where + " is required and has omitempty: its zero value would vanish and be refused"}
	case strings.ToLower(name[:1]) != name[:1]:
		return []string{where + " does not begin with a lower-case letter"}
	case !documented(field, name):
		return []string{where + " has no description that begins with its name: `kubectl explain` shows it"}
	}
	return nil
}

// tag is a field's name in JSON, and the options behind it.
func tag(field *ast.Field) (string, []string) {
	if field.Tag == nil {
		return "", nil
	}
	value := reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json")
	parts := strings.Split(value, ",")
	return parts[0], parts[1:]
}

// has says whether a marker stands above a field.
func has(field *ast.Field, marker string) bool {
	if field.Doc == nil {
		return false
	}
	return slices.ContainsFunc(field.Doc.List, func(c *ast.Comment) bool {
		return strings.TrimSpace(strings.TrimPrefix(c.Text, "//")) == marker
	})
}

func documented(field *ast.Field, name string) bool {
	text := field.Doc.Text()
	return strings.HasPrefix(text, name+" ")
}

func TestEveryFieldIsMarked(t *testing.T) {
	names, err := filepath.Glob("../../apis/v1alpha1/*.go")
	if err != nil || len(names) == 0 {
		t.Fatalf("no API types found: %v", err)
	}
	for _, name := range names {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(file) {
			report(t, markers(fset, file))
		}
	}
}

func TestMarkersSeesBadFields(t *testing.T) {
	for name, tc := range map[string]struct{ field, finding string }{
		"nothing said": {"// port is a port.\nPort int32 `json:\"port\"`", "says neither or both"},
		"both said": {
			"// port is a port.\n// +optional\n// +required\nPort int32 `json:\"port\"`",
			"says neither or both",
		},
		"optional, always out": {
			"// port is a port.\n// +optional\nPort int32 `json:\"port\"`",
			"is optional and has no omitempty",
		},
		"required, vanishing": {
			"// port is a port.\n// +required\nPort int32 `json:\"port,omitempty\"`",
			"is required and has omitempty",
		},
		"upper case": {
			"// Port is a port.\n// +required\nPort int32 `json:\"Port\"`",
			"does not begin with a lower-case letter",
		},
		"not described": {"// +required\nPort int32 `json:\"port\"`", "has no description"},
	} {
		t.Run(name, func(t *testing.T) { expect(t, findings(t, tc.field), tc.finding) })
	}
	expect(t, findings(t, "// port is a port.\n// +optional\nPort int32 `json:\"port,omitempty\"`"))
	expect(t, findings(t, "metav1.TypeMeta `json:\",inline\"`"))
}

func findings(t *testing.T, field string) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "x.go", "package x\n\ntype Thing struct {\n"+field+"\n}\n", parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return markers(fset, file)
}

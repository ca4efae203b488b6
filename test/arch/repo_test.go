// Package arch holds the architecture: each principle of docs/architecture.md
// is a check here, with a message that says what to do instead.
//
// repo_test.go reads the repository, layers_test.go judges imports, shape_test.go files and functions, words_test.go
// text, dependencies_test.go the module files, versions_test.go releases, docs_test.go pages, links_test.go their
// links, streams_test.go who reads streams and workflows_test.go what runs elsewhere. What needs types is judged by
// hack/lint. Every check is a function from what it judges to findings, so that the test beside it can show it bad
// input.
package arch

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// module is the import path of the repository's root.
const module = "github.com/freehold-dev/freehold"

// source is one Go file; name is its path below the root of the repository.
type source struct {
	name string
	text string
	fset *token.FileSet
	file *ast.File
}

func (s source) dir() string     { return path.Dir(s.name) }
func (s source) isTest() bool    { return strings.HasSuffix(s.name, "_test.go") }
func (s source) generated() bool { return ast.IsGenerated(s.file) }
func (s source) lines() int      { return strings.Count(s.text, "\n") }

// at is where a node begins, as file:line.
func (s source) at(pos token.Pos) string {
	return s.name + ":" + strconv.Itoa(s.fset.Position(pos).Line)
}

// imports are the paths that a file imports, each with its place.
func (s source) imports() map[string]string {
	found := map[string]string{}
	for _, spec := range s.file.Imports {
		found[strings.Trim(spec.Path.Value, `"`)] = s.at(spec.Pos())
	}
	return found
}

func parse(name, text string) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	return source{name: name, text: text, fset: fset, file: file}, err
}

// mustParse is for the bad input of the tests.
func mustParse(t *testing.T, name, text string) source {
	t.Helper()
	s, err := parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// root is the root of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// listed are the files that git tracks or would track, so that nothing built
// is judged, below the root and with forward slashes.
var listed = sync.OnceValues(func() ([]string, error) {
	cmd := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		info, err := os.Lstat(filepath.Join("..", "..", filepath.FromSlash(name)))
		if name != "" && err == nil && info.Mode().IsRegular() {
			names = append(names, name)
		}
	}
	return names, nil
})

// files are the names of the repository's files.
func files(t *testing.T) []string {
	t.Helper()
	names, err := listed()
	if err != nil {
		t.Fatalf("listing the repository's files with git: %v", err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// parsed are the repository's Go files, without bad input in testdata. Nobody changes one.
var parsed = sync.OnceValues(func() (found []source, err error) {
	names, err := listed()
	for _, name := range names {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") {
			continue
		}
		text, unread := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		s, unparsed := parse(name, string(text))
		err = errors.Join(err, unread, unparsed)
		found = append(found, s)
	}
	return found, err
})

// sources are these files.
func sources(t *testing.T) []source {
	t.Helper()
	found, err := parsed()
	if err != nil {
		t.Errorf("reading the repository's Go files: %v", err)
	}
	if len(found) == 0 {
		t.Fatal("no Go file found: the check would pass without looking")
	}
	return found
}

func report(t *testing.T, findings []string) {
	t.Helper()
	for _, finding := range findings {
		t.Error(finding)
	}
}

// expect demands one finding for each piece of text, and no other.
func expect(t *testing.T, findings []string, pieces ...string) {
	t.Helper()
	if len(findings) != len(pieces) {
		t.Fatalf("%d findings, want %d:\n%s", len(findings), len(pieces), strings.Join(findings, "\n"))
	}
	for i, piece := range pieces {
		if !strings.Contains(findings[i], piece) {
			t.Errorf("finding %q does not say %q", findings[i], piece)
		}
	}
}

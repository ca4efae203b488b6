package formats

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/cmd/kubectl-freehold/internal/conversion"
)

func read(t *testing.T, text string) Found {
	t.Helper()
	return Files([]string{"-"}, strings.NewReader(text))
}

func TestADocumentIsKnownByWhatItHolds(t *testing.T) {
	for text, want := range map[string]string{
		`{"mcpServers": {"a": {"command": "npx", "args": ["b"]}}}`:       "a client's file",
		"{\n// said\n\"servers\": {\"a\": {\"url\": \"https://b\",},},}": "a client's file",
		`{"mcp": {"servers": {"a": {"command": "b"}}}}`:                  "a client's file",
		`{"mcp": {"a": {"type": "remote", "url": "https://b"}}}`:         "a client's file",
		"mcpServers: {a: {command: npx, args: [b]}}":                     "a client's file",
		"services: {a-mcp: {image: b}}":                                  "a compose file",
		"name: x/y\nremotes: [{type: sse, url: 'https://a'}]":            "a description of the MCP registry",
	} {
		found := read(t, text)
		if len(found.Errs) != 0 || len(found.Entries) != 1 || found.Entries[0].Format != want {
			t.Errorf("%s: got %+v", text, found)
		}
	}
	for _, text := range []string{
		`{"mcpServers": {}}`, `{"mcpServers": {"a": 1}}`, `{"servers": [1]}`, "a: b", `{"services": {"a": {}}}`, "{", "a: [",
		`{"remotes": []}`, strings.Repeat("[", 1000),
	} {
		if found := read(t, text); len(found.Errs) != 1 || len(found.Entries)+len(found.Objects) != 0 {
			t.Errorf("%s: got %+v", text, found)
		}
	}
}

// One document that cannot be read does not hide those beside it.
func TestAFolderIsReadWhole(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Secret, metadata: {name: a}}]\n---\nx: y\n" +
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
		"b.json": `{"mcpServers": {"a": {"command": "npx", "args": ["b"]}}}`, "c.txt": "not read", "d.yml": "a: [",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := Files([]string{dir, filepath.Join(dir, "nothing")}, nil)
	if len(found.Objects) != 2 || len(found.Entries) != 1 || len(found.Errs) != 3 {
		t.Errorf("got %+v", found)
	}
}

// Whatever a file holds, nothing panics.
func FuzzFiles(f *testing.F) {
	files, err := filepath.Glob("../../testdata/bring/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	for _, text := range []string{
		"apiVersion: kagent.dev/v1alpha2\nkind: RemoteMCPServer\nmetadata: {name: a}\nspec: {url: x, headersFrom: " +
			"[{name: 1, valueFrom: {type: Secret, valueRef: a/b}}, 2, {valueFrom: 3}]}",
		"apiVersion: toolhive.stacklok.dev/v1beta1\nkind: MCPServer\nmetadata: {name: a}\nspec: {env: [1], " +
			"podTemplateSpec: {spec: {containers: [{name: mcp, ports: [1], env: {}}]}}}",
		"apiVersion: litellm.home-operations.com/v1alpha1\nkind: LiteLLMMCPServer\nspec: {workload: 1, authTokenRef: a}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		found := Files([]string{"-"}, strings.NewReader(text))
		conversion.Run(t.Context(), found.Objects, conversion.Options{Entries: found.Entries})
	})
}

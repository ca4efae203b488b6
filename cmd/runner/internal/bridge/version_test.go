package bridge

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

var update = flag.Bool("update", false, "note the sources of the bridge as those of runconfig.BridgeVersion")

// sources are what the program is made of where it is the bridge.
var sources = []string{
	"*.go", "../budget/*.go", "../stdio/*.go", "../jsonrpc/*.go", "../protocol/*.go", "../headers/*.go",
	"../media/*.go", "../kept/*.go", "../share/*.go", "../sse/*.go", "program/*.go",
}

func TestTheSourcesAreThoseOfAllPackagesOfTheBridge(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range parsed.Imports {
			_, name, ours := strings.Cut(strings.Trim(imported.Path.Value, `"`), "/cmd/runner/internal/")
			if ours && !slices.Contains(sources, "../"+name+"/*.go") {
				t.Errorf("%s imports internal/%s, which is none of the sources", file, name)
			}
		}
	}
}

// Pods that have a bridge keep it, over releases: what it is to proxies does not change unseen.
func TestTheVersionIsThatOfTheSources(t *testing.T) {
	hash := sha256.New()
	for _, pattern := range sources {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(hash, "%s %d\n%s", filepath.Base(file), len(data), data)
		}
	}
	got := fmt.Sprintf("%s %x\n", runconfig.BridgeVersion, hash.Sum(nil))
	const path = "testdata/version"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the bridge is not the one of version %q. If it is another one to those that call it, raise "+
			"runconfig.BridgeVersion, with an entry of renderings in controllers/workload, and proxies have to call pods with "+
			"either. Then, or where nothing that they see has changed: "+
			"go test ./cmd/runner/internal/bridge -run Version -update",
			strings.Fields(string(want))[0])
	}
}

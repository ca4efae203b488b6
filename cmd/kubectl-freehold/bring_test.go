package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/test/golden"
)

// What files of clients, of registries and of compose become is compared as a whole. test/input has the API server take
// it.
func TestWhatImportMakesOfFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bring/*")
	if err != nil || len(files) < 9 {
		t.Fatalf("there are the files %q: %v", files, err)
	}
	for _, file := range files {
		d := sit("")
		code := d.run(t.Context(), []string{"import", "--images=never", "-f", file})
		if code == exitError {
			t.Fatal(d.said(code))
		}
		name := strings.ReplaceAll(filepath.Base(file), ".", "-")
		golden.File(t, filepath.Join("testdata", "golden", "import-"+name+".yaml"), d.out.String())
		golden.File(t, filepath.Join("testdata", "golden", "import-"+name+".txt"), d.err.String())
		if said := d.out.String() + d.err.String(); strings.Contains(said, "canary") {
			t.Errorf("%s: a secret is printed", file)
		}
	}
}

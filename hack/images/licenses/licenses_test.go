package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/licenseclassifier/v2/assets"
)

// tree writes a module's files into a folder, and is what Go lists of its package at a path.
func tree(t *testing.T, pkg string, files map[string]string) listing {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := listing{Dir: filepath.Join(dir, pkg)}
	p.Module = &moduleListing{Path: "example.com/m", Version: "v1.0.0", Dir: dir}
	return p
}

// read is a file's content.
func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// known is the text of a licence.
func known(t *testing.T, name string) string {
	t.Helper()
	content, err := assets.ReadLicenseFile("License/" + name + "/pristine.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestEveryTextAboveAPackageCounts(t *testing.T) {
	mit, apache := "Copyright (c) 2020 Somebody\n\n"+known(t, "MIT"), read(t, filepath.Join("..", root, "LICENSE"))
	p := tree(t, "third_party/fork", map[string]string{
		"LICENSE": apache, "NOTICE": "Somebody made this.\n", "PATENTS": "More rights.\n", "license.go": "package m\n",
		"LICENSE.docs":             "Not linked.\n",
		"third_party/fork/COPYING": mit, "elsewhere/LICENSE": "Not linked.\n",
	})
	found := map[string]*module{}
	if err := collect(found, "operator", []listing{p, {Standard: true}}); err != nil {
		t.Fatal(err)
	}
	modules, err := ordered(found)
	if err != nil {
		t.Fatal(err)
	}
	if err := identify(modules); err != nil {
		t.Fatal(err)
	}
	const row = "| `example.com/m` | v1.0.0 | Apache-2.0 AND MIT | operator |\n"
	if list := string(page(modules)); !strings.HasSuffix(list, row) {
		t.Errorf("the page is\n%s\nwant a last row\n%s", list, row)
	}
	texts := string(thirdParty(modules))
	for _, want := range []string{
		"Copyright (c) 2020 Somebody", "Somebody made this.", "More rights.",
		"Grant of Patent License",
	} {
		if strings.Count(texts, want) != 1 {
			t.Errorf("the texts have %q %d times, want it once", want, strings.Count(texts, want))
		}
	}
	if strings.Contains(texts, "Not linked.") || strings.Contains(texts, "package m") {
		t.Error("the texts have what is no licence of a linked package")
	}
}

func TestWhatMayNotBeLinkedIsRefused(t *testing.T) {
	modules := []*module{
		{path: "example.com/free", version: "v1.0.0", texts: []text{{"LICENSE", known(t, "MIT")}}},
		{path: "example.com/copyleft", version: "v1.0.0", texts: []text{{"LICENSE", known(t, "MPL-2.0")}}},
		{path: "example.com/odd", version: "v1.0.0", texts: []text{{"LICENSE", "You may use this on Sundays.\n"}}},
	}
	err := identify(modules)
	if err == nil {
		t.Fatal("nothing is refused")
	}
	for _, want := range []string{
		"example.com/copyleft v1.0.0: MPL-2.0 is not on the list",
		"example.com/odd v1.0.0: LICENSE is no licence",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "example.com/free") {
		t.Errorf("a permissive licence is refused:\n%v", err)
	}
}

func TestAModuleWithoutALicenceIsRefused(t *testing.T) {
	found := map[string]*module{}
	if err := collect(found, "runner", []listing{tree(t, ".", map[string]string{"NOTICE": "Mine.\n"})}); err != nil {
		t.Fatal(err)
	}
	if _, err := ordered(found); err == nil || err.Error() != "example.com/m v1.0.0 has no licence" {
		t.Errorf("got %v", err)
	}
	replaced := tree(t, ".", nil)
	replaced.Module.Replace = &moduleListing{Path: "example.com/fork"}
	if err := collect(found, "runner", []listing{replaced}); err == nil {
		t.Error("a replaced module passes")
	}
}

package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func tree(files map[string]string) fstest.MapFS {
	made := fstest.MapFS{}
	for name, text := range files {
		made[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return made
}

func TestASiteIsJudged(t *testing.T) {
	docs := tree(map[string]string{"README.md": "# A", "adr/README.md": "# B", "adr/0001.md": "# C"})
	whole := map[string]string{
		"index.html":    `<a href="adr.html#one">1</a> <a href="adr/0001.html">2</a> <a href="https://example.com/none">3</a> <script src="find.js">`,
		"adr.html":      `<h1 id="one">One</h1> <a href="#one">self</a> <a href="index.html">home</a>`,
		"adr/0001.html": `<a href="../adr.html#one">up</a>`,
		"find.js":       ``,
	}
	for name, row := range map[string]struct {
		page, text, want string
	}{
		"a whole site": {"index.html", whole["index.html"], ""},
		"a link to no page": {
			"adr.html", `<h1 id="one"></h1><a href="none.html">x</a>`,
			"adr.html: the link none.html leads to no file of the site",
		},
		"a link to no heading": {
			"index.html", `<a href="adr.html#two">x</a>`,
			"index.html: the link adr.html#two leads to no heading",
		},
		"a link to no heading here": {
			"index.html", `<a href="#two">x</a>`,
			"index.html: the link #two leads to no heading",
		},
		"a link to a source": {
			"index.html", `<a href="adr/0001.md">x</a>`,
			"index.html: the link adr/0001.md leads to no file of the site",
		},
		"a link from the host's root": {
			"index.html", `<a href="/adr.html">x</a>`,
			"index.html: the link /adr.html begins at the root of the host",
		},
		"a page that is not built": {"adr.html", "", "docs/adr/README.md is not in the site as adr.html"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for name, text := range whole {
				files[name] = text
			}
			files[row.page] = row.text
			if row.text == "" {
				delete(files, row.page)
			}
			findings, _, err := judge(tree(files), docs)
			if err != nil {
				t.Fatal(err)
			}
			got := strings.Join(findings, "\n")
			if row.want == "" && got != "" || !strings.Contains(got, row.want) {
				t.Errorf("judge finds %q, want %q", got, row.want)
			}
		})
	}
}

func TestASiteOfNothingIsRefused(t *testing.T) {
	if _, _, err := judge(tree(map[string]string{"index.html": ""}), tree(nil)); err == nil {
		t.Error("judge accepts a folder of sources without a page")
	}
}

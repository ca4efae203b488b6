package arch

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// forbidden are words that tie the repository to one machine, one registry or one way of working. They are put together
// from pieces, since this file is judged as well. Hosts of registries are configuration of whoever builds: the tools
// know theirs.
var forbidden = map[string]string{
	"/wo" + "rk/main":           "the path of one machine: make it relative to the repository",
	"/wo" + "rk/shared":         "the path of one machine: make it relative to the repository",
	"/tm" + "p/fh":              "the path of one machine: use a temporary folder that the program makes",
	"/ro" + "ot/go":             "the path of one machine: ask `go env`",
	"/ho" + "me/":               "the path of one person: use $HOME",
	"proxy.go" + "lang.org":     "the host of a registry: the go command knows which one to use",
	"sum.go" + "lang.org":       "the host of a registry: the go command knows which one to use",
	"deb.deb" + "ian.org":       "the host of a registry: apt knows which one to use",
	"security.deb" + "ian.org":  "the host of a registry: apt knows which one to use",
	"registry.np" + "mjs.org":   "the host of a registry: npm knows which one to use",
	"registry-1.doc" + "ker.io": "the host of a registry: name the image alone",
	"shared/" + "design":        "a page that is not in this repository: say what it says",
	"TO" + "DO":                 "unfinished work: finish it, or say what the code does now",
	"FIX" + "ME":                "unfinished work: finish it, or say what the code does now",
}

// words judges the text of a file.
func words(name, text string) []string {
	var findings []string
	for number, line := range strings.Split(text, "\n") {
		for word, why := range forbidden {
			if strings.Contains(line, word) {
				findings = append(findings, fmt.Sprintf("%s:%d: %q is %s", name, number+1, word, why))
			}
		}
	}
	return findings
}

func TestTextIsAtHomeEverywhere(t *testing.T) {
	for _, name := range files(t) {
		if text := read(t, name); utf8.ValidString(text) {
			report(t, words(name, text))
		}
	}
}

func TestWordsSeesEachWord(t *testing.T) {
	for word, why := range forbidden {
		expect(t, words("Makefile", "fine\nrun "+word+"/x\n"), why)
	}
	expect(t, words("Makefile", "go mod download\n"))
}

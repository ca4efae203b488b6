package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// forbidden are words that tie the repository to one machine, one registry or
// one way of working. They are put together from pieces, since this file is
// judged as well. Hosts of registries are configuration of whoever builds: the
// tools know theirs.
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

// managerName is the form of our field managers: KIND.freehold.dev/PURPOSE.
var managerName = regexp.MustCompile(`^[a-z]+\.freehold\.dev/[a-z]+$`)

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

// managers finds field managers that are written out: outside the contract a
// manager is a constant of apis/ownership, so that a misspelt one cannot claim
// fields under a name that nobody knows.
func managers(s source) []string {
	if s.isTest() || s.generated() || strings.HasPrefix(s.name, "apis/ownership/") || strings.HasPrefix(s.name, "test/") {
		return nil
	}
	var findings []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && managerName.MatchString(text) {
			findings = append(findings, fmt.Sprintf("%s: %q is a field manager: use its constant in apis/ownership, "+
				"or declare it there with its grants", s.at(lit.Pos()), text))
		}
		return true
	})
	return findings
}

func TestTextIsAtHomeEverywhere(t *testing.T) {
	for _, name := range files(t) {
		if text := read(t, name); utf8.ValidString(text) {
			report(t, words(name, text))
		}
	}
}

func TestManagersAreConstants(t *testing.T) {
	for _, s := range sources(t) {
		report(t, managers(s))
	}
}

func TestWordsSeesEachWord(t *testing.T) {
	for word, why := range forbidden {
		expect(t, words("Makefile", "fine\nrun "+word+"/x\n"), why)
	}
	expect(t, words("Makefile", "go mod download\n"))
}

func TestManagersSeesALiteral(t *testing.T) {
	const text = "package x\n\nvar owner, label = \"mcpserver.freehold.dev/children\", \"freehold.dev/server\"\n"
	expect(t, managers(mustParse(t, "controllers/mcpserver/x.go", text)), `"mcpserver.freehold.dev/children" is a field manager`)
	expect(t, managers(mustParse(t, "apis/ownership/x.go", text)))
	expect(t, managers(mustParse(t, "controllers/mcpserver/x_test.go", text)))
}

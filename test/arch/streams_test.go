package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"testing"
)

// streams is the one package that knows how a stream of server-sent events looks. A second reader passes over less, or
// more, than the first: then a heartbeat ends a call, or a list passes that is not judged.
const streams = "cmd/runner/internal/sse"

// eventField is the begin of a line of such a stream.
var eventField = regexp.MustCompile(`(?m)^(data|event|id|retry):`)

// readers judges who reads or writes streams, by the fields in the texts of a file.
func readers(s source) []string {
	if s.dir() == streams || s.isTest() || !regexp.MustCompile("^cmd/runner(/|$)").MatchString(s.dir()) {
		return nil
	}
	var findings []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		literal, is := n.(*ast.BasicLit)
		if !is || literal.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(literal.Value); err == nil && eventField.MatchString(text) {
			findings = append(findings, s.at(n.Pos())+": a field of an event stream: have "+streams+" read it, or write it")
		}
		return true
	})
	return findings
}

func TestOnePackageReadsStreams(t *testing.T) {
	for _, s := range sources(t) {
		report(t, readers(s))
	}
}

func TestReadersSeesASecondOne(t *testing.T) {
	const text = "package a\n\nvar b = "
	expect(t, readers(mustParse(t, "cmd/runner/internal/era/a.go", text+`"data: "`)), "an event stream")
	expect(t, readers(mustParse(t, "cmd/runner/a.go", text+`"event: message\ndata: {}\n\n"`)), "an event stream")
	expect(t, readers(mustParse(t, streams+"/a.go", text+`"data:"`)))
	expect(t, readers(mustParse(t, "cmd/runner/a.go", text+`"data: image"`)), "an event stream")
	expect(t, readers(mustParse(t, "cmd/runner/a.go", text+`"metadata: x"`)))
}

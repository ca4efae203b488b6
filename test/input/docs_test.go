package input

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/test/golden"
	"github.com/freehold-dev/freehold/test/kit"
)

// advice is what to write where the API server's own words do not say it.
// The first whose words are in the answers, to apply and to create, counts.
var advice = []struct{ words, instead string }{
	{`must be of type object: "null"`, `give the volume another name, or empty it with kubectl edit, which is no apply`},
	{`must be of type date-time`, `write a time with its zone, in quotes: "2026-05-06T07:08:09Z"`},
	{
		`of type string|expected string|unmarshal number .* of type string`,
		`write a text; put a number, true or false in quotes`,
	},
	{`of type integer,string: "number"`, `put it in quotes, "0.5", or write thousandths, 500m`},
	{`of type (integer|number|int32)|expected numeric|expected integer`, `write a whole number, without quotes`},
	{`of type boolean|expected boolean`, `write true or false, without quotes`},
	{`of type array|expected list`, `write a list: begin each item with -, or put [ ] around it`},
	{
		`of type object|expected map|non-map elements|must be an object`,
		`write a map: each line a field and its value, name: value`,
	},
	{`unknown field "\w+"`, `move it below spec`},
	{
		`unknown field "spec\.(containers|nodeSelector)"`,
		`write it into spec.podTemplate.spec, whose fields kubectl explain pod.spec names`,
	},
	{`unknown field "spec\.proxy\.service\.port"`, `write spec.proxy.port, which is the Service's port, too`},
	{`unknown field "spec\.\w+Ref\.namespace"`, `remove it: the object has to be in the server's namespace`},
	{
		`unknown field "spec\.(oidc|kubernetes)\.`,
		`correct the name: kubectl explain mcpoidcconfig.spec --recursive shows where each field belongs`,
	},
	{
		`unknown field|not declared in schema`,
		`correct the name: kubectl explain mcpserver.spec --recursive shows where each field belongs`,
	},
	{`Required value|omits all key fields`, `write the field`},
	{`Duplicate value|duplicate entries|already set in map|unmarshal errors`, `keep one of them`},
	{
		`spec\.(args|command)\b.*Too|too large`,
		`write less: put long texts into a ConfigMap, and mount it with spec.volumes`,
	},
	{`spec\.env: Too many`, `write fewer: envFrom takes all keys of a ConfigMap or Secret`},
	{`annotations: Too long`, `write fewer annotations, or shorter ones`},
	{`Too many`, `write fewer`},
	{`Too long`, `write a shorter one`},
	{
		`volumeClaimTemplates in body should have at least 1`,
		`write a template, or leave the field out: it cannot be filled later`,
	},
	{`should be (greater|less) than or equal to|at least 1|supported values`, `write a value that the message allows`},
	{`a valid label must`, `write at most 63 letters, digits, - _ and .`},
}

// ours are the words of a message that says itself what to write.
var ours = regexp.MustCompile(
	`\b(write|use|remove|rename|keep|choose|set|correct|add|lower|begin|must differ|needs|leave)\b`)

// instead is what to write in place of a row's mistake, empty where its message says it.
func (r row) instead() (string, bool) {
	if ours.MatchString(r.says) {
		return "", true
	}
	for _, a := range advice {
		if regexp.MustCompile(a.words).MatchString(r.field + ": " + r.says + "\n" + r.applied) {
			return a.instead, true
		}
	}
	return "", false
}

func TestEveryMessageOrTheDocumentSaysWhatToWrite(t *testing.T) {
	for _, subject := range append(refused(), judged()...) {
		for _, row := range subject.rows {
			if _, ok := row.instead(); !ok {
				t.Errorf("%s, %s: neither %q nor an advice says what to write instead", subject.title, row.mistake, row.says)
			}
		}
	}
}

func TestTheDocumentIsThatOfTheRows(t *testing.T) {
	root, err := kit.Root()
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, filepath.Join(root, "docs", "errors.md"), document())
}

const head = `# Mistakes, and the messages about them

A test makes every mistake below, against a real API server and what the operator renders, and compares the
messages. The test also writes this page: ` + "`make golden`" + `.

A refused write changes nothing: what ran keeps running.

## What the API server refuses

kubectl or your GitOps tool shows the message at once. If the message of a server-side apply differs from that
of a create or an update, both are listed. Kubernetes' own messages do not always say what
to write; then there is a line "Instead".
`

const middle = `
## What the operator refuses

The condition Accepted is False with reason SpecInvalid, Ready repeats it, and
` + "`kubectl describe mcpserver`" + ` shows it. The message ends with what runs in the meantime: the last accepted
content, or nothing. Suspending and scaling still work while the spec is wrong.
`

// document is docs/errors.md.
func document() string {
	var text strings.Builder
	text.WriteString(head)
	for _, subject := range refused() {
		subject.write(&text)
	}
	text.WriteString(middle)
	for _, subject := range judged() {
		subject.write(&text)
	}
	return text.String()
}

func (s subject) write(text *strings.Builder) {
	fmt.Fprintf(text, "\n### %s\n\n", s.title)
	for _, row := range s.rows {
		fmt.Fprintf(text, "- **%s**: %s\n", row.mistake, code(row.shown()))
		said := row.says
		if row.field != "" {
			said = row.field + ": " + said
		}
		fmt.Fprintf(text, "  - %s\n", code(said))
		if row.applied != "" {
			fmt.Fprintf(text, "  - %s\n", code(row.applied))
		}
		if instead, _ := row.instead(); instead != "" {
			fmt.Fprintf(text, "  - Instead: %s\n", instead)
		}
	}
}

// code is a text as inline code, with its line breaks visible.
func code(text string) string {
	text = strings.ReplaceAll(strings.TrimSpace(text), "\n", " ⏎ ")
	if strings.Contains(text, "`") {
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

package arch

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/hack/lint/rules"
)

// block is the first fenced text below a heading.
func block(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
	_, rest, opens := strings.Cut(rest, "\n```\n")
	text, _, closes := strings.Cut(rest, "\n```\n")
	if !found || !opens || !closes {
		t.Fatalf("there is no picture below %q", heading)
	}
	return text
}

// Who looks for a folder finds what it is for.
func TestEveryFolderIsDrawn(t *testing.T) {
	drawn := map[string]bool{}
	for line := range strings.Lines(block(t, read(t, "docs/architecture.md"), "Folders")) {
		name, _, _ := strings.Cut(line, " ")
		drawn[name] = true
		if info, err := os.Stat(filepath.Join(root(t), name)); err != nil || !info.IsDir() {
			t.Errorf("docs/architecture.md draws a folder %q, which does not exist", name)
		}
	}
	for _, name := range files(t) {
		steps := strings.Split(path.Dir(name), "/")
		folder := strings.Join(steps[:min(2, len(steps))], "/")
		if strings.HasSuffix(name, ".go") && steps[0] != "applyconfig" && !drawn[folder] {
			t.Errorf("docs/architecture.md draws no folder %s: add a line for it", folder)
			drawn[folder] = true // said once
		}
	}
}

// A pass is drawn as its code reads.
func TestThePassIsDrawnAsItIs(t *testing.T) {
	picture, pass := block(t, read(t, "docs/architecture.md"), "A pass"), read(t, "controllers/mcpserver/controller.go")
	for _, step := range []struct{ verb, call string }{
		{"snapshot", "r.reader.Read(ctx"},
		{"render", "r.renderer.Digests(s"},
		{"plan", "plan.Make(s"},
		{"act", "actor.Execute(ctx"},
	} {
		var drawn, called bool
		_, picture, drawn = strings.Cut(picture, step.verb)
		_, pass, called = strings.Cut(pass, step.call)
		if !drawn || !called {
			t.Errorf("%s: drawn %t, and called as %s %t, after the verb before it", step.verb, drawn, step.call, called)
		}
	}
}

// The chain of the runner is drawn as its code reads, with files that are there.
func TestTheChainIsDrawnAsItIs(t *testing.T) {
	page, code := read(t, "docs/maintainers/call.md"), read(t, "cmd/runner/internal/proxy/target.go")
	stages := []string{"metadata", "count"}
	for _, list := range []string{"calls :=", "return"} {
		chain := regexp.MustCompile(list + ` pipeline\.Stages\{(.*)\}\n`).FindStringSubmatch(code)
		if chain == nil {
			t.Fatalf("there is no list of stages after %s", list)
		}
		for name := range strings.SplitSeq(chain[1], ", ") {
			name, _, _ = strings.Cut(name, "(")
			stages = append(stages, strings.ToLower(name[strings.LastIndex(name, ".")+1:]))
		}
	}
	var drawn []string
	for _, stage := range regexp.MustCompile(`(?m)^ +\d+ +(\w+)`).FindAllStringSubmatch(block(t, page, "The chain"), -1) {
		drawn = append(drawn, strings.ToLower(stage[1]))
	}
	if stages = append(stages, "forward"); !slices.Equal(drawn, stages) {
		t.Errorf("the page draws %v, and the code has %v", drawn, stages)
	}
	there := map[string]bool{}
	for _, name := range files(t) {
		there[path.Base(name)] = there[path.Base(name)] || strings.HasPrefix(name, "cmd/runner/")
	}
	for _, name := range regexp.MustCompile(`\w+\.go\b`).FindAllString(page, -1) {
		if !there[name] {
			t.Errorf("the page names %s, which the runner does not have", name)
		}
	}
}

// P2 names the packages that hack/lint lets write.
func TestThePageNamesWhoMayWrite(t *testing.T) {
	_, principle, found := strings.Cut(read(t, "docs/architecture.md"), "\n- **P2** Only ")
	principle, _, ends := strings.Cut(principle, " writes")
	if !found || !ends {
		t.Fatal("docs/architecture.md has no P2 that says who writes")
	}
	var named []string
	for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(principle, -1) {
		named = append(named, name[1])
	}
	if may := rules.Writers(); !slices.Equal(named, may) {
		t.Errorf("P2 in docs/architecture.md lets %v write, and hack/lint %v", named, may)
	}
}

// Guides quote code that compiles and is tested.
func TestGuidesQuoteCodeThatIsTested(t *testing.T) {
	for page, folder := range map[string]string{
		"docs/library.md":                     "test/library/operator/",
		"docs/how-to/test-your-controller.md": "test/example/",
	} {
		var code strings.Builder
		for _, name := range files(t) {
			if strings.HasPrefix(name, folder) && path.Ext(name) == ".go" {
				code.WriteString(read(t, name))
			}
		}
		quotes := regexp.MustCompile("(?s)\n```go\n(.*?)```\n").FindAllStringSubmatch(read(t, page), -1)
		if len(quotes) == 0 {
			t.Errorf("%s shows no code", page)
		}
		for _, quote := range quotes {
			if !strings.Contains(code.String(), quote[1]) {
				t.Errorf("%s shows code that is not in %s: copy it from there\n%s", page, folder, quote[1])
			}
		}
	}
}

// hurried finds commands of a page that give up after kubectl wait's 30 seconds, in which few nodes pull an image.
func hurried(name, page string) []string {
	var findings []string
	for _, command := range regexp.MustCompile(`kubectl wait --for[^\n`+"`"+`]*`).FindAllString(page, -1) {
		if !strings.Contains(command, "--timeout=") {
			findings = append(findings, name+": `"+command+"` gives up after 30 seconds: add --timeout=")
		}
	}
	return findings
}

func TestEveryWaitSaysHowLong(t *testing.T) {
	for _, name := range files(t) {
		if path.Ext(name) == ".md" {
			report(t, hurried(name, read(t, name)))
		}
	}
	expect(t, hurried("docs/a.md",
		"`kubectl wait --for=condition=Ready --timeout=3m mcp/a`\n$ kubectl wait --for=delete --timeout=1m mcp/a\n"))
	expect(t, hurried("docs/a.md", "$ kubectl wait --for=condition=Ready mcp/a\n"), "gives up after 30 seconds")
}

// The page about owners draws managers by their short names.
func TestTheManagersThatAreDrawnAreTheContracts(t *testing.T) {
	drawn := map[string]bool{}
	for _, name := range regexp.MustCompile(`([a-z]+)…/([a-z]+)`).
		FindAllStringSubmatch(block(t, read(t, "docs/concepts/ownership.md"), "Each field manager"), -1) {
		drawn[name[1]+".freehold.dev/"+name[2]] = true
	}
	for _, g := range contract.Freehold().Grants {
		if !drawn[string(g.Manager)] {
			t.Errorf("the picture of docs/concepts/ownership.md leaves out %s", g.Manager)
		}
	}
	for name := range drawn {
		if len(contract.Freehold().Of(ownership.Manager(name))) == 0 {
			t.Errorf("the picture of docs/concepts/ownership.md has %s, which the contract does not know", name)
		}
	}
}

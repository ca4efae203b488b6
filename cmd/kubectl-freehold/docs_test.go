package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/test/golden"
)

// The lines around what docs/kubectl-freehold.md has from here.
const (
	page        = "../../docs/kubectl-freehold.md"
	beginOfPart = "<!-- generated from cmd/kubectl-freehold -->\n"
	endOfPart   = "<!-- end of what is generated -->\n"
)

func TestThePageHasTheCommandsAsTheyAre(t *testing.T) {
	golden.Part(t, page, beginOfPart, endOfPart, manual(sit("").root()))
}

// manual is what --help says of the commands below one, without the flags that are kubectl's.
func manual(parent *cobra.Command) string {
	var text strings.Builder
	for _, cmd := range parent.Commands() {
		if !cmd.Runnable() || !cmd.IsAvailableCommand() || cmd.Name() == "completion" {
			continue
		}
		if cmd.HasSubCommands() {
			text.WriteString(manual(cmd))
			continue
		}
		fmt.Fprintf(&text, "### %s\n\n```\n%s\n```\n\n%s\n\n", strings.TrimPrefix(cmd.CommandPath(), "kubectl freehold "),
			cmd.UseLine(), prose(cmd.Long))
		fmt.Fprintf(&text, "```\n%s```\n\n```\n%s\n```\n\n", cmd.LocalNonPersistentFlags().FlagUsages(),
			indented(cmd.Example))
	}
	return text.String()
}

// prose lets a list in a help text stay one.
func prose(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			line = "  " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}

func indented(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimPrefix(line, "  "))
	}
	return strings.Join(lines, "")
}

// A command without an example, or with one that names another flag, helps nobody.
func TestEveryCommandHasExamplesThatItTakes(t *testing.T) {
	commands := 0
	var check func(parent *cobra.Command)
	check = func(parent *cobra.Command) {
		for _, cmd := range parent.Commands() {
			check(cmd)
			if cmd.HasSubCommands() || !cmd.IsAvailableCommand() || cmd.Parent().Name() == "completion" || cmd.Name() == "help" {
				continue
			}
			commands++
			examples := 0
			for line := range strings.Lines(cmd.Example) {
				_, rest, ours := strings.Cut(strings.TrimSpace(line), "kubectl freehold ")
				if !ours {
					continue
				}
				examples++
				found, err := taker(rest)
				if err == nil {
					err = found.ValidateArgs(found.Flags().Args())
				}
				if err != nil || found.Name() != cmd.Name() {
					t.Errorf("%s: its example %q is not taken: %v", cmd.Name(), strings.TrimSpace(line), err)
				}
			}
			if examples == 0 || cmd.Long == "" {
				t.Errorf("%s has %d examples, and says %q", cmd.Name(), examples, cmd.Long)
			}
		}
	}
	check(sit("").root())
	if commands < 3 {
		t.Errorf("%d commands were checked", commands)
	}
}

// taker is the command that takes what follows kubectl freehold on a line.
func taker(rest string) (*cobra.Command, error) {
	if end := strings.IndexAny(rest, "|>#`"); end >= 0 {
		rest = rest[:end]
	}
	found, args, err := sit("").root().Find(strings.Fields(strings.ReplaceAll(rest, "'", "")))
	if err == nil {
		err = found.ParseFlags(args)
	}
	if err == nil && len(args) > 0 { // a sentence names the command alone
		err = found.ValidateArgs(found.Flags().Args())
	}
	return found, err
}

// A page that tells of a command that there is not, or of a flag that it does not have, leaves its reader stuck.
func TestThePagesShowCommandsThatThereAre(t *testing.T) {
	shown := regexp.MustCompile("(?:`|^(?:\\$ )?)kubectl freehold ([a-z][^`]*)")
	commands := 0
	for _, pattern := range []string{
		"../../README.md", "../../docs/*.md", "../../docs/*/*.md",
		"../../config/chart/README.md",
	} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if strings.ContainsAny(line, "[…") && !strings.Contains(line, "`kubectl") {
					continue // the form of a command
				}
				for _, match := range shown.FindAllStringSubmatch(strings.TrimSpace(line), -1) {
					commands++
					if _, err := taker(match[1]); err != nil {
						t.Errorf("%s: kubectl freehold %s: %v", page, match[1], err)
					}
				}
			}
		}
	}
	if commands < 30 {
		t.Errorf("%d commands were checked", commands)
	}
}

// manifest is what krew reads (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/).
type manifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string `json:"uri"`
	SHA256 string `json:"sha256"`
	Bin    string `json:"bin"`
}

func TestTheManifestIsWhatKrewTakes(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../config/krew/freehold.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m := manifest{}
	if err := yaml.UnmarshalStrict(text, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" ||
		m.Metadata.Name != "freehold" ||
		m.Spec.Version != "VERSION" || m.Spec.Description == "" {
		t.Errorf("the manifest says %+v", m)
	}
	if short := sit("").root().Short; m.Spec.ShortDescription != short || len(short) > 50 {
		t.Errorf("the manifest's shortDescription is %q, --help says %q; krew takes up to 50 characters",
			m.Spec.ShortDescription, short)
	}
	here := false
	for _, p := range m.Spec.Platforms {
		goos, arch := p.Selector.MatchLabels["os"], p.Selector.MatchLabels["arch"]
		here = here || goos == runtime.GOOS && arch == runtime.GOARCH
		bin := "kubectl-freehold"
		if goos == "windows" {
			bin += ".exe"
		}
		want := platform{
			Selector: p.Selector, Bin: bin, SHA256: "SHA256_" + strings.ToUpper(goos+"_"+arch),
			URI: "URL/kubectl-freehold_" + goos + "_" + arch + ".tar.gz",
		}
		if fmt.Sprint(p) != fmt.Sprint(want) {
			t.Errorf("%s/%s:\n%v, want\n%v", goos, arch, p, want)
		}
	}
	if !here {
		t.Errorf("there is nothing for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
}

package plugin

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/test/kit"
)

// block is a part of a page in a fence: YAML, which the reader writes into a
// file with the name of its object, or commands after $ with what the last of
// them prints. Another block is for other programs.
var block = regexp.MustCompile("(?ms)^```(yaml)?\n(.*?)^```$")

// named is the name of an object.
var named = regexp.MustCompile(`(?m)^metadata: \{name: (\S+)\}|^metadata:\n  name: (\S+)$`)

// elsewhere are commands that need a program in a pod, and none runs here.
var elsewhere = regexp.MustCompile(`^kubectl (logs|port-forward) `)

// The tutorial is done line by line, by kubectl and the plugin, with Freehold's
// operator and runners. Where the page shows an error, the command prints it.
func TestTheTutorialIsTrue(t *testing.T) {
	s := &shell{story: tell(t), dir: t.TempDir()}
	s.Operate()
	s.RunProxies()
	plane.Kubelet.Image("registry.example.com/no/such:1", kit.ImagePullBackOff("not found"))
	sample, err := os.ReadFile("../../config/samples/everything.yaml")
	s.Must(err, "reading the sample of the quick start")
	s.Apply("kubectl", string(sample))
	s.runs(t, "kubectl wait --for=condition=Ready --timeout=3m mcp/everything", "")

	if commands := s.follows(t, "../../docs/tutorial.md"); commands < 15 {
		t.Errorf("only %d commands were run", commands)
	}
}

// What each start page writes is applied and becomes ready, and has a URL to call.
func TestTheStartPagesAreTrue(t *testing.T) {
	s := &shell{story: tell(t), dir: t.TempDir()}
	s.Operate()
	s.RunProxies()
	for page, object := range map[string]string{
		"image": "hello", "npm": "memory", "python": "dice", "saas": "mcprp/tracker",
	} {
		if commands := s.follows(t, "../../docs/start/"+page+".md"); commands < 3 {
			t.Errorf("%s: only %d commands were run", page, commands)
		}
		for _, client := range []string{"claude-code", "inspector"} {
			s.runs(t, "kubectl freehold connect "+object+" --client "+client, "")
		}
	}
}

// follows does what a page says, and returns how many commands it has run.
func (s *shell) follows(t *testing.T, file string) (commands int) {
	t.Helper()
	page, err := os.ReadFile(file) //nolint:gosec // a page of ours
	s.Must(err, "reading a page")
	for _, part := range block.FindAllStringSubmatch(string(page), -1) {
		if part[1] == "yaml" {
			name := named.FindStringSubmatch(part[2])
			s.Must(os.WriteFile(filepath.Join(s.dir, name[1]+name[2]+".yaml"), []byte(part[2]), 0o600), "writing a manifest")
			continue
		}
		if !strings.HasPrefix(part[2], "$ ") {
			continue
		}
		for after := range strings.SplitSeq(strings.TrimPrefix(part[2], "$ "), "\n$ ") {
			command, shown, _ := strings.Cut(after, "\n")
			if !elsewhere.MatchString(command) {
				s.runs(t, command, strings.TrimSpace(shown))
				commands++
			}
		}
	}
	return commands
}

// shell is a terminal in a folder, beside a story.
type shell struct {
	*story
	dir string
}

// runs runs a command of a page. It fails where the page shows an error, with that error, and succeeds elsewhere.
func (s *shell) runs(t *testing.T, command, shown string) {
	t.Helper()
	var out bytes.Buffer
	run := exec.CommandContext(s.Ctx, "bash", "-o", "pipefail", "-c", command)
	run.Dir, run.Stdout, run.Stderr = s.dir, &out, &out
	programs := []string{filepath.Dir(binary), os.Getenv("KUBEBUILDER_ASSETS"), os.Getenv("PATH")}
	run.Env = []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + s.TempDir(), "PATH=" + strings.Join(programs, ":")}
	err := run.Run()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		t.Fatalf("%s: %v", command, err)
	case (err != nil) != (shown != ""):
		t.Fatalf("$ %s\n%v, and the page shows %q:\n%s", command, err, shown, out.String())
	case shown != "" && !strings.Contains(out.String(), shown):
		t.Errorf("$ %s\nprints\n%s\nand the page shows\n%s", command, out.String(), shown)
	}
}

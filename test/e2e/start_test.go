package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

var (
	// pageYAML is what a start page has its reader write into a file, and pageName how that is called.
	pageYAML = regexp.MustCompile("(?s)```yaml\n(.*?)```")
	pageName = regexp.MustCompile("Write the file `([^`]*)`")
	// pageCommand is a command that a page shows.
	pageCommand = regexp.MustCompile(`(?m)^\$ (.*)$`)
	// pageForward is the command that carries calls to the server.
	pageForward = regexp.MustCompile(`(?m)^kubectl freehold (connect .*) --client claude-code --forward`)
)

// The images are those that hack/images/start.sh makes, as the pages say. That of docs/start/python.md needs PyPI.
var _ = DescribeTable("A start page is followed with its image, to a tool that answers", Label("start"),
	func(ctx SpecContext, page, tool, answers string) {
		text, err := os.ReadFile("docs/start/" + page + ".md")
		Expect(err).NotTo(HaveOccurred())
		s := newStory("start")
		dir := GinkgoT().TempDir()
		name := pageName.FindSubmatch(text)
		Expect(name).NotTo(BeNil())
		Expect(os.WriteFile(filepath.Join(dir, string(name[1])), pageYAML.FindSubmatch(text)[1], 0o600)).To(Succeed())

		plugin, err := filepath.Abs("bin")
		Expect(err).NotTo(HaveOccurred())
		config, err := os.ReadFile(os.Getenv("KUBECONFIG"))
		Expect(err).NotTo(HaveOccurred())
		Expect(os.WriteFile(filepath.Join(dir, "kubeconfig"), config, 0o600)).To(Succeed())
		shell := func(ctx context.Context, command string) *exec.Cmd {
			run := exec.CommandContext(ctx, "bash", "-c", command)
			run.Dir = dir
			run.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"), "PATH="+plugin+":"+os.Getenv("PATH"))
			return run
		}
		said, err := shell(ctx, "kubectl config set-context --current --namespace "+s.namespace).CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(said))
		for _, command := range pageCommand.FindAllSubmatch(text, -1) {
			said, err := shell(ctx, string(command[1])).CombinedOutput()
			Expect(err).NotTo(HaveOccurred(), "$ %s\n%s", command[1], said)
		}

		found := pageForward.FindSubmatch(text)
		Expect(found).NotTo(BeNil())
		running, stop := context.WithCancel(ctx)
		forward := shell(running, "exec kubectl-freehold "+string(found[1])+" --client json --forward")
		printed, err := forward.StdoutPipe()
		Expect(err).NotTo(HaveOccurred())
		Expect(forward.Start()).To(Succeed())
		DeferCleanup(func() {
			stop()
			_ = forward.Wait() // it was ended
		})
		var endpoint struct {
			URL string `json:"url"`
		}
		Expect(json.NewDecoder(printed).Decode(&endpoint)).To(Succeed())
		Eventually(ctx, func(g Gomega) {
			session, err := mcp.NewClient(&mcp.Implementation{Name: "reader"}, nil).Connect(ctx,
				&mcp.StreamableClientTransport{Endpoint: endpoint.URL, DisableStandaloneSSE: true}, nil)
			g.Expect(err).NotTo(HaveOccurred())
			defer session.Close()
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{}})
			g.Expect(err).NotTo(HaveOccurred())
			data, err := json.Marshal(result)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.IsError).To(BeFalse(), string(data))
			g.Expect(strings.ReplaceAll(string(data), `\`, "")).To(ContainSubstring(answers))
		}).Should(Succeed())
	},
	Entry("an image that speaks HTTP", "image", "greet", "hello"),
	Entry("an npm package", "npm", "read_graph", `"entities"`),
)

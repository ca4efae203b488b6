package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/freehold-dev/freehold/test/conformance"
)

const inspector = "clients/launcher/build/index.js"

// nodeImage holds servers of npm: hack/images/node.sh.
var nodeImage = "freehold.dev/node:" + version()

// other is an MCP server of others, which is looked at directly and through Freehold.
type other struct {
	name string
	// spec is of the MCPServer.
	spec string
	// program, args and env run it directly, in the folder of its image's files. One with a port serves HTTP there, in place of PORT;
	// the others speak stdio.
	program string
	args    []string
	env     map[string]string
	stdio   bool
	plan    conformance.Plan
	// proof is in what a client sees that has seen anything.
	proof string
}

func everythingServer(name, stateless string) other {
	return other{
		name: name, spec: overHTTP("")(stateless), program: "../everything-server", args: []string{"-http", "127.0.0.1:PORT", stateless},
		proof: "This is a simple text response",
		plan: conformance.Plan{
			Tools: []conformance.Named{
				{Name: "test_simple_text"},
				{Name: "test_image_content"},
				{Name: "test_multiple_content_types"},
				{Name: "test_embedded_resource"},
				{Name: "test_error_handling"},
				{Name: "absent"},
				{Name: "json_schema_2020_12_tool", Arguments: map[string]any{"name": "Ada", "email": "ada@example.com"}},
			},
			Prompts:   []conformance.Named{{Name: "test_simple_prompt"}, {Name: "test_prompt_with_arguments", Arguments: map[string]any{"arg1": "a", "arg2": "b"}}},
			Resources: []string{"test://static-text", "test://static-binary", "test://absent"},
		},
	}
}

const packages = "node_modules/@modelcontextprotocol/"

// ofNode is the spec of a server of npm.
func ofNode(more string) string {
	return fmt.Sprintf(`{image: %q, podTemplate: {spec: {securityContext: {runAsUser: 65532}}}, %s}`, nodeImage, more)
}

// others are the servers. Another one is a row.
var others = []other{
	everythingServer("the Go SDK's everything-server, both eras", "-stateless=true"),
	everythingServer("the Go SDK's everything-server, legacy", "-stateless=false"),
	{
		name: "npm server-everything over HTTP", proof: "Echo: hi",
		spec:    ofNode(`command: [/node, /` + packages + `server-everything/dist/index.js, streamableHttp], env: [{name: PORT, value: "8080"}]`),
		program: "node", args: []string{packages + "server-everything/dist/index.js", "streamableHttp"}, env: map[string]string{"PORT": "PORT"},
		plan: conformance.Plan{
			Tools: []conformance.Named{
				{Name: "echo", Arguments: map[string]any{"message": "hi"}},
				{Name: "get-sum", Arguments: map[string]any{"a": 1, "b": 2}},
				{Name: "get-tiny-image"},
				{Name: "get-structured-content", Arguments: map[string]any{"location": "New York"}},
				{Name: "absent"},
			},
			Prompts:   []conformance.Named{{Name: "simple-prompt"}, {Name: "args-prompt", Arguments: map[string]any{"city": "Paris"}}},
			Resources: []string{"demo://resource/dynamic/text/1", "demo://absent"},
		},
	},
	{
		name: "kubernetes-mcp-server", proof: "https://127.0.0.1:1",
		spec: ofNode(`command: [/kubernetes-mcp-server, --port, "8080", --kubeconfig, /data/kubeconfig.yaml, --cluster-provider, kubeconfig],
			env: [{name: HOME, value: /tmp}]`),
		program: "kubernetes-mcp-server", args: []string{"--port", "PORT", "--kubeconfig", "data/kubeconfig.yaml", "--cluster-provider", "kubeconfig"},
		env:  map[string]string{"HOME": "/tmp"},
		plan: conformance.Plan{Tools: []conformance.Named{{Name: "configuration_view"}, {Name: "pods_list"}, {Name: "absent"}}},
	},
}

var _ = Describe("Clients of others", Label("conformance"), func() {
	for _, o := range others {
		It("see behind Freehold what they see directly: "+o.name, func(ctx SpecContext) {
			s := newStory("other")
			s.apply(ctx, o.spec)
			url := s.ready(ctx).Status.URL
			Eventually(ctx, func() (string, error) { return call(ctx, url) }).ShouldNot(BeEmpty())
			direct := o.directly(ctx)
			folder := filepath.Join("bin", "conformance", "results", "matrix", strings.ReplaceAll(o.name, " ", "-"))
			Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
			for name, look := range lookers {
				By("the client is " + name)
				before := o.seen(ctx, look[0], direct)
				after := o.seen(ctx, look[1], conformance.Target{URL: url})
				for run, text := range map[string]string{"direct": before, "through": after} {
					Expect(os.WriteFile(filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+"-"+run+".json"), []byte(text+"\n"), 0o600)).To(Succeed())
				}
				Expect(before).To(ContainSubstring(o.proof), "%s sees nothing of the server itself", name)
				if diff := cmp.Diff(before, after); diff != "" {
					AddReportEntry(name+" sees another server", diff)
					Fail(fmt.Sprintf("%s sees another server behind Freehold:\n%s", name, diff))
				}
			}
		}, SpecTimeout(8*time.Minute))
	}
})

// seen is what a client sees, without what differs each time.
func (o other) seen(ctx context.Context, look looker, at conformance.Target) string {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	data, err := look(ctx, at, o.plan)
	Expect(err).NotTo(HaveOccurred())
	text, err := conformance.Normal(data)
	Expect(err).NotTo(HaveOccurred())
	return text
}

// directly is the server without Freehold, until the test ends.
func (o other) directly(ctx context.Context) conformance.Target {
	GinkgoHelper()
	folder, err := filepath.Abs("bin/images/rootfs/node")
	Expect(err).NotTo(HaveOccurred())
	program := filepath.Join(folder, o.program)
	if o.stdio {
		return conformance.Target{Command: append([]string{program}, o.args...), Env: o.env}
	}
	address := freeAddress(ctx)
	port := address[strings.LastIndex(address, ":")+1:]
	args, env := []string{}, []string{"PATH=" + os.Getenv("PATH")}
	for _, arg := range o.args {
		args = append(args, strings.Replace(arg, "PORT", port, 1))
	}
	for name, value := range o.env {
		env = append(env, name+"="+strings.Replace(value, "PORT", port, 1))
	}
	command := exec.Command(program, args...)
	command.Dir, command.Env, command.Stderr = folder, env, GinkgoWriter
	run(command)
	endpoint := "http://" + address + "/mcp"
	Eventually(ctx, func() (string, error) { return call(ctx, endpoint) }).ShouldNot(BeEmpty())
	return conformance.Target{URL: endpoint}
}

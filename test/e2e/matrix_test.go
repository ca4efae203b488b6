package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/conformance"
)

const inspector = "clients/launcher/build/index.js"

// other is an MCP server of others, which is looked at directly and through Freehold.
type other struct {
	name string
	// image is the MCPServer's, and root the folder of its files, where the same command runs directly.
	image, root string
	transport   v1alpha1.Transport
	// command listens at PORT, which stands for a number; one of transport stdio does not.
	command []string
	env     map[string]string
	plan    conformance.Plan
	// proof is in what a client sees that has seen anything.
	proof string
}

const rootfs = "bin/images/rootfs"

// ofGo is the everything-server of the Go SDK, in an image of one program.
func ofGo(name string, transport v1alpha1.Transport, image string, args ...string) other {
	return other{
		name: name, transport: transport, image: "freehold.dev/" + image + ":" + version(), root: rootfs,
		command: append([]string{"/" + image}, args...),
		proof:   "This is a simple text response",
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
			Prompts: []conformance.Named{
				{Name: "test_simple_prompt"},
				{Name: "test_prompt_with_arguments", Arguments: map[string]any{"arg1": "a", "arg2": "b"}},
			},
			Resources: []string{"test://static-text", "test://static-binary", "test://absent"},
		},
	}
}

// ofNode is a server in the image of hack/images/node.sh.
func ofNode(name string, transport v1alpha1.Transport, proof string, plan conformance.Plan, command ...string) other {
	return other{
		name: name, transport: transport, image: "freehold.dev/node:" + version(), root: rootfs + "/node", command: command,
		env: map[string]string{"PORT": "PORT", "HOME": "/tmp", "MEMORY_FILE_PATH": "/tmp/memory.json"}, proof: proof,
		plan: plan,
	}
}

// npmServer is the program of a server of npm.
func npmServer(name string) string {
	return "/node_modules/@modelcontextprotocol/" + name + "/dist/index.js"
}

func ofNpmEverything(name string, transport v1alpha1.Transport, as string) other {
	return ofNode(name, transport, "Echo: hi", conformance.Plan{
		Tools: []conformance.Named{
			{Name: "echo", Arguments: map[string]any{"message": "hi"}},
			{Name: "get-sum", Arguments: map[string]any{"a": 1, "b": 2}},
			{Name: "get-tiny-image"},
			{Name: "get-structured-content", Arguments: map[string]any{"location": "New York"}},
			{Name: "absent"},
		},
		Prompts: []conformance.Named{
			{Name: "simple-prompt"},
			{Name: "args-prompt", Arguments: map[string]any{"city": "Paris"}},
		},
		Resources: []string{"demo://resource/dynamic/text/1", "demo://absent"},
	}, "/node", npmServer("server-everything"), as)
}

func ofKubernetes(name string, transport v1alpha1.Transport, args ...string) other {
	return ofNode(
		name, transport, "https://127.0.0.1:1",
		conformance.Plan{Tools: []conformance.Named{{Name: "configuration_view"}, {Name: "pods_list"}, {Name: "absent"}}},
		append([]string{
			"/kubernetes-mcp-server", "--kubeconfig", "/data/kubeconfig.yaml", "--cluster-provider",
			"kubeconfig",
		}, args...)...,
	)
}

const (
	overStreamable = v1alpha1.TransportStreamableHTTP
	overSSE        = v1alpha1.TransportSSE
	overStdio      = v1alpha1.TransportStdio
)

// others are the servers. Another one is a row.
var others = []other{
	ofGo("the Go SDK's everything-server, both eras", overStreamable, "everything-server", "-http", ":PORT",
		"-stateless=true"),
	ofGo("the Go SDK's everything-server, legacy", overStreamable, "everything-server", "-http", ":PORT",
		"-stateless=false"),
	ofGo("the Go SDK's everything-server over stdio", overStdio, "everything-server"),
	ofGo("the Go SDK's everything-server over SSE", overSSE, "everything-sse", "-http", ":PORT"),
	ofNpmEverything("npm server-everything over HTTP", overStreamable, "streamableHttp"),
	ofNpmEverything("npm server-everything over stdio", overStdio, "stdio"),
	ofNpmEverything("npm server-everything over SSE", overSSE, "sse"),
	ofNode("npm server-filesystem over stdio", overStdio, "a file", conformance.Plan{Tools: []conformance.Named{
		{Name: "list_allowed_directories"},
		{Name: "list_directory", Arguments: map[string]any{"path": "/data"}},
		{Name: "directory_tree", Arguments: map[string]any{"path": "/data"}},
		{Name: "read_text_file", Arguments: map[string]any{"path": "/data/hello.txt"}},
		{Name: "read_multiple_files", Arguments: map[string]any{"paths": []string{"/data/hello.txt", "/data/absent"}}},
		{Name: "search_files", Arguments: map[string]any{"path": "/data", "pattern": "*.txt"}},
		{Name: "read_text_file", Arguments: map[string]any{"path": "/node"}},
		{Name: "absent"},
	}}, "/node", npmServer("server-filesystem"), "/data"),
	ofNode("npm server-memory over stdio", overStdio, "wrote the first program", conformance.Plan{
		Tools: []conformance.Named{
			{Name: "create_entities", Arguments: map[string]any{"entities": []any{
				map[string]any{"name": "Ada", "entityType": "person", "observations": []string{"wrote the first program"}},
				map[string]any{"name": "Engine", "entityType": "machine", "observations": []string{}},
			}}},
			{Name: "create_relations", Arguments: map[string]any{
				"relations": []any{map[string]any{"from": "Ada", "to": "Engine", "relationType": "programs"}},
			}},
			{Name: "search_nodes", Arguments: map[string]any{"query": "program"}},
			{Name: "read_graph"},
			{Name: "absent"},
			{Name: "delete_entities", Arguments: map[string]any{"entityNames": []string{"Ada", "Engine"}}},
		},
		Resources: []string{"memory://knowledge-graph", "memory://absent"},
	}, "/node", npmServer("server-memory")),
	ofKubernetes("kubernetes-mcp-server", overStreamable, "--port", "PORT"),
	ofKubernetes("kubernetes-mcp-server over stdio", overStdio),
}

var _ = Describe("Clients of others", Label("conformance"), func() {
	for _, o := range others {
		It("see behind Freehold what they see directly: "+o.name, func(ctx SpecContext) {
			s := newStory("other")
			s.apply(ctx, o.spec())
			url := s.ready(ctx).Status.URL
			Eventually(ctx, func() (string, error) { return call(ctx, url) }).ShouldNot(BeEmpty())
			direct := o.directly(ctx)
			folder := filepath.Join("bin", "conformance", "results", "matrix", strings.ReplaceAll(o.name, " ", "-"))
			Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
			for name, look := range lookers {
				By("the client is " + name)
				before, after := o.both(ctx, look, direct, url)
				if conformance.Late(cmp.Diff(before, after)) {
					// clients bound what they wait for: no other difference is looked at again
					AddReportEntry(name+" saw a difference, and looked again", cmp.Diff(before, after))
					before, after = o.both(ctx, look, direct, url)
				}
				for run, text := range map[string]string{"direct": before, "through": after} {
					Expect(os.WriteFile(filepath.Join(folder, strings.ReplaceAll(name, " ", "-")+"-"+run+".json"), []byte(text+"\n"),
						0o600)).To(Succeed())
				}
				Expect(before).To(ContainSubstring(o.proof), "%s sees nothing of the server itself", name)
				Expect(cmp.Diff(before, after)).To(BeEmpty(), "%s sees another server behind Freehold", name)
			}
		}, SpecTimeout(8*time.Minute))
	}
})

// both are what a client sees directly and behind Freehold, at a time.
func (o other) both(
	ctx context.Context, look [2]conformance.Look, direct conformance.Target, url string,
) (before, after string) {
	GinkgoHelper()
	var looks sync.WaitGroup
	looks.Go(func() { defer GinkgoRecover(); before = o.seen(ctx, look[0], direct) })
	looks.Go(func() { defer GinkgoRecover(); after = o.seen(ctx, look[1], conformance.Target{URL: url}) })
	looks.Wait()
	return before, after
}

// seen is what a client sees, without what differs each time.
func (o other) seen(ctx context.Context, look conformance.Look, at conformance.Target) string {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	data, err := look(ctx, at, o.plan)
	Expect(err).NotTo(HaveOccurred())
	text, err := conformance.Normal(data)
	Expect(err).NotTo(HaveOccurred())
	return text
}

// at is the command and the environment with a port.
func (o other) at(port string) (command []string, env map[string]string) {
	env = map[string]string{}
	for _, word := range o.command {
		command = append(command, strings.ReplaceAll(word, "PORT", port))
	}
	for name, value := range o.env {
		env[name] = strings.ReplaceAll(value, "PORT", port)
	}
	return command, env
}

// spec is of the MCPServer.
func (o other) spec() string {
	GinkgoHelper()
	command, env := o.at("8080")
	spec := map[string]any{
		"image": o.image, "transport": o.transport, "command": command,
		"volumes":      []any{map[string]any{"name": "tmp", "emptyDir": map[string]any{}}},
		"volumeMounts": []any{map[string]any{"name": "tmp", "mountPath": "/tmp"}},
		"podTemplate":  map[string]any{"spec": map[string]any{"securityContext": map[string]any{"runAsUser": 65532}}},
	}
	if o.transport == overSSE {
		spec["path"] = eventsPath
	}
	variables := []any{}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		variables = append(variables, map[string]any{"name": name, "value": env[name]})
	}
	spec["env"] = variables
	text, err := json.Marshal(spec)
	Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// eventsPath is where servers of the transport HTTP+SSE have their stream.
const eventsPath = "/sse"

// directly is the same command on the files of the image, without Freehold, until the test ends. One of transport stdio
// is started by each client itself.
func (o other) directly(ctx context.Context) conformance.Target {
	GinkgoHelper()
	root, err := filepath.Abs(o.root)
	Expect(err).NotTo(HaveOccurred())
	address := freeAddress(ctx)
	command, env := o.at(address[strings.LastIndex(address, ":")+1:])
	command = append([]string{"chroot", root}, command...)
	if o.transport == overStdio {
		return conformance.Target{Command: command, Env: env}
	}
	program := exec.Command(command[0], command[1:]...)
	program.Env, program.Stderr = append(program.Environ(), conformance.Environ(env)...), GinkgoWriter
	run(program)
	if o.transport == overSSE {
		at := conformance.Target{Events: "http://" + address + eventsPath}
		Eventually(ctx, func() error {
			connection, err := net.Dial("tcp", address)
			if err != nil {
				return err
			}
			return connection.Close()
		}).Should(Succeed())
		return at
	}
	endpoint := "http://" + address + "/mcp"
	Eventually(ctx, func() (string, error) { return call(ctx, endpoint) }).ShouldNot(BeEmpty())
	return conformance.Target{URL: endpoint}
}

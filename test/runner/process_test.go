package runner

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// server is an MCPServer whose operator is the test.
type server struct {
	*kit.Env
	object v1alpha1.MCPServer
	wire   *wire
	// backend is where its runners find the MCP server.
	backend string
}

// newServer makes an MCPServer, the role of its runner, and an MCP server with
// two tools in place of the pods that do not run.
func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		Env:  kit.NewEnv(t, plane),
		wire: newWire(t, strings.Trim(strings.TrimPrefix(plane.Config.Host, "https://"), "/")),
	}
	s.Apply("user", kit.Server("echo", "echo:1", ""))
	s.object.Name = "echo"
	s.Read(&s.object)
	owner := workload.OwnerOf(&s.object)
	for _, ac := range []runtime.ApplyConfiguration{
		workload.ServiceAccount(owner), workload.Role(owner), workload.RoleBinding(owner),
	} {
		s.Must(s.Client.Apply(s.Ctx, ac, client.FieldOwner("operator")), "applying what the runner may do")
	}
	served := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1.2.3"}, nil)
	for _, tool := range []string{"one", "two"} {
		mcp.AddTool(served, &mcp.Tool{Name: tool},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "called"}}}, nil, nil
			})
	}
	backend := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return served },
		&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true}))
	t.Cleanup(backend.Close)
	s.backend = backend.URL
	return s
}

// claim is the content of a workload generation, once the operator has claimed
// a number for it.
func (s *server) claim(generation int64, image string) runconfig.RunConfig {
	s.Helper()
	s.object.Spec.Image = image
	rendered := workload.Render(workload.Input{Object: &s.object}, podtemplate.Release{RunnerImage: "runner:1"})
	if len(rendered.Problems) > 0 {
		s.Fatal(rendered.Problems)
	}
	s.AsController().ApplyStatus(string(contract.MCPServerWorkload), fmt.Sprintf(
		"apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: echo}\nstatus: {workload: {generation: %d, "+
			"hash: %s}}\n", generation, rendered.Hash))
	return rendered.Claimed(generation)
}

// process is a runner that runs.
type process struct {
	*server
	command *exec.Cmd
	calls   string

	mu  sync.Mutex
	log bytes.Buffer
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// start starts a runner with the rights of its ServiceAccount.
func (s *server) start(run runconfig.RunConfig) *process {
	s.Helper()
	data, err := run.Encode()
	s.Must(err, "encoding the run config")
	dir := s.TempDir()
	file := filepath.Join(dir, runconfig.FileName)
	s.Must(os.WriteFile(file, data, 0o600), "writing the run config")
	p := &process{server: s, calls: s.free()}
	p.command = exec.Command(binary, "--config", file, "--address", p.calls, "--probe-address", s.free(), "--backend",
		s.backend)
	p.command.Env = []string{
		"KUBECONFIG=" + s.kubeconfig(dir), "PATH=" + os.Getenv("PATH"),
		runconfig.EnvGeneration + "=" + strconv.FormatInt(run.Workload.Generation, 10),
		runconfig.EnvHash + "=" + run.Workload.Hash,
	}
	p.command.Stderr = p
	s.Must(p.command.Start(), "starting a runner")
	s.Cleanup(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
		if s.Failed() {
			s.Logf("the runner of generation %d said:\n%s", run.Workload.Generation, p.said())
		}
	})
	return p
}

func (s *server) free() string {
	s.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	s.Must(err, "finding a port")
	defer listener.Close()
	return listener.Addr().String()
}

// kubeconfig is the administrator's, impersonating the runner, over the wire.
func (s *server) kubeconfig(dir string) string {
	s.Helper()
	config := plane.AsServiceAccount(s.Namespace, workload.RunnerName("echo"))
	config.Host = "https://" + s.wire.address()
	path := filepath.Join(dir, "kubeconfig")
	s.Must(kit.WriteKubeconfig(path, config, s.Namespace), "preparing a runner")
	return path
}

// saw waits until the runner has logged a text.
func (p *process) saw(text string) {
	p.Helper()
	for end := time.Now().Add(kit.Patience); !strings.Contains(p.said(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			p.Fatalf("the runner did not say %q", text)
		}
	}
}

// restful is what a runner takes at most of the machine's memory once its start is over, beside its program: 12 to 13.5
// MiB, and 14.3 to 15 where what the start took is not given back.
const restful = detector * 14 << 10 // kilobytes

// rests waits until the runner takes no more than that.
func (p *process) rests() {
	p.Helper()
	for end := time.Now().Add(kit.Patience); ; time.Sleep(200 * time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
		p.Must(err, "reading what a runner takes")
		_, rest, _ := strings.Cut(string(status), "RssAnon:")
		taken, err := strconv.Atoi(strings.Fields(rest)[0])
		p.Must(err, "reading what a runner takes")
		if taken <= restful {
			p.Logf("the runner takes %d kB", taken)
			return
		}
		if time.Now().After(end) {
			p.Fatalf("the runner takes %d kB, and may take %d", taken, restful)
		}
	}
}

// terminate is SIGTERM.
func (p *process) terminate() {
	p.Helper()
	s := p.command.Process.Signal(syscall.SIGTERM)
	p.Must(s, "ending a runner")
}

// calls a tool through the proxy, as a client of the MCP Go SDK.
func (p *process) callsTool() error {
	ctx, cancel := context.WithTimeout(p.Ctx, kit.Patience)
	defer cancel()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(ctx, &mcp.StreamableClientTransport{Endpoint: "http://" + p.calls + "/mcp"}, nil)
	if err != nil {
		return err
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "one", Arguments: struct{}{}})
	if err != nil {
		return err
	}
	if text, ok := result.Content[0].(*mcp.TextContent); !ok || text.Text != "called" {
		return fmt.Errorf("the tool answered %v", result.Content)
	}
	return nil
}

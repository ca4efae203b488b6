// Package plugin runs kubectl-freehold, as it is built, against a real API
// server on which Freehold's own controller and runner have written.
//
// suite_test.go starts the API server, and plugin_test.go has the stories.
package plugin

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/test/kit"
)

var (
	plane  *kit.Plane
	binary string
)

func TestMain(m *testing.M) {
	kit.Main(m, &plane, func(ctx context.Context, dir string) error {
		binary = filepath.Join(dir, "kubectl-freehold")
		return kit.Build(ctx, "./cmd/kubectl-freehold", binary)
	})
}

// story is a namespace with a server that Freehold runs, and a kubeconfig for it. The operator makes a pass only when
// it is told to, so that what others do stands until it was looked at.
type story struct {
	*kit.Env
	kubeconfig string
	reconciler *mcpserver.Reconciler
}

func tell(t *testing.T) *story {
	t.Helper()
	s := &story{Env: kit.NewEnv(t, plane)}
	s.kubeconfig = filepath.Join(s.TempDir(), "kubeconfig")
	s.Must(kit.WriteKubeconfig(s.kubeconfig, plane.Config, s.Namespace), "telling a story")
	s.release("freehold.dev/runner:test")
	return s
}

// release has an operator with this runner make the passes from now on.
func (s *story) release(runner string) {
	s.reconciler = mcpserver.New(snapshot.NewReader(kinds.Servers(), plane.Client, plane.Client),
		controllers.NewApplier(plane.Client, plane.Client),
		events.NewFakeRecorder(1000), podtemplate.Release{RunnerImage: runner})
}

// serve makes a server and makes passes until it runs. It does not wait for a
// change of the server, because a pass may be due to a change of its pods.
func (s *story) serve(name string, more ...string) *kit.Runners {
	s.Helper()
	runners := s.RunProxies()
	s.Apply("git", kit.Server(name, "registry.example.com/echo:1", strings.Join(more, "\n")))
	server := &v1alpha1.MCPServer{}
	server.SetName(name)
	for end := time.Now().Add(s.Patience); ; time.Sleep(50 * time.Millisecond) {
		s.pass(name)
		s.Read(server)
		if r := server.Status.Runtime; r != nil && r.Generation == 1 && ptr.Deref(server.Status.ReadyReplicas, 0) > 0 {
			break
		}
		if time.Now().After(end) {
			s.Fatalf("%s does not run: %+v", name, server.Status)
		}
	}
	s.pass(name)
	return runners
}

// pass is one pass of the operator, again where it lost a race, as its queue does.
func (s *story) pass(name string) {
	s.Helper()
	for end := time.Now().Add(s.Patience); ; time.Sleep(50 * time.Millisecond) {
		_, err := s.reconciler.Reconcile(s.Ctx,
			ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.Namespace, Name: name}})
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("reconciling %s: %v", name, err)
		}
	}
}

// answer is what the plugin said.
type answer struct {
	out, err string
	code     int
}

// asks runs the plugin; in is its standard input.
func (s *story) asks(in string, args ...string) answer {
	s.Helper()
	var out, stderr bytes.Buffer
	command := exec.CommandContext(s.Ctx, binary, args...)
	// Without a home of somebody else: discovery is cached there.
	command.Env = []string{"KUBECONFIG=" + s.kubeconfig, "HOME=" + s.TempDir(), "PATH=" + os.Getenv("PATH")}
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(in), &out, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatalf("running %v: %v", args, err)
	}
	return answer{out: out.String(), err: stderr.String(), code: command.ProcessState.ExitCode()}
}

// says demands an exit code and texts, in what the plugin prints for people.
func (s *story) says(got answer, code int, texts ...string) {
	s.Helper()
	if got.code != code {
		s.Fatalf("the exit code is %d, want %d\n%s%s", got.code, code, got.out, got.err)
	}
	for _, text := range texts {
		if !strings.Contains(got.out+got.err, text) {
			s.Errorf("the plugin does not say %q:\n%s%s", text, got.out, got.err)
		}
	}
}

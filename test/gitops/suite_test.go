// Package gitops holds config/gitops and docs/gitops.md to Flux and to Argo CD: their controllers, as
// hack/gitops/build.sh builds them, read the recipes from a Git server and apply them, beside the operator's program,
// on a control plane with pretended pods (test/kit). Each story applies the recipes as they are shipped; only addresses
// are the test's. make test-gitops runs them.
package gitops

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/test/kit"
)

// patience is how long a story waits for one step of a tool on a busy machine. Flux asks again after 30 seconds, and a
// minute.
const patience = 5 * time.Minute

var (
	plane *kit.Plane
	// root is the repository's, work has what is written, bin the tools.
	root, work, bin string
	// kubeconfig is the administrator's.
	kubeconfig string
	processes  []*process
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	end := sync.OnceValue(endAll)
	err := prepare(ctx)
	code := 1
	if err == nil {
		defer before(end)()
		code = m.Run()
	}
	if err = errors.Join(err, end()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// ending is how long before the end of go test's time all programs are ended.
const ending = 30 * time.Second

// before ends all programs before go test's time is over, which ends this process and nothing that it has started. The
// control plane's are killed: with stories that still watch, an API server takes minutes to end. What it returns takes
// that back.
func before(end func() error) func() bool {
	flag.Parse()
	limit, ok := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration)
	if !ok || limit <= 2*ending {
		return func() bool { return false }
	}
	return time.AfterFunc(limit-ending, func() {
		if !onCluster() {
			_ = errors.Join(plane.APIServer.Kill(), plane.Etcd.Kill())
		}
		_ = end()
	}).Stop
}

// endAll ends every program and removes what they wrote.
func endAll() error {
	for _, p := range processes {
		p.end()
	}
	var err error
	if !onCluster() {
		err = plane.Stop()
	}
	return errors.Join(err, os.RemoveAll(work))
}

func prepare(ctx context.Context) (err error) {
	if root, err = kit.Root(); err != nil {
		return err
	}
	if bin = os.Getenv("GITOPS_BIN"); bin == "" {
		bin = filepath.Join(root, "bin", "gitops")
	}
	if work, err = os.MkdirTemp("", "freehold-gitops-"); err != nil {
		return err
	}
	if onCluster() {
		err = reach()
	} else {
		err = pretend(ctx)
	}
	if err != nil {
		return err
	}
	kubeconfig = filepath.Join(work, "kubeconfig")
	if err := writeKubeconfig(kubeconfig, plane.Config); err != nil {
		return err
	}
	return serveGit(ctx)
}

// onCluster says whether the stories are those of a real cluster, which hack/e2e-gitops.sh brings up.
func onCluster() bool { return os.Getenv("GITOPS_CLUSTER") == "1" }

// reach connects to the cluster of KUBECONFIG.
func reach() error {
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return fmt.Errorf("reading KUBECONFIG: %w", err)
	}
	config.QPS = -1
	scheme := kit.Scheme()
	reader, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	plane = &kit.Plane{Config: config, Client: reader, Scheme: scheme}
	return err
}

// pretend starts a plane, with what the chart installs and the operator's program.
func pretend(ctx context.Context) (err error) {
	if plane, err = kit.Start(ctx); err != nil {
		return err
	}
	if err := plane.Install(ctx); err != nil {
		return err
	}
	operator := filepath.Join(work, "operator")
	if err := kit.Build(ctx, "./cmd/operator", operator); err != nil {
		return err
	}
	config := filepath.Join(work, "operator.kubeconfig")
	if err := writeKubeconfig(config, plane.OperatorConfig()); err != nil {
		return err
	}
	return start(exec.Command(operator, "--runner-image=freehold.dev/runner:test", "--probe-address=0",
		"--identity-namespace="+kit.SystemNamespace),
		"KUBECONFIG="+config)
}

func writeKubeconfig(path string, config *rest.Config) error {
	return clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: "c",
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		Clusters: map[string]*clientcmdapi.Cluster{
			"c": {Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"c": {
			Token: config.BearerToken, ClientCertificate: config.CertFile, ClientCertificateData: config.CertData,
			ClientKey: config.KeyFile, ClientKeyData: config.KeyData,
		}},
	}, path)
}

// newEnv is a story's view of the plane, in a namespace that may exist. What a story does when it ends is waited for
// too.
func newEnv(t *testing.T, namespace string) *kit.Env {
	t.Helper()
	if strings.HasPrefix(t.Name(), "TestCluster") != onCluster() {
		t.Skip("the stories of a real cluster run by make e2e-gitops, the others by make test-gitops")
	}
	s := &kit.Env{TB: t, Plane: plane, Ctx: context.WithoutCancel(t.Context()), Namespace: namespace, Patience: patience}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range processes {
				t.Logf("%s said last:\n%s", filepath.Base(p.command.Path), p.said())
			}
		}
	})
	return s
}

// free is an address of the loopback interface that nothing listens on.
func free() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String(), nil
}

// process is a program that runs beside the stories.
type process struct {
	command *exec.Cmd
	ended   chan struct{}
	log     string
}

// start starts a program that runs until all stories have ended.
func start(command *exec.Cmd, environment ...string) error {
	p := &process{
		command: command, ended: make(chan struct{}),
		log: filepath.Join(work, fmt.Sprintf("%d-%s.log", len(processes), filepath.Base(command.Path))),
	}
	log, err := os.Create(p.log)
	if err != nil {
		return err
	}
	command.Stdout, command.Stderr = log, log
	command.Env = append([]string{
		"PATH=" + bin + ":" + filepath.Join(root, "bin", "tools") + ":" + os.Getenv("PATH"),
		"HOME=" + work, "TMPDIR=" + work,
	}, environment...)
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", command.Path, err)
	}
	go func() {
		_ = command.Wait() // that it ended early is in its log
		_ = log.Close()
		close(p.ended)
	}()
	processes = append(processes, p)
	return nil
}

func (p *process) end() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// said is the end of its log.
func (p *process) said() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-6000):])
}

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/conformance"
)

// running are the processes of one server.
type running struct {
	direct  conformance.Target
	through string // the proxy's endpoint
	all     []*exec.Cmd
}

// start runs a server as the operator would, and where it listens once more without Freehold. home is its folder.
func (t *tools) start(ctx context.Context, s server, home string) (*running, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	command, env := placed(s, s.command(t.npm, t.built), home, port)
	r := &running{}
	run, err := rendered(s, command, env, port)
	if err == nil {
		err = t.launch(ctx, r, s, run, command, env, home)
	}
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

// launch starts the backend's pod and the proxy.
func (t *tools) launch(
	ctx context.Context, r *running, s server, run runconfig.RunConfig, command []string, env map[string]string,
	home string,
) error {
	backend, err := workload.Backend(run, workload.Slot1)
	if err != nil {
		return err
	}
	template, port := backend.Spec.Template.Spec, int(run.Backend.Port)
	server := template.Containers[0]
	variables := append(conformance.Environ(env), "PATH="+os.Getenv("PATH"))
	at := "http://127.0.0.1:" + strconv.Itoa(port) + s.path
	switch run.Backend.Transport {
	case string(overStdio):
		r.direct = conformance.Target{Command: command, Env: env}
		args := slices.Concat(server.Command[1:], server.Args) // behind the place to which the bridge is copied
		err = r.run(ctx, home, "bridge", variables, append([]string{t.runner}, args...))
	case string(overSSE):
		r.direct.Events = at
		if err = r.run(ctx, home, "server", variables, command); err != nil {
			return err
		}
		if err := listening(ctx, port); err != nil {
			return err
		}
		args := slices.Clone(template.InitContainers[0].Args)
		if port, err = freePort(ctx); err != nil {
			return err
		}
		// it is one for all pods, of which there are several here
		args[slices.Index(args, "-address")+1] = ":" + strconv.Itoa(port)
		err = r.run(ctx, home, "bridge", variables, append([]string{t.runner}, args...))
	default:
		r.direct.URL = at
		err = r.run(ctx, home, "server", variables, command)
	}
	if err != nil {
		return err
	}
	if err := listening(ctx, port); err != nil {
		return err
	}
	return t.proxy(ctx, r, run, home, port)
}

// placed is a command with its environment, with a folder and a port.
func placed(s server, command []string, home string, port int) ([]string, map[string]string) {
	put := strings.NewReplacer("HOME", home, "PORT", strconv.Itoa(port))
	command, env := slices.Clone(command), map[string]string{"HOME": home}
	for i := range command {
		command[i] = put.Replace(command[i])
	}
	for name, value := range s.env {
		env[name] = put.Replace(value)
	}
	return command, env
}

// rendered is what the operator tells the runner about a server.
func rendered(s server, command []string, env map[string]string, port int) (runconfig.RunConfig, error) {
	spec := v1alpha1.MCPServerSpec{
		Image: "wild", Transport: s.transport, Command: command, Port: int32(port),
		ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{Path: s.path},
	}
	if s.transport == "" {
		spec.Transport = overStdio
	}
	for _, variable := range conformance.Environ(env) {
		name, value, _ := strings.Cut(variable, "=")
		spec.Env = append(spec.Env, corev1.EnvVar{Name: name, Value: value})
	}
	object := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "wild", Name: "wild", UID: "1"}, Spec: spec}
	out := workload.Render(workload.Input{Object: object}, podtemplate.Release{RunnerImage: "runner"})
	if err := podtemplate.AsError(out.Problems); err != nil {
		return runconfig.RunConfig{}, err
	}
	run := out.Content
	run.Workload = runconfig.Workload{Generation: 1, Hash: out.Hash}
	return run, nil
}

// proxy starts the proxy before a backend at a port, and waits until it is ready.
func (t *tools) proxy(ctx context.Context, r *running, run runconfig.RunConfig, home string, backend int) error {
	data, err := run.Encode()
	if err != nil {
		return err
	}
	config, keys := filepath.Join(home, ".run.json"), filepath.Join(home, ".keys")
	if err := errors.Join(
		os.WriteFile(config, data, 0o600), os.Mkdir(keys, 0o700),
		os.WriteFile(filepath.Join(keys, runconfig.SessionKey), []byte(rand.Text()+rand.Text()), 0o600),
	); err != nil {
		return err
	}
	var at [2]string
	for i := range at {
		port, err := freePort(ctx)
		if err != nil {
			return err
		}
		at[i] = "127.0.0.1:" + strconv.Itoa(port)
	}
	err = r.run(ctx, home, "proxy", []string{"PATH=" + os.Getenv("PATH")}, []string{
		t.runner, "--config", config, "--backend", "http://127.0.0.1:" + strconv.Itoa(backend), "--address", at[0],
		"--probe-address", at[1], "--session-keys", keys,
	})
	if err != nil {
		return err
	}
	r.through = "http://" + at[0] + run.Proxy.Path
	return eventually(ctx, "the proxy is not ready", func() error {
		response, err := http.Get("http://" + at[1] + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		words, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("it says HTTP %d %s: %w", response.StatusCode, words, err)
		}
		return err
	})
}

// run starts a program, which logs to a file in home.
func (r *running) run(ctx context.Context, home, name string, env, command []string) error {
	log, err := os.Create(filepath.Join(home, "."+name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	program := exec.CommandContext(ctx, command[0], command[1:]...)
	program.Env, program.Dir, program.Stdout, program.Stderr = env, home, log, log
	program.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := program.Start(); err != nil {
		return err
	}
	r.all = append(r.all, program)
	return nil
}

// stop ends what was started, the last first.
func (r *running) stop() error {
	for _, program := range slices.Backward(r.all) {
		end := time.AfterFunc(10*time.Second, func() {
			_ = syscall.Kill(-program.Process.Pid, syscall.SIGKILL)
		})
		_ = program.Process.Signal(syscall.SIGTERM)
		_ = program.Wait()
		_ = syscall.Kill(-program.Process.Pid, syscall.SIGKILL)
		end.Stop()
	}
	return nil
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close() //nolint:forcetypeassert // as it was asked for
}

func listening(ctx context.Context, port int) error {
	return eventually(ctx, "nothing listens", func() error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// eventually waits until something is done without an error, for a minute and a half.
func eventually(ctx context.Context, what string, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// kindCluster is a cluster that kind runs in a container engine. Its Services have no route
// from the host: reach them with kubectl port-forward.
type kindCluster struct{ settings }

const kindName = "freehold"

// kindWorks tells whether kind is installed and an engine answers.
func kindWorks() bool {
	if _, err := exec.LookPath("kind"); err != nil {
		return false
	}
	return exec.Command("docker", "info").Run() == nil || exec.Command("podman", "info").Run() == nil
}

func (k kindCluster) up(ctx context.Context) error {
	release, err := k.alone()
	if err != nil {
		return err
	}
	defer release()
	if _, err := os.Stat(k.kubeconfig()); err == nil {
		fmt.Println("the cluster is already up")
		return nil
	}
	if err := errors.Join(k.claim(byKind), os.MkdirAll(k.path("logs"), 0o755)); err != nil {
		return err
	}
	for _, name := range []string{"kind.yaml", "audit.yaml"} {
		if err := k.write(name, name, 0o644); err != nil {
			return err
		}
	}
	create := exec.CommandContext(ctx, "kind", "create", "cluster", "--name", kindName,
		"--config", k.path("kind.yaml"), "--kubeconfig", k.kubeconfig(), "--wait", "180s")
	if err := attached(create); err != nil {
		return err
	}
	fmt.Printf("reach a Service with: KUBECONFIG=%s kubectl port-forward service/NAME PORT\n", k.kubeconfig())
	return nil
}

func (k kindCluster) down() error {
	if err := attached(exec.Command("kind", "delete", "cluster", "--name", kindName)); err != nil {
		return err
	}
	return os.RemoveAll(k.dir)
}

func (k kindCluster) status() error {
	return k.exec([]string{"kubectl", "get", "nodes,pods", "--all-namespaces"})
}

func (k kindCluster) load(archives []string) error {
	for _, archive := range archives {
		if err := attached(exec.Command("kind", "load", "image-archive", archive, "--name", kindName)); err != nil {
			return err
		}
	}
	return nil
}

// exec runs the command on the host, which reaches the API server but no Service.
func (k kindCluster) exec(command []string) error {
	if err := os.Setenv("PATH", k.bin+string(filepath.ListSeparator)+os.Getenv("PATH")); err != nil {
		return err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig())
	return attached(cmd)
}

func (k kindCluster) forward(port, target string) error {
	return fmt.Errorf("a kind cluster has no route for %s: use kubectl port-forward service/NAME %s:PORT", target, port)
}

// attached runs a command on our terminal.
func attached(cmd *exec.Cmd) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(cmd.Path), err)
	}
	return nil
}

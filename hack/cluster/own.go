//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// ownCluster is a cluster made of processes in namespaces of this machine.
type ownCluster struct{ settings }

func own(s settings) (cluster, error) { return ownCluster{s}, nil }

func (c ownCluster) up(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errNeedsRoot
	}
	release, err := c.alone()
	if err != nil {
		return err
	}
	defer release()
	if _, up := c.running(); up {
		fmt.Println("the cluster is already up")
		c.tellHowToReach()
		return nil
	}
	if err := errors.Join(c.check(), install()); err != nil {
		return err
	}
	// Whatever a start that was cut off, or a machine that was switched off, left here.
	if err := errors.Join(c.stop(), c.clear()); err != nil {
		return err
	}
	err = errors.Join(c.claim(byNamespaces), os.Mkdir(c.path("logs"), 0o755), c.lend(), c.makeCgroups())
	if err == nil {
		err = c.launch(ctx)
	}
	if err != nil {
		// The logs stay for whoever looks into it, until the next up or down.
		return errors.Join(err, c.stop())
	}
	c.tellHowToReach()
	return nil
}

// launch starts the first process in new namespaces and shows its progress until the cluster is
// ready, has failed, or ctx is over.
func (c ownCluster) launch(ctx context.Context) error {
	log, err := os.Create(c.log("cluster"))
	if err != nil {
		return err
	}
	defer log.Close()
	progress, progressIn, err := os.Pipe()
	if err != nil {
		return err
	}
	defer progress.Close()
	cmd := exec.Command("/proc/self/exe", firstCommand)
	cmd.Env = append(c.environment(), outside+"="+namespaces())
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{progressIn}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		Setsid:     true, // a Ctrl-C is for us; what it means for the cluster, we say
	}
	err = cmd.Start()
	progressIn.Close()
	if err != nil {
		return fmt.Errorf("making namespaces: %w", err)
	}
	interrupt := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	defer interrupt()
	if _, err := io.Copy(os.Stdout, progress); err != nil {
		return err
	}
	if _, up := c.running(); up {
		return cmd.Process.Release()
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // how it ended is in the file that supervise wrote
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	why, err := os.ReadFile(c.path("error"))
	if err != nil {
		return fmt.Errorf("the start was cut off; see %s", c.log("cluster"))
	}
	return errors.New(strings.TrimSpace(string(why)))
}

func (c ownCluster) down() error {
	made, err := c.madeBy()
	if err != nil {
		return err
	}
	if made == byNobody {
		fmt.Println("there is no cluster in", c.dir)
		return nil
	}
	if os.Geteuid() != 0 {
		return errNeedsRoot
	}
	release, err := c.alone()
	if err != nil {
		return err
	}
	defer release()
	if err := errors.Join(c.stop(), c.clear()); err != nil {
		return err
	}
	fmt.Println("the cluster is down, and nothing of it is left")
	return nil
}

// stop ends every process of the cluster and undoes what it changed outside its namespaces.
func (c ownCluster) stop() error {
	if err := c.endFirst(); err != nil {
		return err
	}
	c.takeBack()
	return c.removeCgroups()
}

// clear empties the folder. The folder itself carries the lock and stays.
func (c ownCluster) clear() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	// The marker goes last: a folder without it could not be taken down any more.
	for _, entry := range entries {
		if entry.Name() != marker {
			err = errors.Join(err, os.RemoveAll(c.path(entry.Name())))
		}
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(c.path(marker))
}

func (c ownCluster) status() error {
	first, up := c.running()
	if !up {
		return errNotUp
	}
	fmt.Printf("up; folder %s, first process %d\n", c.dir, first)
	if ended, err := os.ReadFile(c.path("ended")); err == nil {
		fmt.Printf("%s", ended)
	}
	return attached(c.entering(first, []string{"kubectl", "get", "nodes,pods", "--all-namespaces"}))
}

func (c ownCluster) load(archives []string) error {
	if _, up := c.running(); !up {
		return errNotUp
	}
	for _, archive := range archives {
		if err := c.importImage(archive); err != nil {
			return err
		}
		fmt.Println("loaded", archive)
	}
	return nil
}

func (c ownCluster) exec(command []string) error {
	if os.Geteuid() != 0 {
		return errNeedsRoot
	}
	first, up := c.running()
	if !up {
		return errNotUp
	}
	return replace(c.entering(first, command))
}

// replace puts a command in our place, so that signals and the exit code are its own.
func replace(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err
	}
	return syscall.Exec(cmd.Path, cmd.Args, cmd.Env)
}

// entering is a command in the cluster's network, with the rest of the host as it is, except
// that names are looked up in the cluster's DNS.
func (c ownCluster) entering(first int, command []string) *exec.Cmd {
	const withDNS = `mount --bind "$1" /etc/resolv.conf && shift && exec "$@"`
	args := append([]string{
		fmt.Sprintf("--net=/proc/%d/ns/net", first),
		"unshare", "--mount", "sh", "-c", withDNS, "cluster exec", c.path("resolv.conf"),
	}, command...)
	cmd := exec.Command("nsenter", args...)
	cmd.Env = append(c.environment(),
		"KUBECONFIG="+c.kubeconfig(),
		"PATH="+c.bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return cmd
}

func (c ownCluster) tellHowToReach() {
	fmt.Printf(`The cluster has a network of its own. Run commands in it with
  cluster exec -- kubectl get pods --all-namespaces
  cluster exec -- curl http://SERVICE.NAMESPACE.svc.cluster.local:PORT/
or let programs of this machine reach a Service at 127.0.0.1:8080 with
  cluster forward 8080 SERVICE.NAMESPACE.svc.cluster.local:PORT
kubeconfig %s, logs and audit.log in %s
`, c.kubeconfig(), c.path("logs"))
}

// Cluster brings up a whole Kubernetes on this machine and takes it away again.
//
// For root on Linux it is made of the binaries of hack/controlplane and of Debian's containerd,
// in namespaces of its own: network, processes and mounts belong to one first process, so that
// ending that process ends and unmounts everything, whatever state it was in. For anybody else
// it is a kind cluster (kind.go), where a container engine runs and kind is installed.
//
//	main.go, settings.go   the commands, and what the environment sets
//	state.go               the folder that a cluster lives in: whose it is, one command at a time
//	own.go, first.go       up, down, status and the rest seen from outside; process 1 inside
//	supervise.go           the order in which a cluster starts
//	controlplane.go, node.go, component.go
//	                       the command line of each part, and how it starts and is found ready
//	isolate.go, cgroups.go what a cluster changes in the kernel
//	certificates.go, config.go, config/
//	                       keys, kubeconfigs and configuration files
//	relay.go               connections from this machine into the cluster
//	packages.go            what must be installed
//	kind.go, other.go      kind; systems that are not Linux
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

const usage = `usage: cluster COMMAND

  up                   bring the cluster up; does nothing when it is up
  down                 end it and remove everything it made
  status               tell whether it runs, and what of it
  load IMAGE.tar...    make images available to pods
  kubeconfig           print the path of the admin's kubeconfig
  exec -- COMMAND...   run a command that reaches Services and pods, by address and by name,
                       with KUBECONFIG set and this cluster's kubectl on the PATH
  forward PORT TARGET  let programs of this machine reach TARGET, an address of the cluster
                       like server.default.svc.cluster.local:8080, at 127.0.0.1:PORT

environment:
  FREEHOLD_CLUSTER_DIR   folder that holds all of it; by default /var/lib/freehold-cluster for root,
                         ~/.local/state/freehold-cluster for others
  K8S_VERSION, K8S_BIN   which binaries, bin/k8s/$K8S_VERSION by default, v1.36.3
  FREEHOLD_IMAGES        folder of pause.tar and coredns.tar, bin/images by default`

// A cluster is what both kinds of it can do.
type cluster interface {
	up(ctx context.Context) error
	down() error
	status() error
	load(archives []string) error
	exec(command []string) error
	forward(port, target string) error
}

func main() {
	err := run(os.Args[1:])
	// The exit code of a command that ran in the cluster is ours as well; it has said why.
	if ended := (*exec.ExitError)(nil); errors.As(err, &ended) {
		os.Exit(max(ended.ExitCode(), 1))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	s, err := fromEnvironment()
	if err != nil {
		return err
	}
	command, args := args[0], args[1:]
	switch command {
	case "kubeconfig":
		fmt.Println(s.kubeconfig())
		return nil
	case firstCommand, superviseCommand, relayCommand:
		return inside(command, args, s)
	}
	c, err := choose(s, command == "up")
	if err != nil {
		return err
	}
	switch command {
	case "up":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return c.up(ctx)
	case "down":
		return c.down()
	case "status":
		return c.status()
	case "load":
		if len(args) == 0 {
			return errors.New("load: name the archives to load")
		}
		return c.load(args)
	case "exec":
		if len(args) > 0 && args[0] == "--" {
			args = args[1:]
		}
		if len(args) == 0 {
			return errors.New("exec: name the command to run")
		}
		return c.exec(args)
	case "forward":
		if len(args) != 2 {
			return errors.New("forward: name a port of this machine, and the address in the cluster")
		}
		return c.forward(args[0], args[1])
	}
	return errors.New(usage)
}

// choose takes the kind of cluster that the folder holds. A new one is our own where it can be,
// because there commands reach Services too, which the demo needs; else kind where it works.
func choose(s settings, fresh bool) (cluster, error) {
	made, err := s.madeBy()
	if err != nil {
		return nil, err
	}
	if made == byKind || (made == byNobody && fresh && !ownWorks() && kindWorks()) {
		return kindCluster{s}, nil
	}
	return own(s)
}

// ownWorks reports whether this process may make a cluster of our own here.
func ownWorks() bool { return runtime.GOOS == "linux" && os.Geteuid() == 0 }

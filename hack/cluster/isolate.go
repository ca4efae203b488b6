//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// borrowed are folders of the host that containerd, kubelet and the network plugins write to
// whatever they are told. Inside our mount namespace they are folders of the cluster.
var borrowed = map[string]string{
	"/run/containerd":  "run",
	"/var/lib/cni":     "cni-state",
	"/var/lib/kubelet": "kubelet",
	"/var/log":         "var-log",
}

// kernelSettings are what kubelet wants to find, and would set for the whole machine.
// https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/ (protectKernelDefaults)
var kernelSettings = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

// isolate makes this process's new mount and network namespaces fit for a node. Whatever is
// mounted here is seen nowhere else, and ends with the namespace's last process.
func (s settings) isolate() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("leaving the host's mounts: %w", err)
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for host, ours := range borrowed {
		if err := errors.Join(os.MkdirAll(s.path(ours), 0o755), bind(s.path(ours), host)); err != nil {
			return err
		}
	}
	for name, value := range kernelSettings {
		file := s.path("kernel", strings.ReplaceAll(name, "/", "."))
		err := errors.Join(
			os.MkdirAll(filepath.Dir(file), 0o755),
			os.WriteFile(file, []byte(value+"\n"), 0o644),
			bind(file, filepath.Join("/proc/sys", name)),
		)
		if err != nil {
			return err
		}
	}
	return network()
}

func bind(from, to string) error {
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting %s over %s: %w", from, to, err)
	}
	return nil
}

// network gives the node its address. A bridge without ports carries it, because some kernels
// have no dummy device. The default route only makes Service addresses routable, so that
// kube-proxy's rules come to see them; nothing leaves the namespace.
func network() error {
	for _, command := range []string{
		"ip link set lo up",
		"ip link add node0 type bridge",
		"ip address add " + nodeAddress + "/24 dev node0",
		"ip link set node0 up",
		"ip route add default dev node0",
	} {
		words := strings.Fields(command)
		if output, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, output)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644)
}

// lend makes the folders that isolate mounts over, and notes which were not there.
func (s settings) lend() error {
	var made []string
	for host := range borrowed {
		if _, err := os.Stat(host); err == nil {
			continue
		}
		if err := os.MkdirAll(host, 0o755); err != nil {
			return orRoot(err)
		}
		made = append(made, host)
	}
	return os.WriteFile(s.path("made"), []byte(strings.Join(made, "\n")), 0o600)
}

// takeBack removes the folders that lend made, if they are still empty.
func (s settings) takeBack() {
	made, _ := os.ReadFile(s.path("made"))
	for host := range strings.Lines(string(made)) {
		// Somebody else uses it by now, or it is gone: both are as it should be.
		_ = os.Remove(strings.TrimSpace(host))
	}
}

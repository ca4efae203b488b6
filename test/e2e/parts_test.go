package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
)

// processes are the ids of those that run a program, of which also is true. Those of the cluster and of its pods are
// seen from here.
func processes(program string, also func(proc string) bool) []int {
	GinkgoHelper()
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	Expect(err).NotTo(HaveOccurred())
	var ids []int
	for _, name := range names {
		comm, err := os.ReadFile(name) //nolint:gosec // of the machine
		if proc := filepath.Dir(name); err == nil && strings.TrimSpace(string(comm)) == program && also(proc) {
			id, err := strconv.Atoi(filepath.Base(proc))
			Expect(err).NotTo(HaveOccurred())
			ids = append(ids, id)
		}
	}
	return ids
}

// stopped stops a part of the cluster where it is until the story ends, or goOn is called.
func stopped(part string) (goOn func()) {
	GinkgoHelper()
	here, err := os.Readlink("/proc/self/ns/net")
	Expect(err).NotTo(HaveOccurred())
	ids := processes(part, func(proc string) bool {
		there, err := os.Readlink(proc + "/ns/net")
		return err == nil && there == here // else it is of another cluster of this machine
	})
	Expect(ids).To(HaveLen(1), part)
	goOn = sync.OnceFunc(func() {
		GinkgoHelper()
		Expect(syscall.Kill(ids[0], syscall.SIGCONT)).To(Succeed())
	})
	DeferCleanup(goOn)
	Expect(syscall.Kill(ids[0], syscall.SIGSTOP)).To(Succeed())
	return goOn
}

// kill ends the processes of a pod that run a program, without a warning, and says how many there were.
func kill(pod corev1.Pod, program string) int {
	GinkgoHelper()
	ids := processes(program, func(proc string) bool {
		groups, err := os.ReadFile(proc + "/cgroup") //nolint:gosec // of the machine
		return err == nil && strings.Contains(string(groups), "/pod"+string(pod.UID)+"/")
	})
	for _, id := range ids {
		_ = syscall.Kill(id, syscall.SIGKILL) // it may have ended
	}
	return len(ids)
}

// cutOff drops what a pod and the API server send each other until the story ends, or restore is called.
func cutOff(ctx context.Context, pod corev1.Pod) (restore func()) {
	GinkgoHelper()
	// The Service's port, and that of the node.
	return filter(ctx, string(pod.UID), fmt.Sprintf(`
		chain from { type filter hook prerouting priority raw; ip saddr %[1]s tcp dport { 443, 6443 } drop; }
		chain to { type filter hook output priority raw; ip daddr %[1]s tcp sport { 443, 6443 } drop; }
	`, pod.Status.PodIP))
}

// closeTo lets a pod have connections from one other alone until the story ends, as a network plugin does that enforces
// a NetworkPolicy.
func closeTo(ctx context.Context, pod, from corev1.Pod) {
	GinkgoHelper()
	filter(ctx, string(pod.UID), fmt.Sprintf(`
		chain to { type filter hook forward priority 0; ip daddr %s ip saddr != %s tcp flags syn / syn,ack drop; }
	`, pod.Status.PodIP, from.Status.PodIP))
}

// filter adds chains to the cluster's packet filter until the story ends, or restore is called.
func filter(ctx context.Context, name, chains string) (restore func()) {
	GinkgoHelper()
	table := "e2e-" + name
	nft := func(commands string) {
		GinkgoHelper()
		program := exec.CommandContext(context.WithoutCancel(ctx), "nft", "-f", "-")
		program.Stdin = strings.NewReader(commands)
		out, err := program.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), "%s", out)
	}
	restore = sync.OnceFunc(func() {
		GinkgoHelper()
		nft("delete table inet " + table)
	})
	DeferCleanup(restore)
	nft(fmt.Sprintf("table inet %s {%s}", table, chains))
	return restore
}

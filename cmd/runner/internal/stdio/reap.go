package stdio

import (
	"bytes"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// The first process of a container inherits the orphans of all others, and has to
// wait for them: else each stays in the table of processes until that is full.

// own are the children that a Process waits for. Its lock is held while one starts.
var own = struct {
	sync.Mutex
	pids map[int]bool
}{pids: map[int]bool{}}

// reapPause is the time between two looks at the table of processes.
const reapPause = 100 * time.Millisecond

// Reap waits for processes that became children of this one when their parents
// ended, until ctx ends. It leaves those that a Process waits for.
func Reap(ctx context.Context) {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	for {
		select {
		case <-ended:
		case <-ctx.Done():
			return
		}
		time.Sleep(reapPause) // for all that end together
		reapOrphans()
	}
}

func reapOrphans() {
	own.Lock()
	defer own.Unlock()
	for _, pid := range zombies() {
		if !own.pids[pid] {
			var status syscall.WaitStatus
			_, _ = syscall.Wait4(pid, &status, syscall.WNOHANG, nil) //nolint:errcheck // it is gone either way
		}
	}
}

// zombies are the children of this process that have ended and nobody has waited for.
func zombies() []int {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") //nolint:errcheck // the pattern is right
	var pids []int
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has gone meanwhile
		}
		// The name in parentheses may hold anything: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html.
		fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
		if len(fields) < 2 || string(fields[0]) != "Z" || string(fields[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

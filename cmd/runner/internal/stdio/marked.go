package stdio

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// A process that calls setsid leaves the group of the child that it belongs to, and one
// whose parent has ended has no way back to it. What all inherit is the environment: a
// variable in it is another one for each child.

// markName is that variable. The value is random.
const markName = "FREEHOLD_PROCESS="

const (
	// maxRounds is how often the processes are looked at: one may start another while
	// they are.
	maxRounds = 10
	// maxEnviron is how much of an environment is read, in bytes.
	maxEnviron = 1 << 20
)

// killMarked ends the processes of one child that have its mark. One that takes the mark
// out of its environment and leaves the group stays until its container ends.
func killMarked(mark string) {
	for range maxRounds {
		if !killRound(mark) {
			return
		}
	}
}

// killRound reports whether there were any.
func killRound(mark string) (found bool) {
	folders, _ := filepath.Glob("/proc/[0-9]*") //nolint:errcheck // the pattern is right
	for _, folder := range folders {
		pid, err := strconv.Atoi(filepath.Base(folder))
		if err != nil || pid == os.Getpid() || !marked(folder, mark) {
			continue
		}
		process, err := os.FindProcess(pid)
		if err != nil {
			continue
		}
		// Again, once it is held: its number may have become another process's.
		if marked(folder, mark) {
			found = true
			_ = process.Signal(syscall.SIGKILL) //nolint:errcheck // it may have ended meanwhile
		}
		_ = process.Release() //nolint:errcheck // nothing waits for it
	}
	return found
}

// marked reports whether a process has a mark. What has ended has no environment, nor
// has another user's for us.
func marked(folder, mark string) bool {
	file, err := os.Open(filepath.Join(folder, "environ")) //nolint:gosec // below /proc
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // it was only read
	environ, err := io.ReadAll(io.LimitReader(file, maxEnviron))
	if err != nil {
		return false
	}
	return bytes.Contains(append([]byte{0}, environ...), append([]byte{0}, mark...))
}

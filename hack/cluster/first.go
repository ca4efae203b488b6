//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Commands that up gives to itself.
const (
	firstCommand     = "first"
	superviseCommand = "supervise"
	relayCommand     = "relay"
)

// progressFile is the descriptor on which a starting cluster reports to up.
const progressFile = 3

// outside is the variable in which up names the host's namespaces.
const outside = "FREEHOLD_CLUSTER_OUTSIDE"

func inside(command string, args []string, s settings) error {
	if command == relayCommand && len(args) == 2 {
		return relay(args[0], args[1])
	}
	// In the host's namespaces what these two do would happen to the host.
	if !secluded() {
		return errors.New(usage)
	}
	syscall.CloseOnExec(progressFile)
	if command == superviseCommand {
		return supervise(s)
	}
	return first(s)
}

// secluded tells whether we are where up put us, in namespaces that are none of the host's.
func secluded() bool {
	theirs := strings.Fields(os.Getenv(outside))
	ours := strings.Fields(namespaces())
	if len(theirs) != len(ours) {
		return false
	}
	for i := range ours {
		if ours[i] == theirs[i] {
			return false
		}
	}
	return true
}

// namespaces identifies those that a cluster has of its own. See namespaces(7).
func namespaces() string {
	var all []string
	for _, kind := range []string{"mnt", "net", "pid"} {
		id, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			id = kind + "?" // equal to itself, which counts as not secluded
		}
		all = append(all, id)
	}
	return strings.Join(all, " ")
}

// first is process 1 of the cluster: it starts supervise and collects what is orphaned. When it
// ends, the kernel ends every process of its namespace, the containers' included.
func first(s settings) error {
	// /proc is still the host's, so these are numbers that the host knows us by.
	pid, err := os.Readlink("/proc/self")
	if err != nil {
		return err
	}
	begin, _, err := process(pid)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path("first"), []byte(pid+" "+begin), 0o600); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe", superviseCommand)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{os.NewFile(progressFile, "progress")}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := syscall.Close(progressFile); err != nil {
		return err
	}
	for {
		ended, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if ended == cmd.Process.Pid {
			return errors.New("supervise ended")
		}
	}
}

// running finds the first process of a cluster that is up; a start that is under way, or was cut off, is not up.
func (s settings) running() (pid int, up bool) {
	pid, alive := s.firstProcess()
	if !alive {
		return 0, false
	}
	_, err := os.Stat(s.path("ready"))
	return pid, err == nil
}

// firstProcess finds the first process, told from a later one of the same number by the time it began.
func (s settings) firstProcess() (pid int, alive bool) {
	noted, err := os.ReadFile(s.path("first"))
	if err != nil {
		return 0, false
	}
	number, began, _ := strings.Cut(string(noted), " ")
	begin, dead, err := process(number)
	if err != nil || dead || begin != began {
		return 0, false
	}
	pid, err = strconv.Atoi(number)
	return pid, err == nil
}

// process reads when a process began, in clock ticks since boot, and whether it is a zombie. See proc_pid_stat(5).
func process(pid string) (begin string, dead bool, err error) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return "", false, err
	}
	// The second field is the program's name in parentheses, which may hold anything.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", false, fmt.Errorf("reading /proc/%s/stat: too few fields", pid)
	}
	return fields[19], fields[0] == "Z" || fields[0] == "X", nil
}

// endFirst ends the first process, and so all of them. The kernel lets it become a zombie only
// when the others are gone.
func (s settings) endFirst() error {
	pid, alive := s.firstProcess()
	if !alive {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return orRoot(err)
	}
	for range 300 {
		if _, alive := s.firstProcess(); !alive {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("process %d does not end", pid)
}

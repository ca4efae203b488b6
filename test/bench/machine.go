package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// Machine is where was measured.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
}

// Versions are what was measured.
type Versions struct {
	Freehold   string `json:"freehold"`
	Go         string `json:"go"`
	Kubernetes string `json:"kubernetes"`
	Etcd       string `json:"etcd"`
}

func machine() Machine {
	m := Machine{Cores: runtime.NumCPU(), Kernel: oneLine("/proc/sys/kernel/osrelease")}
	m.CPU = field("/proc/cpuinfo", "model name")
	if kib, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		m.Memory = fmt.Sprintf("%.0f GiB", float64(kib)/(1<<20))
	}
	return m
}

// versions reads them where they are: of a binary that cannot be asked, nothing is said.
func versions(assets string) Versions {
	v := Versions{Go: runtime.Version(), Freehold: said("git", "describe", "--always", "--dirty")}
	v.Kubernetes = strings.TrimPrefix(said(filepath.Join(assets, "kube-apiserver"), "--version"), "Kubernetes ")
	first, _, _ := strings.Cut(said(filepath.Join(assets, "etcd"), "--version"), "\n")
	v.Etcd = strings.TrimPrefix(first, "etcd Version: ")
	if info, ok := debug.ReadBuildInfo(); ok && v.Freehold == "" {
		v.Freehold = info.Main.Version
	}
	return v
}

func said(command string, args ...string) string {
	out, err := exec.Command(command, args...).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

func oneLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// field is what stands behind the first "name:" of a file in /proc.
func field(file, name string) string {
	for line := range strings.Lines(oneLine(file)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// ticks a second of /proc/PID/stat, the same on every Linux that Go runs on.
const ticks = 100

// processorTime is what a process has used, in seconds.
func processorTime(pid int) (float64, error) {
	_, fields, err := stat(pid)
	if err != nil {
		return 0, err
	}
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	return float64(user+system) / ticks, errors.Join(err1, err2)
}

// stat is the name of a process and the fields behind it (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).
func stat(pid int) (name string, fields []string, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", nil, fmt.Errorf("reading the state of a process: %w", err)
	}
	open, end := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return "", nil, fmt.Errorf("reading the state of process %d: %q", pid, text)
	}
	return string(text[open+1 : end]), strings.Fields(string(text[end+1:])), nil
}

// children are the processes that this one started, by the first 15 characters of their names.
func children() (map[string]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	self, found := strconv.Itoa(os.Getpid()), map[string]int{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// A process that ended meanwhile is none of ours.
		if name, fields, err := stat(pid); err == nil && fields[1] == self {
			found[name] = pid
		}
	}
	return found, nil
}

// resident is what a process keeps in memory, and how much of that is not a copy of a file, in bytes.
func resident(pid int) (all, anonymous int64, err error) {
	file := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
	for name, into := range map[string]*int64{"Rss": &all, "Anonymous": &anonymous} {
		kib, err := strconv.ParseInt(strings.TrimSuffix(field(file, name), " kB"), 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("reading %s: %w", file, err)
		}
		*into = kib << 10
	}
	return all, anonymous, nil
}

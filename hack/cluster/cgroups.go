//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// hierarchies are the mount points of the cgroup file systems: one for each controller in
// version 1, one for all in version 2.
func hierarchies() []string {
	if unified() {
		return []string{cgroupRoot}
	}
	found, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

func unified() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// makeCgroups makes the group that holds all pods. kubelet refuses a root group that is not
// there, or that lacks a controller which the machine has.
func (s settings) makeCgroups() error {
	if unified() {
		available, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers"))
		if err != nil {
			return err
		}
		for _, controller := range strings.Fields(string(available)) {
			enable := []byte("+" + controller)
			// What cannot be enabled is one that kubelet does not ask for, or it says so itself.
			_ = os.WriteFile(filepath.Join(cgroupRoot, "cgroup.subtree_control"), enable, 0o644)
		}
	}
	for _, hierarchy := range hierarchies() {
		if err := os.MkdirAll(filepath.Join(hierarchy, s.cgroup()), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// removeCgroups removes the group and those that kubelet made below it. A group stays busy for
// a moment after its last process is gone.
func (s settings) removeCgroups() error {
	var busy error
	for range 50 {
		busy = nil
		for _, hierarchy := range hierarchies() {
			if err := removeTree(filepath.Join(hierarchy, s.cgroup())); err != nil {
				busy = err
			}
		}
		if busy == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return busy
}

// removeTree removes folders from the leaves up; the files in a cgroup go with it.
func removeTree(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := removeTree(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}

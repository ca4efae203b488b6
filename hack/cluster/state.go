package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// What the marker file says about who made the cluster in a folder.
const (
	byNobody     = ""
	byKind       = "kind"
	byNamespaces = "namespaces"
)

// marker is the file that makes a folder ours: down removes no folder without it.
const marker = "freehold-cluster"

// madeBy tells what kind of cluster the folder holds, byNobody if none. A folder with other content is refused.
func (s settings) madeBy() (string, error) {
	content, err := os.ReadFile(s.path(marker))
	if err == nil {
		return strings.TrimSpace(string(content)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", orRoot(err)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", orRoot(err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("%s holds files that are not a cluster's: name another folder in FREEHOLD_CLUSTER_DIR", s.dir)
	}
	return byNobody, nil
}

// claim makes the folder ours.
func (s settings) claim(by string) error {
	return os.WriteFile(s.path(marker), []byte(by+"\n"), 0o600)
}

// alone makes the folder and keeps other commands out of it until the returned function is called, which removes it if
// it is empty. The lock is the kernel's, so that a killed command leaves none.
func (s settings) alone() (release func(), err error) {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, orRoot(err)
	}
	dir, err := os.Open(s.dir)
	if err != nil {
		return nil, orRoot(err)
	}
	if err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		dir.Close()
		return nil, fmt.Errorf("another up or down is working on %s", s.dir)
	}
	return func() {
		// A command that found nothing to do, or could not do it, leaves no empty folder.
		_ = os.Remove(s.dir)
		dir.Close()
	}, nil
}

var errNotUp = errors.New("the cluster is not up: run cluster up")

// orRoot puts what to do in front of a refusal.
func orRoot(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return errNeedsRoot
	}
	return err
}

var errNeedsRoot = errors.New("needs root, for the namespaces, mounts and cgroups of the cluster: " +
	"run sudo make cluster, or sudo make demo; or run make cluster with kind installed and a container engine running")

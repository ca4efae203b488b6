package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
)

// Addresses of the cluster. Nothing outside its network namespace can see them, so they collide with nobody's.
const (
	nodeName     = "freehold"
	nodeAddress  = "10.245.0.1"
	podRange     = "10.244.0.0/24"
	serviceRange = "10.96.0.0/16"
	apiService   = "10.96.0.1" // the first of serviceRange, which Kubernetes takes for itself
	dnsService   = "10.96.0.10"
	server       = "https://" + nodeAddress + ":6443"
	etcdClients  = "http://127.0.0.1:2379"
)

const (
	pauseImage   = "freehold.dev/pause:dev"
	coreDNSImage = "freehold.dev/coredns:dev"
)

// A unix socket's path has at most 107 bytes, and containerd appends to ours.
const longestDir = 80

// settings say where a cluster lives and what it is made of. All paths are absolute.
type settings struct {
	dir    string
	bin    string
	images string
}

func fromEnvironment() (settings, error) {
	version := cmp.Or(os.Getenv("K8S_VERSION"), "v1.36.3")
	s := settings{
		dir:    cmp.Or(os.Getenv("FREEHOLD_CLUSTER_DIR"), defaultDir(os.Geteuid())),
		bin:    cmp.Or(os.Getenv("K8S_BIN"), filepath.Join("bin", "k8s", version)),
		images: cmp.Or(os.Getenv("FREEHOLD_IMAGES"), filepath.Join("bin", "images")),
	}
	for _, path := range []*string{&s.dir, &s.bin, &s.images} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return s, err
		}
		*path = absolute
	}
	if len(s.dir) > longestDir {
		return s, fmt.Errorf("FREEHOLD_CLUSTER_DIR is %d bytes long; sockets below it allow %d", len(s.dir), longestDir)
	}
	return s, nil
}

// defaultDir is below the home of who is not root, because nobody else may write
// to /var/lib, and a kind cluster needs no root.
func defaultDir(uid int) string {
	home, err := os.UserHomeDir()
	if uid == 0 || err != nil {
		return "/var/lib/freehold-cluster"
	}
	return filepath.Join(home, ".local", "state", "freehold-cluster")
}

// environment hands the settings to a process that starts elsewhere. The cluster's network
// has no way out, so a proxy that the host needs is of no use in it.
func (s settings) environment() []string {
	return append(os.Environ(),
		"FREEHOLD_CLUSTER_DIR="+s.dir, "K8S_BIN="+s.bin, "FREEHOLD_IMAGES="+s.images,
		"NO_PROXY=*", "no_proxy=*")
}

func (s settings) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir}, elements...)...)
}

func (s settings) log(component string) string { return s.path("logs", component+".log") }
func (s settings) kubeconfig() string          { return s.path("kubeconfig") }
func (s settings) socket() string              { return s.path("containerd.sock") }

// cgroup is the group, in every hierarchy, that holds all pods. It is named after the folder,
// so that two clusters on one machine do not share it.
func (s settings) cgroup() string {
	sum := sha256.Sum256([]byte(s.dir))
	return "freehold-" + hex.EncodeToString(sum[:4])
}

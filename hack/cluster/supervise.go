//go:build linux

package main

import (
	"errors"
	"os"
	"time"
)

// supervise brings the cluster up in the namespaces it runs in, tells up that it is ready or
// why not, and stays: the parts are its children.
func supervise(s settings) error {
	u := &supervisor{settings: s, began: time.Now(), progress: os.NewFile(progressFile, "progress")}
	// Where Debian keeps nft and ip; an ordinary user's PATH, which sudo may pass on, lacks it.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		return err
	}
	if err := u.bringUp(); err != nil {
		return errors.Join(err, os.WriteFile(s.path("error"), []byte(err.Error()), 0o600))
	}
	if err := os.WriteFile(s.path("ready"), nil, 0o600); err != nil {
		return err
	}
	// Nothing is left to wait for, and the end of the file is what up waits for.
	if err := u.progress.Close(); err != nil {
		return err
	}
	for {
		time.Sleep(time.Hour)
	}
}

// bringUp starts the parts in the order in which they need each other.
func (u *supervisor) bringUp() error {
	for _, step := range []struct {
		do   func() error
		done string
	}{
		{u.isolate, "namespaces, mounts and network made"},
		{u.certify, "keys and kubeconfigs written"},
		{u.configure, "configuration written"},
		{u.etcd, "etcd is ready"},
		{u.apiServer, "kube-apiserver is ready"},
		{u.controllers, "kube-controller-manager and kube-scheduler are ready"},
		{u.containerd, "containerd is ready, with the images that every pod needs"},
		{u.kubelet, "kubelet is ready, and so is its node"},
		{u.kubeProxy, "kube-proxy is ready"},
		{u.dns, "cluster DNS answers"},
	} {
		if err := step.do(); err != nil {
			return err
		}
		u.say(step.done)
	}
	return nil
}

// configure writes the files that the parts read.
func (u *supervisor) configure() error {
	return errors.Join(
		u.write("audit.yaml", "audit.yaml", 0o644),
		u.write("containerd.toml", "containerd.toml", 0o644),
		u.write("cni.conflist", "cni/10-freehold.conflist", 0o644),
		u.write("kubelet.yaml", "kubelet.yaml", 0o644),
		u.write("kube-proxy.yaml", "kube-proxy.yaml", 0o644),
		u.write("addons.yaml", "addons.yaml", 0o644),
		// For commands that exec runs. The node has no other DNS than the cluster's.
		u.write("resolv.conf", "resolv.conf", 0o644),
	)
}

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"time"
)

// containerd starts with the images that every cluster needs, because no registry has them.
func (u *supervisor) containerd() error {
	c, err := u.start("containerd", "--config", u.path("containerd.toml"))
	if err != nil {
		return err
	}
	err = c.await(30*time.Second, func(ctx context.Context) error {
		return exec.CommandContext(ctx, "ctr", "--address", u.socket(), "version").Run()
	})
	if err != nil {
		return err
	}
	return errors.Join(
		u.importImage(filepath.Join(u.images, "pause.tar")),
		u.importImage(filepath.Join(u.images, "coredns.tar")),
	)
}

func (u *supervisor) kubelet() error {
	c, err := u.start("kubelet",
		"--config", u.path("kubelet.yaml"),
		"--kubeconfig", u.path("pki", "kubelet.kubeconfig"),
		"--hostname-override", nodeName,
		"--node-ip", nodeAddress,
	)
	if err != nil {
		return err
	}
	return c.await(90*time.Second, u.kubectl("wait", "--for=condition=Ready", "node/"+nodeName, "--timeout=60s"))
}

func (u *supervisor) kubeProxy() error {
	c, err := u.start("kube-proxy", "--config", u.path("kube-proxy.yaml"))
	if err != nil {
		return err
	}
	return c.await(30*time.Second, healthy("http://127.0.0.1:10256/healthz"))
}

// dns applies the last parts, which run as pods, and waits until they do.
func (u *supervisor) dns() error {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	apply := u.kubectl("apply", "--server-side", "--field-manager=freehold-cluster", "--filename", u.path("addons.yaml"))
	if err := apply(ctx); err != nil {
		return err
	}
	return u.kubectl("--namespace=kube-system", "rollout", "status", "deployment/coredns", "--timeout=80s")(ctx)
}

// listening checks that somebody accepts connections.
func listening(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// importImage makes an archive's image available to pods.
func (s settings) importImage(archive string) error {
	cmd := exec.Command("ctr", "--address", s.socket(), "--namespace", "k8s.io", "images", "import", archive)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("loading %s: %w\n%s", archive, err, lastLines(output, 5))
	}
	return nil
}

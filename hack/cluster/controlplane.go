//go:build linux

package main

import (
	"errors"
	"time"
)

func (u *supervisor) etcd() error {
	c, err := u.start("etcd",
		"--data-dir", u.path("etcd"),
		"--listen-client-urls", etcdClients,
		"--advertise-client-urls", etcdClients,
		"--listen-peer-urls", "http://127.0.0.1:2380",
		// The cluster does not outlive a crash of the machine, and waiting for the disk is what makes a small one slow.
		"--unsafe-no-fsync",
	)
	if err != nil {
		return err
	}
	return c.await(30*time.Second, healthy(etcdClients+"/readyz"))
}

func (u *supervisor) apiServer() error {
	c, err := u.start("kube-apiserver",
		"--etcd-servers", etcdClients,
		"--bind-address", nodeAddress,
		"--advertise-address", nodeAddress,
		"--secure-port", "6443",
		"--tls-cert-file", u.path("pki", "kube-apiserver.crt"),
		"--tls-private-key-file", u.path("pki", "kube-apiserver.key"),
		"--client-ca-file", u.path("pki", "ca.crt"),
		"--anonymous-auth=false",
		"--authorization-mode", "Node,RBAC",
		"--enable-admission-plugins", "NodeRestriction",
		"--allow-privileged",
		"--service-cluster-ip-range", serviceRange,
		"--service-account-issuer", "https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file", u.path("pki", "service-accounts.key"),
		"--service-account-signing-key-file", u.path("pki", "service-accounts.key"),
		"--kubelet-certificate-authority", u.path("pki", "ca.crt"),
		"--kubelet-client-certificate", u.path("pki", "kubelet-client.crt"),
		"--kubelet-client-key", u.path("pki", "kubelet-client.key"),
		"--kubelet-preferred-address-types", "InternalIP",
		"--audit-policy-file", u.path("audit.yaml"),
		"--audit-log-path", u.log("audit"),
	)
	if err != nil {
		return err
	}
	return c.await(90*time.Second, u.kubectl("get", "--raw", "/readyz"))
}

// controllers starts the two that have no address that others call. Elections among one are
// left out: they would write a lease every two seconds.
func (u *supervisor) controllers() error {
	manager, err1 := u.start("kube-controller-manager",
		"--kubeconfig", u.path("pki", "kube-controller-manager.kubeconfig"),
		"--bind-address", "127.0.0.1",
		"--cert-dir", u.path("pki", "kube-controller-manager"),
		"--leader-elect=false",
		"--root-ca-file", u.path("pki", "ca.crt"),
		"--service-account-private-key-file", u.path("pki", "service-accounts.key"),
		"--flex-volume-plugin-dir", u.path("volume-plugins"), // otherwise it makes /usr/libexec/kubernetes
		// Each controller under its own name, so that the audit log tells them apart.
		"--use-service-account-credentials",
	)
	scheduler, err2 := u.start("kube-scheduler",
		"--kubeconfig", u.path("pki", "kube-scheduler.kubeconfig"),
		"--bind-address", "127.0.0.1",
		"--cert-dir", u.path("pki", "kube-scheduler"),
		"--leader-elect=false",
	)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	// The sign of life that everybody's pods wait for.
	if err := manager.await(60*time.Second, u.kubectl("get", "serviceaccount", "default")); err != nil {
		return err
	}
	return scheduler.await(60*time.Second, listening("127.0.0.1:10259"))
}

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"time"
)

// The cluster is for days, not for years.
const lifetime = 365 * 24 * time.Hour

// pair is a certificate and its key, both PEM.
type pair struct{ certificate, key []byte }

// authority signs every certificate of the cluster. Its key never leaves memory: all
// certificates are made at the start.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := dated(&x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "freehold-cluster"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	})
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{certificate, key, block("CERTIFICATE", der)}, nil
}

// client issues a certificate that the API server takes for the user name and its groups.
func (a *authority) client(user string, groups ...string) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// server issues a certificate for addresses and names.
func (a *authority) server(name string, addresses []string, names ...string) (pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names,
	}
	for _, address := range addresses {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(address))
	}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, dated(template), a.certificate, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	encoded, err := encode(key)
	return pair{block("CERTIFICATE", der), encoded}, err
}

// certify writes every key and kubeconfig of the cluster.
func (s settings) certify() error {
	if err := os.MkdirAll(s.path("pki"), 0o700); err != nil {
		return err
	}
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	tokens, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	signing, err := encode(tokens)
	if err != nil {
		return err
	}
	apiserver, err1 := ca.server("kube-apiserver", []string{nodeAddress, apiService, "127.0.0.1"}, "localhost",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	kubelet, err2 := ca.server("kubelet", []string{nodeAddress}, nodeName)
	toKubelet, err3 := ca.client("kube-apiserver-kubelet-client")
	return errors.Join(err1, err2, err3,
		os.WriteFile(s.path("pki", "ca.crt"), ca.pem, 0o644),
		os.WriteFile(s.path("pki", "service-accounts.key"), signing, 0o600),
		s.keep("kube-apiserver", apiserver),
		s.keep("kubelet-server", kubelet),
		s.keep("kubelet-client", toKubelet),
		s.login(ca, "kubeconfig", "admin", "system:masters"),
		s.login(ca, "pki/kube-controller-manager.kubeconfig", "system:kube-controller-manager"),
		s.login(ca, "pki/kube-scheduler.kubeconfig", "system:kube-scheduler"),
		s.login(ca, "pki/kube-proxy.kubeconfig", "system:kube-proxy"),
		s.login(ca, "pki/kubelet.kubeconfig", "system:node:"+nodeName, "system:nodes"),
	)
}

// keep writes pki/<name>.crt and .key.
func (s settings) keep(name string, p pair) error {
	return errors.Join(
		os.WriteFile(s.path("pki", name+".crt"), p.certificate, 0o644),
		os.WriteFile(s.path("pki", name+".key"), p.key, 0o600),
	)
}

// login writes a kubeconfig for a new client certificate.
func (s settings) login(ca *authority, path, user string, groups ...string) error {
	p, err := ca.client(user, groups...)
	if err != nil {
		return err
	}
	return s.fill("kubeconfig.yaml", path, 0o600, map[string]string{
		"Server":      server,
		"User":        user,
		"Authority":   base64.StdEncoding.EncodeToString(ca.pem),
		"Certificate": base64.StdEncoding.EncodeToString(p.certificate),
		"Key":         base64.StdEncoding.EncodeToString(p.key),
	})
}

// dated begins an hour ago, for clocks that were set back meanwhile.
func dated(template *x509.Certificate) *x509.Certificate {
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(lifetime)
	return template
}

func encode(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return block("EC PRIVATE KEY", der), err
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

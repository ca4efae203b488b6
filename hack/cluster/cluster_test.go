package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEveryConfigurationFileFills(t *testing.T) {
	s := settings{dir: t.TempDir()}
	files, err := fs.Glob(configs, "config/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no configuration files: %v", err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if name == "kubeconfig.yaml" {
			continue // filled for each user, see below
		}
		if err := s.write(name, name, 0o600); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysAreReadByTheirOwnerOnly(t *testing.T) {
	s := settings{dir: t.TempDir()}
	if err := s.certify(); err != nil {
		t.Fatal(err)
	}
	secret := 0
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".key") && !strings.HasSuffix(path, "kubeconfig") {
			return err
		}
		secret++
		info, err := entry.Info()
		if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil || secret < 8 {
		t.Errorf("looked at %d files: %v", secret, err)
	}
}

func TestOnlyRootHasItsClusterInVar(t *testing.T) {
	t.Setenv("HOME", "/people/ada")
	for uid, want := range map[int]string{
		0:    "/var/lib/freehold-cluster",
		1000: "/people/ada/.local/state/freehold-cluster",
	} {
		if got := defaultDir(uid); got != want {
			t.Errorf("uid %d: %s, not %s", uid, got, want)
		}
	}
}

func TestTheAPIServerIsTrustedUnderEachOfItsNames(t *testing.T) {
	s := settings{dir: t.TempDir()}
	if err := s.certify(); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(s.path("pki", "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	loaded, err := tls.LoadX509KeyPair(s.path("pki", "kube-apiserver.crt"), s.path("pki", "kube-apiserver.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{nodeAddress, apiService, "127.0.0.1", "kubernetes.default.svc"} {
		if _, err := loaded.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	kubelet, err := os.ReadFile(s.path("pki", "kubelet-client.crt"))
	if err != nil {
		t.Fatal(err)
	}
	client, _ := pem.Decode(kubelet)
	parsed, err := x509.ParseCertificate(client.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsed.Verify(x509.VerifyOptions{Roots: roots}); err == nil {
		t.Error("a client's certificate passes for a server's")
	}
}

func TestAFolderWithForeignFilesIsLeftAlone(t *testing.T) {
	s := settings{dir: t.TempDir()}
	if made, err := s.madeBy(); made != byNobody || err != nil {
		t.Errorf("an empty folder: %q, %v", made, err)
	}
	if err := os.WriteFile(s.path("thesis.tex"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.madeBy(); err == nil {
		t.Error("a folder with a stranger's file is taken for a cluster's")
	}
	if err := s.claim(byKind); err != nil {
		t.Fatal(err)
	}
	if made, err := s.madeBy(); made != byKind || err != nil {
		t.Errorf("a claimed folder: %q, %v", made, err)
	}
}

func TestOneCommandAtATimeWorksOnAFolder(t *testing.T) {
	s := settings{dir: filepath.Join(t.TempDir(), "cluster")}
	release, err := s.alone()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.alone(); err == nil {
		t.Error("a second command got in")
	}
	release()
	if _, err := os.Stat(s.dir); err == nil {
		t.Error("an empty folder is left behind")
	}
	if release, err = s.alone(); err != nil {
		t.Errorf("the folder stays locked: %v", err)
	}
	release()
}

package install

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/freehold-dev/freehold/test/kit"
)

// authority signs certificates, as cert-manager does.
type authority struct {
	*kit.Env
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(s *kit.Env) *authority {
	s.Helper()
	a := &authority{Env: s}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		IsCA:     true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.Must(err, "making a key")
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	s.Must(err, "signing the authority")
	a.cert, err = x509.ParseCertificate(der)
	s.Must(err, "reading the authority")
	return a
}

// secret is the data of a Secret with a new certificate for a name, as cert-manager writes it.
func (a *authority) secret(serial int64, name string) map[string][]byte {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.Must(err, "making a key")
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a.cert, &key.PublicKey, a.key)
	a.Must(err, "signing a certificate")
	private, err := x509.MarshalPKCS8PrivateKey(key)
	a.Must(err, "writing a key")
	block := func(kind string, der []byte) []byte {
		return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	}
	return map[string][]byte{
		"tls.crt": block("CERTIFICATE", der), "tls.key": block("PRIVATE KEY", private),
		"ca.crt": block("CERTIFICATE", a.cert.Raw),
	}
}

// mount writes a Secret's data into a folder as the kubelet does: into a new folder, to which a link is turned, so that
// nobody reads half of it (https://pkg.go.dev/k8s.io/kubernetes/pkg/volume/util#AtomicWriter).
func mount(s *kit.Env, dir string, data map[string][]byte) {
	s.Helper()
	fresh, err := os.MkdirTemp(dir, "..")
	s.Must(err, "mounting a Secret")
	for name, value := range data {
		s.Must(os.WriteFile(filepath.Join(fresh, name), value, 0o600), "mounting a Secret")
		if link := filepath.Join(dir, name); !exists(link) {
			s.Must(os.Symlink(filepath.Join("..data", name), link), "mounting a Secret")
		}
	}
	s.Must(os.Symlink(filepath.Base(fresh), filepath.Join(dir, "..new")), "mounting a Secret")
	s.Must(os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")), "mounting a Secret")
}

// exists tells of a link, whether it leads anywhere or not.
func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

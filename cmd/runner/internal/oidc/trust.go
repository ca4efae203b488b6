package oidc

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"sync"
)

// Trusting is a transport to servers whose certificates were issued by one of those
// in a file, in PEM, and by no other. It reads the file for each request, so that a
// change of it needs no restart. Without a certificate in it every request is an
// error.
func Trusting(path string) http.RoundTripper { return &trusting{path: path} }

type trusting struct {
	path string

	mu sync.Mutex
	// last trusts what the file held when it was bundle.
	last   *http.Transport
	bundle []byte
}

// RoundTrip implements http.RoundTripper.
func (t *trusting) RoundTrip(r *http.Request) (*http.Response, error) {
	transport, err := t.current()
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() //nolint:errcheck // nothing was sent
		}
		return nil, err
	}
	return transport.RoundTrip(r)
}

func (t *trusting) current() (*http.Transport, error) {
	bundle, err := os.ReadFile(t.path)
	if err != nil {
		return nil, fmt.Errorf("reading the CA bundle: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil && bytes.Equal(bundle, t.bundle) {
		return t.last, nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(bundle) {
		return nil, fmt.Errorf("reading the CA bundle: %s holds no certificate in PEM", t.path)
	}
	next := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // nothing here replaces it
	next.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	if t.last != nil {
		t.last.CloseIdleConnections() // no request goes over a connection that is not trusted any more
	}
	t.last, t.bundle = next, bundle
	return next, nil
}

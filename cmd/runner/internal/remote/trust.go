package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// Secure begins TLS on a connection to the server. Certificates are read anew each
// time, so that a change of them needs no restart. A connection that is not trusted
// is closed.
func (s *Server) Secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	config := &tls.Config{ServerName: s.URL.Hostname(), MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	if s.config.CABundle != nil {
		path := filepath.Join(s.files, runconfig.CAFile)
		bundle, err := os.ReadFile(path)
		if err != nil {
			_ = conn.Close() //nolint:errcheck // nothing was sent
			return nil, &Refusal{
				NotTrusted,
				"the certificates of spec.caBundleRef cannot be read: write them under its key into the ConfigMap that it names",
			}
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(bundle) {
			_ = conn.Close() //nolint:errcheck // nothing was sent
			return nil, &Refusal{NotTrusted, "the ConfigMap of spec.caBundleRef holds no certificate in PEM: write it there"}
		}
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = conn.Close() //nolint:errcheck // the handshake's error says more
		return nil, s.untrusted(err)
	}
	return secured, nil
}

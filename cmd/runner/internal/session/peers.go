package session

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
)

// ErrStranger says that the other end of a connection is no proxy of this server.
var ErrStranger = errors.New("the other end has no key of this server's sessions")

// ErrNoKey is the error of a connection between proxies where there is no key.
type ErrNoKey struct{ error }

// Unwrap is why.
func (e ErrNoKey) Unwrap() error { return e.error }

// Peers is TLS between the proxies of one server, for either end. Each shows that it has
// a key of the server's: it makes the key of the certificate, which is compared, so that
// names, issuers and times matter nothing, nor how a release writes the rest. TLS 1.3 has
// either end sign with that key (RFC 8446, section 4.4.3). An address that has become another pod's
// shows nothing, and is told nothing. It returns ErrNoKey.
func (k *Keys) Peers() (*tls.Config, error) {
	keys, err := k.current()
	if err != nil {
		return nil, ErrNoKey{err}
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{keys[0].peer},
		ClientAuth:   tls.RequireAnyClientCert,
		// Not left out: VerifyConnection does it, and nothing is resumed without it.
		InsecureSkipVerify:     true, //nolint:gosec // see above
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return ErrStranger
			}
			for _, key := range keys {
				if public, ours := state.PeerCertificates[0].PublicKey.(ed25519.PublicKey); ours &&
					public.Equal(key.peer.Leaf.PublicKey) {
					return nil
				}
			}
			return ErrStranger
		},
	}, nil
}

// Accept is Peers of each connection to a listener, with the keys of that moment.
func (k *Keys) Accept() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return k.Peers() },
	}
}

// peerOf is the certificate that an entry makes: of the same key in each proxy.
func (k *Keys) peerOf(data []byte) (tls.Certificate, error) {
	seed, err := hkdf.Key(sha256.New, data, nil, "freehold.dev proxies v1 of server "+k.server, ed25519.SeedSize)
	if err != nil {
		return tls.Certificate{}, err
	}
	private := ed25519.NewKeyFromSeed(seed)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private, Leaf: leaf}, err
}

package oidc

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
)

// otherCA issued nothing.
const otherCA = `-----BEGIN CERTIFICATE-----
MIIBRjCB7aADAgECAgEBMAoGCCqGSM49BAMCMBIxEDAOBgNVBAMTB2Fub3RoZXIw
IBcNNzAwMTAxMDAwMDAwWhgPMjEwMDAxMDEwMDAwMDBaMBIxEDAOBgNVBAMTB2Fu
b3RoZXIwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARX2rifvr89mhJAxgFdCcqo
gJgf+i3a1hnTEd5a7eS3J2OcGY5FYabItwl0d8NPBbQmk/XU4Lnuvtcl7OXDBj6t
ozIwMDAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBRQiiKbghHrIBpR/cBy6xD6
7zTdEjAKBggqhkjOPQQDAgNIADBFAiB42Bb2qGgxys50IvhVBxCniPFxrFBPpRFp
5xLlxAPGaAIhAPJj6pQUW93k0J59IMdaaRL6OZNCSxQNCM1MJLiOHCrg
-----END CERTIFICATE-----
`

// A bundle that changes is followed; while it cannot be used, the keys that are known
// go on.
func TestACABundleIsFollowed(t *testing.T) {
	p, now := oidctest.New(t), clock
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	h := front(p, func() time.Time { return now },
		func(c *Config) { c.Client = &http.Client{Transport: Trusting(bundle)} })
	for _, step := range []struct {
		name, bundle string
		kid          string
		want         int
	}{
		{"no certificate", "back soon", "one", 503},
		{"another's certificate", otherCA, "one", 503},
		{"the issuer's", string(p.Bundle()), "one", 200},
		{"one of two", otherCA + string(p.Bundle()), "two", 200},
		{"another's, and keys that are known", otherCA, "two", 200},
		{"another's, and a key that is not", otherCA, "three", 401},
	} {
		now = now.Add(keyAge)
		p.Kid.Store(step.kid)
		if err := os.WriteFile(bundle, []byte(step.bundle), 0o600); err != nil {
			t.Fatal(err)
		}
		token := p.Token(t, oidctest.Object{"alg": "RS256", "kid": step.kid},
			oidctest.Object{"iss": p.URL, "sub": "ann", "aud": resource, "exp": now.Unix() + 60})
		if got := send(h, http.MethodPost, "/mcp", withToken(token)); got.Code != step.want {
			t.Errorf("%s: %d %s, want %d", step.name, got.Code, got.Body, step.want)
		}
	}
}

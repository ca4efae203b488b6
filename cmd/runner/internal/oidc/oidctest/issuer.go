// Package oidctest is an issuer of tokens for tests.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Issuer signs tokens with real keys, and can go away.
type Issuer struct {
	*httptest.Server
	rsa *rsa.PrivateKey
	ec  *ecdsa.PrivateKey
	// Kid is the id of the RSA key; that of the other is "ec".
	Kid atomic.Value
	// Fetches counts how often the keys were asked for.
	Fetches atomic.Int32
	// Down makes it answer nothing, Empty makes it have no keys, and Hang makes it
	// wait until the channel is closed.
	Down, Empty atomic.Bool
	Hang        atomic.Pointer[chan struct{}]
	// Asked counts how often it was asked about a token, and Busy how many questions
	// it has now. It tells what is in Tokens, an Object or a text that it answers as it
	// stands, and of others that they are not active, once Held is closed, if there is
	// one. Password is of the client "mcp:proxy".
	Asked, Busy atomic.Int32
	Tokens      sync.Map
	Held        atomic.Pointer[chan struct{}]
	Password    atomic.Value
	// Keys is where the discovery document says that the keys are, if not here.
	Keys atomic.Value
}

// New starts an issuer on loopback, with TLS.
func New(t *testing.T) *Issuer {
	t.Helper()
	p := &Issuer{}
	var err error
	if p.rsa, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	if p.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	p.Kid.Store("one")
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		where, ok := p.Keys.Load().(string)
		if !ok {
			where = p.URL + "/keys"
		}
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, p.URL, where)
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		p.Fetches.Add(1)
		if p.Empty.Load() {
			fmt.Fprint(w, `{"keys":[]}`)
			return
		}
		x, y := p.ec.X.FillBytes(make([]byte, 32)), p.ec.Y.FillBytes(make([]byte, 32))
		ec := Object{"kty": "EC", "crv": "P-256", "kid": "ec", "x": text(x), "y": text(y)}
		answer(w, Object{"keys": []Object{p.Key().With(Object{"kid": p.Kid.Load()}), ec}})
	})
	p.Password.Store("secret")
	mux.HandleFunc("POST /introspect", p.introspect)
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hang := p.Hang.Load(); hang != nil {
			<-*hang
		}
		if p.Down.Load() {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// Renew makes the issuer sign with a new RSA key, of the id of the old one.
func (p *Issuer) Renew(t *testing.T) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.rsa = key
}

func (p *Issuer) introspect(w http.ResponseWriter, r *http.Request) {
	p.Asked.Add(1)
	p.Busy.Add(1)
	defer p.Busy.Add(-1)
	name, password, _ := r.BasicAuth()
	if name != "mcp%3Aproxy" || password != url.QueryEscape(fmt.Sprint(p.Password.Load())) {
		http.Error(w, "who asks?", http.StatusUnauthorized)
		return
	}
	told, known := p.Tokens.Load(r.PostFormValue("token"))
	if held := p.Held.Load(); !known && held != nil {
		<-*held
	}
	switch told := told.(type) {
	case string:
		fmt.Fprint(w, told)
	case Object:
		answer(w, told.With(Object{"active": true}))
	default:
		fmt.Fprint(w, `{"active":false}`)
	}
}

// Bundle is the certificate of whoever issued the server's, in PEM.
func (p *Issuer) Bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.Certificate().Raw})
}

func text(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Object is a JSON object.
type Object map[string]any

// With is o with the other's members; nil removes one.
func (o Object) With(other Object) Object {
	all := maps.Clone(o)
	for name, v := range other {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	return all
}

func answer(w http.ResponseWriter, body Object) {
	data, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "%s", data)
}

// Key is the public RSA key.
func (p *Issuer) Key() Object {
	return Object{"kty": "RSA", "n": text(p.rsa.N.Bytes()), "e": text(big.NewInt(int64(p.rsa.E)).Bytes())}
}

// Encoded is v as a part of a token.
func Encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return text(data)
}

// Token signs claims as header's alg says.
func (p *Issuer) Token(t *testing.T, header, claims Object) string {
	t.Helper()
	head := Encoded(header) + "." + Encoded(claims)
	sum := sha256.Sum256([]byte(head))
	switch header["alg"] {
	case "RS256":
		signature, err := rsa.SignPKCS1v15(rand.Reader, p.rsa, crypto.SHA256, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return head + "." + text(signature)
	case "ES256":
		r, s, err := ecdsa.Sign(rand.Reader, p.ec, sum[:])
		if err != nil {
			t.Fatal(err)
		}
		return head + "." + text(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
	case "HS256":
		mac := hmac.New(sha256.New, p.rsa.N.Bytes())
		mac.Write([]byte(head))
		return head + "." + text(mac.Sum(nil))
	}
	return head + "."
}

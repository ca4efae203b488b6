package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/utils/lru"

	"github.com/freehold-dev/freehold/controllers/authz"
)

// remembered is how many verified tokens are kept, until they expire: verifying a
// signature takes longer than all the rest of a call.
const remembered = 4096

// identity is what a valid token says.
type identity struct {
	caller  authz.Caller
	scopes  []string
	expires time.Time
}

// tokens verifies tokens, each once.
type tokens struct {
	config   Config
	issuer   *issuer
	verified *lru.Cache // by hash, so that no dump of the memory holds a token
}

func newTokens(config Config) *tokens {
	return &tokens{config: config, issuer: newIssuer(config), verified: lru.New(remembered)}
}

// verify returns who sent a token. The error is errUnavailable if that cannot be
// told now, else it says what is wrong with the token.
func (t *tokens) verify(ctx context.Context, token string) (identity, error) {
	key := sha256.Sum256([]byte(token))
	if known, ok := t.verified.Get(key); ok {
		id := known.(identity) //nolint:forcetypeassert // nothing else is added
		if t.config.Now().Before(id.expires) {
			return id, nil
		}
		t.verified.Remove(key)
	}
	id, err := t.judge(ctx, token)
	if err == nil {
		t.verified.Add(key, id)
	}
	return id, err
}

// claims are those that are checked; each is checked here, for the library's
// leeway is its own.
type claims struct {
	Expires   *float64       `json:"exp"`
	NotBefore *float64       `json:"nbf"`
	Scope     string         `json:"scope"`
	Scp       jsontext.Value `json:"scp"`
}

func (t *tokens) judge(ctx context.Context, token string) (identity, error) {
	keys := &signatures{issuer: t.issuer}
	verifier := oidc.NewVerifier("", keys, &oidc.Config{
		SkipClientIDCheck: true, SkipIssuerCheck: true, SkipExpiryCheck: true, SupportedSigningAlgs: t.config.Algorithms,
	})
	valid, err := verifier.Verify(ctx, token)
	switch {
	case keys.unavailable:
		return identity{}, errUnavailable
	case err != nil:
		return identity{}, errors.New("the token is not a JWT that the issuer has signed with an algorithm that is allowed")
	case valid.Issuer != keys.name:
		return identity{}, errors.New("the token is of another issuer")
	case !slices.ContainsFunc(valid.Audience, func(a string) bool { return slices.Contains(t.config.Audiences, a) }):
		return identity{}, fmt.Errorf("the token is for another audience: it must be for %s", strings.Join(t.config.Audiences, " or "))
	}
	return t.read(keys.payload)
}

// read checks the claims of a token whose signature is right.
func (t *tokens) read(payload []byte) (identity, error) {
	var c claims
	var all map[string]jsontext.Value
	if json.Unmarshal(payload, &all) != nil || json.Unmarshal(payload, &c) != nil {
		return identity{}, errors.New("the token's claims cannot be read")
	}
	var name string
	if json.Unmarshal(all[t.config.UsernameClaim], &name) != nil || name == "" {
		return identity{}, fmt.Errorf("the token has no claim %s that names its bearer", t.config.UsernameClaim)
	}
	if c.Expires == nil {
		return identity{}, errors.New("the token has no claim exp")
	}
	now, expires := t.config.Now(), at(*c.Expires).Add(t.config.Skew)
	if !now.Before(expires) {
		return identity{}, errors.New("the token has expired")
	}
	if c.NotBefore != nil && now.Add(t.config.Skew).Before(at(*c.NotBefore)) {
		return identity{}, errors.New("the token is not valid yet")
	}
	return identity{
		caller:  authz.Caller{Subject: name, Claims: payload},
		scopes:  append(strings.Fields(c.Scope), scopes(c.Scp)...),
		expires: expires,
	}, nil
}

// at is a NumericDate (RFC 7519, section 2), bounded to what time can hold.
func at(seconds float64) time.Time {
	const far = 1 << 40
	return time.Unix(int64(min(max(seconds, 0), far)), 0)
}

// scopes reads the claim scp, which some providers send in place of scope, as a
// list or as a string.
func scopes(scp jsontext.Value) []string {
	var list []string
	if json.Unmarshal(scp, &list) == nil {
		return list
	}
	var text string
	_ = json.Unmarshal(scp, &text) //nolint:errcheck // what is neither holds no scope
	return strings.Fields(text)
}

// signatures is the key set of one verification, and what came of it.
type signatures struct {
	issuer      *issuer
	name        string
	payload     []byte
	unavailable bool
}

// VerifySignature implements oidc.KeySet.
func (s *signatures) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	var err error
	s.payload, s.name, err = s.issuer.verify(ctx, token)
	s.unavailable = errors.Is(err, errUnavailable)
	return s.payload, err
}

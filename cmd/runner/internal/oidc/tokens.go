package oidc

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/utils/lru"

	"github.com/freehold-dev/freehold/controllers/authz"
)

// remembered is how many verified tokens are kept, until they expire: verifying a
// signature takes longer than all the rest of a call. Each holds up to 12 KiB.
const remembered = 1024

// identity is what a valid token says.
type identity struct {
	caller authz.Caller
	// scoped reports whether it has all scopes that are needed.
	scoped  bool
	expires time.Time
}

// tokens verifies tokens, each once.
type tokens struct {
	config     Config
	algorithms []jose.SignatureAlgorithm
	issuer     *issuer
	verified   *lru.Cache // by hash, so that no dump of the memory holds a token
}

func newTokens(config Config) *tokens {
	t := &tokens{config: config, issuer: newIssuer(config), verified: lru.New(remembered)}
	for _, algorithm := range config.Algorithms {
		t.algorithms = append(t.algorithms, jose.SignatureAlgorithm(algorithm))
	}
	return t
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

// claims are those that are checked (RFC 7519, section 4.1).
type claims struct {
	Issuer    string         `json:"iss"`
	Audience  jsontext.Value `json:"aud"`
	Expires   *float64       `json:"exp"`
	NotBefore *float64       `json:"nbf"`
	Scope     string         `json:"scope"`
	Scp       jsontext.Value `json:"scp"`
}

func (t *tokens) judge(ctx context.Context, token string) (identity, error) {
	// The compact form alone: other forms spell one token in many ways.
	signed, err := jose.ParseSignedCompact(token, t.algorithms)
	if err != nil {
		return identity{}, errNotSigned
	}
	payload, issuer, err := t.issuer.verify(ctx, signed)
	switch {
	case errors.Is(err, errUnavailable):
		return identity{}, err
	case err != nil:
		return identity{}, errNotSigned
	}
	return t.read(payload, issuer)
}

// errNotSigned is the error of what is no token of the issuer.
var errNotSigned = errors.New("the token is not a JWT that the issuer has signed with an algorithm that is allowed")

// read checks the claims of a token whose signature is right.
func (t *tokens) read(payload []byte, issuer string) (identity, error) {
	var c claims
	var all map[string]jsontext.Value
	if json.Unmarshal(payload, &all) != nil || json.Unmarshal(payload, &c) != nil {
		return identity{}, errors.New("the token's claims cannot be read")
	}
	if c.Issuer != issuer {
		return identity{}, errors.New("the token is of another issuer")
	}
	if !slices.ContainsFunc(listed(c.Audience), func(a string) bool { return slices.Contains(t.config.Audiences, a) }) {
		return identity{}, fmt.Errorf("the token is for another audience: it must be for %s", strings.Join(t.config.Audiences, " or "))
	}
	var name string
	if json.Unmarshal(all[t.config.UsernameClaim], &name) != nil || name == "" {
		return identity{}, fmt.Errorf("the token has no claim %s that names its bearer", t.config.UsernameClaim)
	}
	// Some providers let everybody register with an address that is not theirs.
	if verified, told := all["email_verified"]; told && t.config.UsernameClaim == "email" && string(verified) != "true" {
		return identity{}, errors.New("the token's claim email is not verified: its claim email_verified must be true")
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
		scoped:  scoped(append(strings.Fields(c.Scope), scopes(c.Scp)...), t.config.Scopes),
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
	if list := listed(scp); len(list) != 1 {
		return list
	}
	return strings.Fields(listed(scp)[0])
}

// listed is a claim that is a list of texts or one text.
func listed(claim jsontext.Value) []string {
	var list []string
	if json.Unmarshal(claim, &list) == nil {
		return list
	}
	var text string
	if json.Unmarshal(claim, &text) != nil {
		return nil
	}
	return []string{text}
}

package oidc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
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
// signature takes longer than all the rest of a call. Each holds up to 12 KiB of
// claims, or up to 64 KiB where the issuer tells that many of a token.
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
	introspect *introspector // nil where all tokens are JWTs
	verified   *lru.Cache    // by hash, so that no dump of the memory holds a token
}

func newTokens(config Config) *tokens {
	t := &tokens{config: config, issuer: newIssuer(config), verified: lru.New(remembered)}
	if config.Introspection != nil {
		t.introspect = newIntrospector(config, t.read)
	}
	for _, algorithm := range config.Algorithms {
		t.algorithms = append(t.algorithms, jose.SignatureAlgorithm(algorithm))
	}
	return t
}

// verify returns who sent a token. The error is an errUnavailable if that cannot be
// told now, else it says what is wrong with the token. from is the address that it comes from.
func (t *tokens) verify(ctx context.Context, token, from string) (identity, error) {
	key := sha256.Sum256([]byte(token))
	known, wasValid := t.verified.Get(key)
	if wasValid {
		id := known.(identity) //nolint:forcetypeassert // nothing else is added
		if t.config.Now().Before(id.expires) {
			return id, nil
		}
	}
	id, err := t.judge(ctx, token, from, key, wasValid)
	switch {
	case err == nil:
		t.verified.Add(key, id)
	case !errors.Is(err, errUnavailable):
		t.verified.Remove(key)
	}
	return id, err
}

// claims are those of a token, by name.
type claims map[string]jsontext.Value

// claim is one of a type, nil where the token does not have it, or has null. Its error names the claim.
func claim[T any](c claims, name string) (*T, error) {
	raw := c[name]
	if raw == nil || raw.Kind() == 'n' {
		return nil, nil //nolint:nilnil // it is absent
	}
	value := new(T)
	if json.Unmarshal(raw, value) != nil {
		return nil, fmt.Errorf("the token's claim %s has another type than RFC 7519 says", name)
	}
	return value, nil
}

// judge verifies a JWT by the issuer's keys, and has the issuer tell of any other
// token. An issuer without keys tells of all.
func (t *tokens) judge(ctx context.Context, token, from string, key hash, wasValid bool) (identity, error) {
	if t.introspect == nil {
		return t.signed(ctx, token, from)
	}
	if isJWT(token) {
		known, err := t.issuer.current(ctx)
		if err != nil {
			return identity{}, err
		}
		if len(known.set) > 0 {
			return t.signed(ctx, token, from)
		}
	}
	return t.introspect.ask(ctx, token, from, key, wasValid)
}

// isJWT reports whether a token has the form of a JWT (RFC 7519, section 7.2),
// whoever may have signed it, and whether it is signed at all.
func isJWT(token string) bool {
	head, rest, _ := strings.Cut(token, ".")
	header, err := base64.RawURLEncoding.DecodeString(head)
	return err == nil && strings.Count(rest, ".") == 1 && bytes.HasPrefix(bytes.TrimSpace(header), []byte("{"))
}

func (t *tokens) signed(ctx context.Context, token, from string) (identity, error) {
	// The compact form alone: other forms spell one token in many ways.
	signed, err := jose.ParseSignedCompact(token, t.algorithms)
	if err != nil {
		return identity{}, errNotSigned
	}
	payload, issuer, err := t.issuer.verify(ctx, signed, from)
	switch {
	case errors.Is(err, errUnavailable):
		return identity{}, err
	case err != nil:
		return identity{}, errNotSigned
	case !forCalls(signed.Signatures[0].Header.ExtraHeaders[jose.HeaderType]):
		return identity{}, errOtherType
	}
	return t.read(payload, issuer, false)
}

// forCalls reports whether a token of this type may be an access token. Most providers write JWT or nothing into every
// token, those that follow RFC 9068 (section 2.1) at+jwt, some with a prefix of their own; who writes another type says
// that the token is for something else: an ID token, a logout, a proof of possession (RFC 8725, section 3.11).
func forCalls(typ any) bool {
	if typ == nil {
		return true
	}
	text, ok := typ.(string)
	text = strings.TrimPrefix(strings.ToLower(text), "application/")
	return ok && (text == "jwt" || text == "at+jwt" || strings.HasSuffix(text, "-at+jwt"))
}

// errNotSigned is the error of what is no token of the issuer.
var errNotSigned = errors.New("the token is not a JWT that the issuer has signed with an algorithm that is allowed")

// errOtherType is the error of a token that the issuer has made for something else.
var errOtherType = errors.New("the token is no access token: its header typ must be JWT or at+jwt, or be left out")

// read checks the claims of a token that the issuer has signed, or that it has told
// of: it may then leave out its name and when the token expires (RFC 7662, section
// 2.2).
func (t *tokens) read(payload []byte, issuer string, told bool) (identity, error) {
	var all claims
	if json.Unmarshal(payload, &all) != nil {
		return identity{}, errors.New("the token's claims cannot be read")
	}
	if name, err := claim[string](all, "iss"); err != nil {
		return identity{}, err
	} else if (name == nil || *name != issuer) && (!told || all["iss"] != nil) {
		return identity{}, errors.New("the token is of another issuer")
	}
	if !slices.ContainsFunc(listed(all["aud"]), func(a string) bool { return slices.Contains(t.config.Audiences, a) }) {
		return identity{}, fmt.Errorf("the token is for another audience: it must be for %s",
			strings.Join(t.config.Audiences, " or "))
	}
	name, err := t.username(all)
	if err != nil {
		return identity{}, err
	}
	groups, err := t.groups(all)
	if err != nil {
		return identity{}, err
	}
	expires, err := t.expiry(all, told)
	if err != nil {
		return identity{}, err
	}
	return identity{
		caller:  authz.Caller{Subject: name, Issuer: issuer, Claims: payload, Groups: groups}.Ready(),
		scoped:  scoped(append(scopes(all["scope"]), scopes(all["scp"])...), t.config.Scopes),
		expires: expires,
	}, nil
}

// username is who sent the token.
func (t *tokens) username(all claims) (string, error) {
	var name string
	if json.Unmarshal(all[t.config.UsernameClaim], &name) != nil || name == "" {
		return "", fmt.Errorf("the token has no claim %s that names its bearer", t.config.UsernameClaim)
	}
	if name == authz.Anonymous {
		return "", fmt.Errorf("the token's claim %s is %q, the name of callers who have not logged in",
			t.config.UsernameClaim, name)
	}
	// Some providers let everybody register with an address that is not theirs.
	if verified, told := all["email_verified"]; told && t.config.UsernameClaim == "email" && string(verified) != "true" {
		return "", errors.New("the token's claim email is not verified: its claim email_verified must be true")
	}
	return name, nil
}

// The groups of a caller, and the bytes of the name of one, are bounded: policies look
// at them with every call.
const maxGroups, maxGroup = 512, 512

// groups are those of the caller. A claim that cannot be taken whole is an error: a
// policy that forbids a group must not miss it.
func (t *tokens) groups(all claims) ([]string, error) {
	name := t.config.GroupsClaim
	claim, told := all[name]
	if name == "" {
		return nil, nil
	}
	// Providers leave out a claim that is long, and say so (OpenID Connect Core,
	// section 5.6.2).
	var elsewhere map[string]jsontext.Value
	if json.Unmarshal(all["_claim_names"], &elsewhere) == nil && elsewhere[name] != nil {
		return nil, fmt.Errorf("the token only refers to its claim %s (_claim_names): have the provider send fewer groups",
			name)
	}
	if !told || string(claim) == "null" {
		return nil, nil
	}
	groups := listed(claim)
	switch {
	case groups == nil:
		return nil, fmt.Errorf("the token's claim %s is neither a text nor a list of texts", name)
	case len(groups) > maxGroups:
		return nil, fmt.Errorf("the token's claim %s has %d groups, more than %d: have the provider send fewer", name,
			len(groups), maxGroups)
	case slices.ContainsFunc(groups, func(g string) bool { return len(g) > maxGroup }):
		return nil, fmt.Errorf("the token's claim %s has a group with a name of more than %d bytes", name, maxGroup)
	}
	return groups, nil
}

// expiry is until when the token need not be judged again.
func (t *tokens) expiry(all claims, told bool) (time.Time, error) {
	until, wrong := claim[float64](all, "exp")
	from, alsoWrong := claim[float64](all, "nbf")
	if err := cmp.Or(wrong, alsoWrong); err != nil {
		return time.Time{}, err
	}
	now := t.config.Now()
	expires := now.Add(toldAge)
	if until != nil {
		end := at(*until).Add(t.config.Skew)
		if !now.Before(end) {
			return time.Time{}, errors.New("the token has expired")
		}
		if !told || end.Before(expires) {
			expires = end
		}
	} else if !told {
		return time.Time{}, errors.New("the token has no claim exp")
	}
	if from != nil && now.Add(t.config.Skew).Before(at(*from)) {
		return time.Time{}, errors.New("the token is not valid yet")
	}
	return expires, nil
}

// at is a NumericDate (RFC 7519, section 2), bounded to what time can hold.
func at(seconds float64) time.Time {
	const far = 1 << 40
	return time.Unix(int64(min(max(seconds, 0), far)), 0)
}

// scopes are those of the claim scope, or scp in its place: a text with spaces in between (RFC 8693, section 4.2), or a
// list of texts.
func scopes(claim jsontext.Value) (all []string) {
	for _, text := range listed(claim) {
		all = append(all, strings.Fields(text)...)
	}
	return all
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

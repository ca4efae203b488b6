package oidc

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
)

// attempt is a request with a header, and its answer.
type attempt struct {
	header http.Header
	edit   func(*Config)
	status int
	want   string
}

// forge makes the tokens of a table: of an issuer, and of one that nobody asked.
type forge struct {
	*testing.T
	p, rogue *oidctest.Issuer
	claims   oidctest.Object
}

var (
	rs = oidctest.Object{"alg": "RS256", "kid": "one"}
	es = oidctest.Object{"alg": "ES256", "kid": "ec"}
)

// signed is a valid token but for members of its header.
func (f forge) signed(header oidctest.Object) http.Header {
	return withToken(f.p.Token(f.T, header, f.claims))
}

// says is a valid token but for claims.
func (f forge) says(change oidctest.Object) http.Header {
	return withToken(f.p.Token(f.T, rs, f.claims.With(change)))
}

// names is a token that nobody signed, whose header tells where its key is.
func (f forge) names(member string, value any) http.Header {
	return withToken(f.rogue.Token(f.T, rs.With(oidctest.Object{member: value}), f.claims))
}

func (f forge) valid() map[string]attempt {
	email := func(c *Config) { c.UsernameClaim = "email" }
	return map[string]attempt{
		"RS256":               {f.signed(rs), nil, 200, `ann with ""`},
		"ES256":               {f.signed(es), nil, 200, "ann"},
		"without kid":         {f.signed(oidctest.Object{"alg": "RS256"}), nil, 200, "ann"},
		"audience in a list":  {f.says(oidctest.Object{"aud": []string{"x", resource}}), nil, 200, "ann"},
		"expired within skew": {f.says(oidctest.Object{"exp": clock.Unix() - 9}), nil, 200, "ann"},
		"early within skew":   {f.says(oidctest.Object{"nbf": clock.Unix() + 9}), nil, 200, "ann"},
		"another name":        {f.signed(rs), email, 200, "ann@example.com"},
		"a verified e-mail":   {f.says(oidctest.Object{"email_verified": true}), email, 200, "ann@example.com"},
		"among those let in":  {f.signed(rs), func(c *Config) { c.Usernames = []string{"ann"} }, 200, "ann"},
		"scopes":              {f.signed(rs), func(c *Config) { c.Scopes = []string{"tools:call"} }, 200, "ann"},
		"scopes as scp": {
			f.says(oidctest.Object{"scope": nil, "scp": []string{"a"}}),
			func(c *Config) { c.Scopes = []string{"a"} }, 200, "ann",
		},
		"scope as a list": {
			f.says(oidctest.Object{"scope": []string{"a", "b"}}),
			func(c *Config) { c.Scopes = []string{"a", "b"} }, 200, "ann",
		},
		"scope of no type": {f.says(oidctest.Object{"scope": 1}), nil, 200, "ann"},
		"scope lists a text": {
			f.says(oidctest.Object{"scope": []string{"a b"}}),
			func(c *Config) { c.Scopes = []string{"a", "b"} }, 200, "ann",
		},
		"typ JWT":           {f.signed(rs.With(oidctest.Object{"typ": "JWT"})), nil, 200, "ann"},
		"typ at+jwt":        {f.signed(rs.With(oidctest.Object{"typ": "at+jwt"})), nil, 200, "ann"},
		"typ with its type": {f.signed(rs.With(oidctest.Object{"typ": "application/AT+JWT"})), nil, 200, "ann"},
		"typ of Okta":       {f.signed(rs.With(oidctest.Object{"typ": "application/okta-internal-at+jwt"})), nil, 200, "ann"},
	}
}

func (f forge) wrongClaims() map[string]attempt {
	return map[string]attempt{
		"expired":                  {f.says(oidctest.Object{"exp": clock.Unix() - 10}), nil, 401, "expired"},
		"without expiry":           {f.says(oidctest.Object{"exp": nil}), nil, 401, "no claim exp"},
		"an expiry that is a text": {f.says(oidctest.Object{"exp": "tomorrow"}), nil, 401, "claim exp has another type"},
		"an issuer that is a list": {
			f.says(oidctest.Object{"iss": []string{f.p.URL}}), nil, 401,
			"claim iss has another type",
		},
		"a scope of no type": {
			f.says(oidctest.Object{"scope": 1}), func(c *Config) { c.Scopes = []string{"a"} }, 403,
			"lacks a scope",
		},
		"early":                   {f.says(oidctest.Object{"nbf": clock.Unix() + 11}), nil, 401, "not valid yet"},
		"wrong audience":          {f.says(oidctest.Object{"aud": "https://other"}), nil, 401, "audience"},
		"no audience":             {f.says(oidctest.Object{"aud": nil}), nil, 401, "audience"},
		"an audience in capitals": {f.says(oidctest.Object{"aud": "https://other", "AUD": resource}), nil, 401, "audience"},
		"wrong issuer":            {f.says(oidctest.Object{"iss": "https://other"}), nil, 401, "another issuer"},
		"no issuer":               {f.says(oidctest.Object{"iss": nil}), nil, 401, "another issuer"},
		"no subject":              {f.says(oidctest.Object{"sub": nil}), nil, 401, "no claim sub"},
		"a subject that is a list": {
			f.says(oidctest.Object{"who": []string{"ann"}}),
			func(c *Config) { c.UsernameClaim = "who" }, 401, "no claim who",
		},
		"an unverified e-mail": {
			f.says(oidctest.Object{"email_verified": false}),
			func(c *Config) { c.UsernameClaim = "email" }, 401, "not verified",
		},
		"a subject without a login": {f.says(oidctest.Object{"sub": "anonymous"}), nil, 401, "who have not logged in"},
		"a name without a login": {
			f.says(oidctest.Object{"who": "anonymous"}),
			func(c *Config) { c.UsernameClaim = "who" }, 401, "claim who is",
		},
		"not let in":    {f.signed(rs), func(c *Config) { c.Usernames = []string{"bob"} }, denied, "ann is not listed"},
		"lacks a scope": {f.signed(rs), func(c *Config) { c.Scopes = []string{"tools:call", "admin"} }, 403, "admin"},
	}
}

// A key is one of the issuer's, whatever a token says of it.
func (f forge) wrongKeys() map[string]attempt {
	changed := strings.Split(f.p.Token(f.T, rs, f.claims), ".")
	changed[1] = oidctest.Encoded(f.claims.With(oidctest.Object{"sub": "root"}))
	der := base64.StdEncoding.EncodeToString(f.rogue.Certificate().Raw)
	return map[string]attempt{
		"forged":                  {withToken(strings.Join(changed, ".")), nil, 401, "not a JWT"},
		"of another issuer":       {withToken(f.rogue.Token(f.T, rs, f.claims)), nil, 401, "not a JWT"},
		"alg none":                {f.signed(oidctest.Object{"alg": "none"}), nil, 401, "not a JWT"},
		"alg None":                {f.signed(oidctest.Object{"alg": "None"}), nil, 401, "not a JWT"},
		"HS256 with public key":   {f.signed(oidctest.Object{"alg": "HS256", "kid": "one"}), nil, 401, "not a JWT"},
		"an algorithm not let in": {f.signed(es), func(c *Config) { c.Algorithms = []string{"RS256"} }, 401, "not a JWT"},
		"kid of another key":      {f.signed(oidctest.Object{"alg": "RS256", "kid": "ec"}), nil, 401, "not a JWT"},
		"kid that is a path": {
			f.signed(oidctest.Object{"alg": "RS256", "kid": "../../dev/null"}), nil, 401,
			"not a JWT",
		},
		"kid that is a URL":    {f.names("kid", f.rogue.URL+"/keys"), nil, 401, "not a JWT"},
		"kid that is a number": {f.names("kid", 1), nil, 401, "not a JWT"},
		"jku":                  {f.names("jku", f.rogue.URL+"/keys"), nil, 401, "not a JWT"},
		"jwk":                  {f.names("jwk", f.rogue.Key()), nil, 401, "not a JWT"},
		"x5u":                  {f.names("x5u", f.rogue.URL+"/keys"), nil, 401, "not a JWT"},
		"x5c":                  {f.names("x5c", []string{der}), nil, 401, "not a JWT"},
		"typ of an ID token":   {f.signed(rs.With(oidctest.Object{"typ": "id_token"})), nil, 401, "no access token"},
		"typ of a logout":      {f.signed(rs.With(oidctest.Object{"typ": "logout+jwt"})), nil, 401, "no access token"},
		"typ of a proof":       {f.signed(rs.With(oidctest.Object{"typ": "dpop+jwt"})), nil, 401, "no access token"},
		"typ that is a list":   {f.signed(rs.With(oidctest.Object{"typ": []string{"JWT"}})), nil, 401, "no"},
		"a critical extension": {f.signed(rs.With(oidctest.Object{"crit": []string{"b"}, "b": true})), nil, 401, "not a JWT"},
	}
}

func (f forge) wrongForm() map[string]attempt {
	token := f.p.Token(f.T, rs, f.claims)
	parts := strings.Split(token, ".")
	// The other form of a token (RFC 7515, section 7.2).
	asJSON := fmt.Sprintf(`{"protected":%q,"payload":%q,"signature":%q}`, parts[0], parts[1], parts[2])
	return map[string]attempt{
		"none":                             {nil, nil, 401, "no token"},
		"as JSON":                          {withToken(asJSON), nil, 401, "not a JWT"},
		"encrypted":                        {withToken(token + ".a.b"), nil, 401, "not a JWT"},
		"oversized":                        {withToken(strings.Repeat("a", maxToken+1)), nil, 401, "too long"},
		"twice":                            {withToken(token, token), nil, 400, "more than once"},
		"two in one":                       {withToken(token + ", Bearer " + token), nil, 401, "not a JWT"},
		"empty":                            {http.Header{"Authorization": {"Bearer "}}, nil, 400, "not of the form"},
		"another scheme":                   {http.Header{"Authorization": {"Basic YTpi"}}, nil, 401, "no token"},
		"in the query":                     {http.Header{"Query": {"access_token=" + token}}, nil, 400, "query"},
		"in the query, by semicolons":      {http.Header{"Query": {"access_token=" + token + ";y"}}, nil, 400, "query"},
		"in the query, behind a semicolon": {http.Header{"Query": {"a=b;access_token=" + token}}, nil, 400, "query"},
		"in the query, in capitals":        {http.Header{"Query": {"Access_Token=" + token}}, nil, 400, "query"},
		"in the query, beside what is bad": {http.Header{"Query": {"a=%zz&access_token=%zz" + token}}, nil, 400, "query"},
		"in the query, escaped":            {http.Header{"Query": {"a=b&%61ccess_token=" + token}}, nil, 400, "query"},
	}
}

func (f forge) groups() map[string]attempt {
	edit := func(c *Config) { c.GroupsClaim = "groups" }
	in := func(groups any) http.Header { return f.says(oidctest.Object{"groups": groups}) }
	elsewhere := f.says(oidctest.Object{"_claim_names": oidctest.Object{"groups": "src1"}})
	return map[string]attempt{
		"groups":                   {in([]string{"dev", "ops"}), edit, 200, "ann dev ops with"},
		"one group":                {in("dev"), edit, 200, "ann dev with"},
		"no groups":                {in(nil), edit, 200, "ann with"},
		"no groups, said":          {in([]string{}), edit, 200, "ann with"},
		"groups of another claim":  {in([]string{"dev"}), nil, 200, "ann with"},
		"groups that are numbers":  {in([]int{1}), edit, 401, "neither a text nor a list"},
		"too many groups":          {in(make([]string, maxGroups+1)), edit, 401, "more than 512"},
		"a group that is long":     {in(strings.Repeat("a", maxGroup+1)), edit, 401, "more than 512 bytes"},
		"groups that are left out": {elsewhere, edit, 401, "only refers to its claim groups"},
	}
}

// transports are the ways in which a token comes.
var transports = []struct{ method, accept string }{
	{http.MethodPost, "application/json"},
	{http.MethodPost, "text/event-stream"},
	{http.MethodGet, "text/event-stream"},
	{http.MethodDelete, ""},
}

func TestTokens(t *testing.T) {
	f := forge{T: t, p: oidctest.New(t), rogue: oidctest.New(t)}
	f.claims = oidctest.Object{
		"iss": f.p.URL, "sub": "ann", "aud": resource, "exp": clock.Unix() + 60,
		"email": "ann@example.com", "scope": "tools:call tools:list",
	}
	rows := f.valid()
	for _, more := range []map[string]attempt{f.wrongClaims(), f.wrongKeys(), f.wrongForm(), f.groups()} {
		maps.Copy(rows, more)
	}
	for name, tc := range rows {
		t.Run(name, func(t *testing.T) {
			h, target := front(f.p, at0, tc.edit), "/mcp?"+tc.header.Get("Query")
			for _, by := range transports {
				header := http.Header{"Accept": {by.accept}}
				maps.Copy(header, tc.header)
				got := send(h, by.method, target, header)
				if got.Code != tc.status || !strings.Contains(got.Body.String(), tc.want) {
					t.Errorf("%v: got %d %s, want %d with %q", by, got.Code, got.Body, tc.status, tc.want)
				}
				challenge := got.Header().Get("WWW-Authenticate")
				if where := `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/echo/mcp"`; tc.status == 401 && !strings.Contains(challenge, where) {
					t.Errorf("%v: the challenge is %q", by, challenge)
				}
			}
		})
	}
	if f.rogue.Fetches.Load() > 0 {
		t.Error("a token has the proxy fetch keys of whoever signed it")
	}
}

// fuzzed is a login whose issuer is not asked: answers are all it ever gets.
func fuzzed(answer string) *tokens {
	return newTokens(Config{
		Issuer: "https://a", KeysURL: "https://a/keys", Audiences: []string{resource}, UsernameClaim: "sub",
		GroupsClaim: "groups", Now: at0,
		Algorithms: []string{"RS256"}, Scopes: []string{"tools"},
		Client: &http.Client{Transport: answering(answer)},
	})
}

type answering string

// RoundTrip implements http.RoundTripper.
func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(a)))}, nil
}

// FuzzClaims holds any claims to: no panic, and who is let in has a name, and is not
// for another server.
func FuzzClaims(f *testing.F) {
	for _, seed := range []string{
		`{"iss":"https://a","sub":"ann","aud":["x","` + resource +
			`"],"exp":1900000000,"nbf":1,"scope":"tools a","groups":["dev"]}`,
		`{"sub":"ann","aud":"` + resource + `","scp":["tools"],"groups":"dev","active":true}`,
		`{"aud":{},"exp":1e300,"nbf":-1e300}`, `[]`, `{"_claim_names":{"groups":"s"}}`,
	} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	t := fuzzed("")
	f.Fuzz(func(tt *testing.T, payload string, told bool) {
		id, err := t.read([]byte(payload), "https://a", told)
		if err != nil {
			return
		}
		if id.caller.Subject == "" || len(id.caller.Groups) > maxGroups || !id.expires.After(clock) ||
			!strings.Contains(payload, "aud") {
			tt.Errorf("%q is %+v", payload, id)
		}
		if id.expires.After(clock.Add(toldAge)) && told {
			tt.Errorf("%q holds until %s", payload, id.expires)
		}
	})
}

// FuzzKeys holds any answer of the issuer to: no panic, and no key of it is private or
// symmetric.
func FuzzKeys(f *testing.F) {
	for _, seed := range []string{
		`{"keys":[{"kty":"oct","k":"AA"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},{"kty":"RSA","n":"AQAB","e":"AQAB","kid":"one"}]}`, `{"keys":[{}]}`, `{"keys":null}`, `[]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		found, err := fuzzed(answer).issuer.read(t.Context())
		if err != nil {
			return
		}
		for _, key := range found.set {
			if !key.IsPublic() || !key.Valid() {
				t.Errorf("%q has the key %v", answer, key)
			}
		}
	})
}

// Package oidc lets in who presents a valid bearer token, and tells everybody
// else where to get one, as MCP's authorization asks of a protected resource
// (MCP specification 2025-11-25, basic/authorization; RFC 6750, RFC 9728).
//
// Read Login.Guard first. Package oidctest is an issuer for tests.
package oidc

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// maxToken is the longest token in bytes; the proxy's limit of headers is above.
const maxToken = 16 << 10

// Config says whose tokens are valid.
type Config struct {
	// Issuer is what tokens and the discovery document must name, compared byte
	// for byte. Empty takes the name from the discovery document, which is right
	// only where that is known to be the cluster's own.
	Issuer string
	// Discovery is the URL of the issuer's discovery document; not needed with
	// KeysURL and Issuer.
	Discovery string
	// KeysURL is where the issuer's keys are (RFC 7517); the one of the discovery
	// document if empty.
	KeysURL string
	// Introspection is where the issuer tells what a token is that is no JWT, and
	// every token if it has no keys; nil where all are JWTs.
	Introspection *Introspection
	// Client fetches the discovery document and keys, and asks about tokens.
	Client *http.Client
	// Algorithms that may sign a token, asymmetric ones.
	Algorithms []string
	// Audiences are the values of aud of which a token has one.
	Audiences []string
	// Scopes that a token must have, all of them.
	Scopes []string
	// Skew is how far the issuer's clock may be from ours.
	Skew time.Duration
	// UsernameClaim names the caller; sub if empty.
	UsernameClaim string
	// GroupsClaim holds the caller's groups; none if empty.
	GroupsClaim string
	// Usernames that are let in; everybody with a valid token if empty.
	Usernames []string
	// Resource is the URL of this server, as clients know it (RFC 8707).
	Resource *url.URL
	// Refuse answers a request that is not let in. The header WWW-Authenticate is
	// set before.
	Refuse func(w http.ResponseWriter, status int, message string)
	// Deny answers a request whose caller is not among Usernames, and returns the status. A token would not cure that.
	Deny func(w http.ResponseWriter, r *http.Request, name string) (status int)
	// Log is told why the issuer's keys cannot be fetched; nothing if nil.
	Log *slog.Logger
	// Audit is told of each request that is not let in; nobody if nil.
	Audit *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Login judges tokens. Make it with New.
type Login struct {
	config Config
	tokens *tokens
	audit  *audit
}

// New asks the issuer for nothing before the first token comes.
func New(config Config) *Login {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.UsernameClaim == "" {
		config.UsernameClaim = "sub"
	}
	return &Login{config: config, tokens: newTokens(config), audit: newAudit(config.Audit)}
}

// Guard lets requests with a valid token through to the next handler, without the
// token. It says in their Call who has sent them.
func (l *Login) Guard(next http.Handler) http.Handler { return &guard{Login: l, next: next} }

type guard struct {
	*Login
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := bearer(r)
	if err != nil {
		g.refuse(w, r, authz.Caller{}, *err)
		return
	}
	id, failure := g.tokens.verify(r.Context(), token, budget.Address(r.RemoteAddr))
	switch {
	case errors.Is(failure, errUnavailable):
		w.Header().Set("Retry-After", "10")
		g.config.Refuse(w, http.StatusServiceUnavailable, failure.Error())
	case failure != nil:
		g.refuse(w, r, authz.Caller{}, refusal{http.StatusUnauthorized, "invalid_token", failure.Error()})
	case !id.scoped:
		g.refuse(w, r, id.caller, refusal{
			http.StatusForbidden, "insufficient_scope",
			"the token lacks a scope: it needs " + strings.Join(g.config.Scopes, " "),
		})
	case len(g.config.Usernames) > 0 && !slices.Contains(g.config.Usernames, id.caller.Subject):
		name := authz.Shown(id.caller.Subject)
		status := g.config.Deny(w, r, name)
		g.audit.refused(r, id.caller, refusal{status, "", name + " is not among those who may call"})
	default:
		g.pass(w, r, id.caller)
	}
}

// refuse answers a request that is not let in, and tells its client how to cure that.
func (g *guard) refuse(w http.ResponseWriter, r *http.Request, caller authz.Caller, why refusal) {
	g.audit.refused(r, caller, why)
	g.challenge(w, why.status, why.code, why.message)
}

func (g *guard) pass(w http.ResponseWriter, r *http.Request, caller authz.Caller) {
	pipeline.Of(r.Context()).Authenticated(caller)
	r = r.WithContext(r.Context())
	r.Header = r.Header.Clone()
	r.Header.Del("Authorization")
	g.next.ServeHTTP(w, r)
}

// refusal is why a request is not let in, with the code that the client is told:
// none for a request without a token (RFC 6750, section 3.1).
type refusal struct {
	status        int
	code, message string
}

// bearer is the token of the Authorization header, the only way that MCP knows.
func bearer(r *http.Request) (string, *refusal) {
	invalid := func(message string) (string, *refusal) {
		return "", &refusal{http.StatusBadRequest, "invalid_request", message}
	}
	if tokenIn(r.URL.RawQuery) {
		return invalid("a token in the query is not taken, since URLs are logged: send it in the header Authorization")
	}
	values := r.Header["Authorization"]
	if len(values) > 1 {
		return invalid("the header Authorization occurs more than once")
	}
	scheme, token, _ := strings.Cut(strings.Join(values, ""), " ")
	token = strings.TrimSpace(token)
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", &refusal{http.StatusUnauthorized, "", "no token: send one in the header Authorization, as Bearer TOKEN"}
	case token == "":
		return invalid("the header Authorization is not of the form Bearer TOKEN")
	case len(token) > maxToken:
		return "", &refusal{http.StatusUnauthorized, "invalid_token", "the token is too long"}
	}
	return token, nil
}

// tokenIn reports whether a query has a token (RFC 6750, section 2.3), however a backend may take the query apart: some
// part it at semicolons too, and Go passes over what has one.
func tokenIn(query string) bool {
	for part := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if strings.EqualFold(strings.TrimSpace(name), "access_token") {
			return true
		}
	}
	return false
}

func scoped(has, needs []string) bool {
	return !slices.ContainsFunc(needs, func(scope string) bool { return !slices.Contains(has, scope) })
}

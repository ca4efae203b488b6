package oidc

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
)

// wellKnown is where the metadata of a protected resource is (RFC 9728, section
// 3): in front of the resource's path. Clients of revision 2025-03-26 ask at the
// root.
const wellKnown = "/.well-known/oauth-protected-resource"

// resourceMetadata is what clients need to log in (RFC 9728, section 2).
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers,omitempty"`
	ScopesSupported      []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
}

// Describe serves the metadata of the resources of logins, to everybody, and passes all else on. What is no resource's
// path is taken for the first one's. It is nil without a login.
func Describe(logins ...*Login) pipeline.Stage {
	logins = slices.DeleteFunc(logins, func(l *Login) bool { return l == nil })
	if len(logins) == 0 {
		return nil
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			path, below := strings.CutPrefix(r.URL.Path, wellKnown)
			if !below || path != "" && path[0] != '/' {
				next.ServeHTTP(w, r)
				return
			}
			at := strings.TrimSuffix(path, "/")
			whose := slices.IndexFunc(logins,
				func(l *Login) bool { return strings.TrimSuffix(l.config.Resource.Path, "/") == at })
			logins[max(whose, 0)].metadata(w, r)
		})
	}
}

func (l *Login) metadata(w http.ResponseWriter, r *http.Request) {
	// Pages in browsers log in too, and nothing here is secret.
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if r.Method == http.MethodOptions {
		w.Header().Set("Access-Control-Allow-Methods", "GET, HEAD")
		w.Header().Set("Access-Control-Allow-Headers", "MCP-Protocol-Version")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD, OPTIONS")
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var servers []string
	if l.config.Issuer != "" {
		servers = []string{l.config.Issuer}
	}
	body, err := json.Marshal(resourceMetadata{
		Resource: l.config.Resource.String(), AuthorizationServers: servers,
		ScopesSupported: l.config.Scopes, BearerMethods: []string{"header"},
	})
	if err != nil {
		panic(err) // strings only
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(body) //nolint:errcheck // a client that left needs no answer
}

// challenge refuses a request and tells where to log in (RFC 9728, section 5.1)
// and which scopes are needed, all of them at once.
func (l *Login) challenge(w http.ResponseWriter, status int, code, message string) {
	location := *l.config.Resource
	location.Path, location.RawPath, location.RawQuery = wellKnown+strings.TrimSuffix(l.config.Resource.Path, "/"), "", ""
	parts := []string{`Bearer resource_metadata="` + quoted(location.String()) + `"`}
	if len(l.config.Scopes) > 0 {
		parts = append(parts, `scope="`+quoted(strings.Join(l.config.Scopes, " "))+`"`)
	}
	if code != "" {
		parts = append(parts, `error="`+code+`"`, `error_description="`+quoted(message)+`"`)
	}
	w.Header().Set("WWW-Authenticate", strings.Join(parts, ", "))
	l.config.Refuse(w, status, message)
}

// quoted is text that is safe in a quoted string of a header.
func quoted(text string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return '\''
		}
		return c
	}, text)
}

package proxy

import (
	"net/http"
	"strings"
)

// A page of another origin reads an answer, and sends more than a form could, only where the answers say so
// (https://fetch.spec.whatwg.org/#http-cors-protocol). Who may call is the proxy's to say, so these headers are its
// own: also on what it answers itself, as that a login is needed, which no backend sees.

// exposed are the headers of an answer that a client of MCP reads: the session, where to log in, and when to come
// again.
const exposed = "Mcp-Session-Id, WWW-Authenticate, Retry-After"

// preflightAge is how long a browser may remember an answer, in seconds: ten minutes, the most that Chromium took for
// years.
const preflightAge = "600"

// allow lets the page that calls read the answer, if its origin is in spec.proxy.allowedOrigins. It reports whether the
// request only asks whether a call may be sent: these headers are the answer.
func (o *origins) allow(w http.ResponseWriter, r *http.Request) (preflight bool) {
	if len(o.allowed) == 0 {
		return false
	}
	header := w.Header()
	header.Add("Vary", "Origin") // a cache must not give one page what another was told
	origin := r.Header["Origin"]
	if len(origin) != 1 || !o.allowed[origin[0]] {
		return false
	}
	header["Access-Control-Allow-Origin"] = origin
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		header.Set("Access-Control-Expose-Headers", exposed)
		return false
	}
	header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	if asked := r.Header["Access-Control-Request-Headers"]; len(asked) > 0 {
		// Any: what the backend is not to see stays with the proxy.
		header.Set("Access-Control-Allow-Headers", strings.Join(asked, ", "))
	}
	header.Set("Access-Control-Max-Age", preflightAge)
	return true
}

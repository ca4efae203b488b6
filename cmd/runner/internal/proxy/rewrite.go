package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
)

// passed are the headers of a request that the backend gets; docs/security.md
// tells them. Everything else stays here, because backends believe names that no
// list of ours could be complete about: of who the caller is, where the call comes
// from, and what a gateway has found.
var passed = setOf(
	// content, and what of it the client wants
	"Accept", "Accept-Encoding", "Accept-Language", "Cache-Control", "Content-Encoding", "Content-Length", "Content-Type",
	"Expect", "User-Agent",
	// event streams
	"Last-Event-Id",
	// pages in browsers, which backends may want to judge as well
	"Origin", "Sec-Fetch-Dest", "Sec-Fetch-Mode", "Sec-Fetch-Site", "Access-Control-Request-Headers",
	"Access-Control-Request-Method",
	// traces
	"Traceparent", "Tracestate", "Baggage", "B3", "X-Correlation-Id", "X-Request-Id",
	// the transport's own, which ReverseProxy has set
	"Te",
)

// passedPrefixes are the same for families of names: of MCP, and of traces.
var passedPrefixes = []string{"Mcp-", "X-B3-"}

// parameters are the names that the schema of a tool chooses.
const parameters = "Mcp-Param-"

// passes reports whether a header of this name goes to the backend. A name with an
// underscore does below Mcp-Param- alone, where only another parameter could be meant: CGI
// and what follows it (WSGI, Rack, PHP) take Mcp_Session_Id for Mcp-Session-Id.
func (t *target) passes(name string) bool {
	switch {
	case strings.Contains(name, "_"):
		return strings.HasPrefix(name, parameters)
	case strings.HasPrefix(name, forwardedPrefix):
		return t.config.TrustForwardedHeaders
	}
	return passed[name] || slices.ContainsFunc(passedPrefixes, begins(name)) || APIKey(name)
}

// APIKey reports whether a header is called an API key, as X-Api-Key. Clients are
// told such a key for one server, whose backend has to check it: unlike a name, it
// is worth nothing to who makes it up. Attributes of a caller that a gateway has
// authenticated are none, whatever they are called.
func APIKey(name string) bool {
	return (strings.HasSuffix(name, "Api-Key") || strings.HasSuffix(name, "Apikey")) &&
		!slices.ContainsFunc([]string{"X-Remote-", "X-Auth-Request-", "Impersonate-"}, begins(name))
}

// rewrite makes the request to the backend. Where that is told another Host than the client's, the proxy alone reaches
// it, and has judged the client's Host, and the page that calls: the backend would hold that against the Host that it
// sees (docs/adr/0080-a-backend-sees-localhost.md).
func (t *target) rewrite(r *httputil.ProxyRequest) {
	f := flightOf(r.Out.Context())
	to := f.route.to
	// Parameters are the backend's to parse; ReverseProxy drops what Go's
	// parser does not like, which would change the call.
	r.Out.URL.RawQuery = r.In.URL.RawQuery

	// A client's token (Authorization, Cookie) is for this server's audience and not
	// to be passed on (MCP specification, security best practices, token
	// passthrough). No protocol upgrades: MCP has none, and a hijacked connection
	// could not be drained. So neither is among what passes.
	for name := range r.Out.Header {
		if !t.passes(name) {
			delete(r.Out.Header, name)
		}
	}
	switch {
	case f.route.sse:
		r.Out.URL.RawQuery = withSSEID(r.In.URL, f.route.own)
	case f.route.own != "":
		r.Out.Header[protocol.HeaderSession] = []string{f.route.own}
	}
	t.address(r.Out, to)
	if to.ToldHost != "" {
		r.Out.Host = to.ToldHost
		remote.ForgetPage(r.Out.Header)
	}
	// ReverseProxy passes no trailers of requests on, only their announcement.
	r.Out.Trailer = nil
	if to.remote != nil {
		to.remote.Address(r.Out)
		if !t.config.TrustForwardedHeaders {
			return // who calls from where is not for others to know
		}
	}

	if t.config.TrustForwardedHeaders {
		forward(r)
	}
	host, proto := r.Out.Header["X-Forwarded-Host"], r.Out.Header["X-Forwarded-Proto"]
	r.SetXForwarded() // appends our client to X-Forwarded-For, replaces the others
	if public := t.config.Public; strings.EqualFold(r.In.Host, public.Host) && public.Scheme != "" {
		r.Out.Header["X-Forwarded-Proto"] = []string{public.Scheme} // TLS ends in front of the proxy
	}
	if t.config.TrustForwardedHeaders {
		restore(r.Out.Header, "X-Forwarded-Host", host)
		restore(r.Out.Header, "X-Forwarded-Proto", proto)
	}
}

// address has a request go to an upstream.
func (t *target) address(r *http.Request, to *Upstream) {
	r.URL.Scheme, r.URL.Host = to.url.Scheme, to.url.Host
	delete(r.Header, protocol.HeaderCaller)
	if to.Shown && t.config.Keys != nil {
		if shows := t.config.Keys.Shows(); shows != nil {
			r.Header[protocol.HeaderProxy] = shows
		}
	}
	if who := pipeline.Of(r.Context()).Account(); to.Bridged && who != "" {
		r.Header[protocol.HeaderCaller] = []string{who}
	}
}

const forwardedPrefix = "X-Forwarded-"

// removed are the forwarding headers that ReverseProxy takes away.
var removed = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// forward takes over what the load balancer in front said about its client, but
// for what was meant for its connection to us only.
func forward(r *httputil.ProxyRequest) {
	for _, name := range removed {
		if values := r.In.Header[name]; len(values) > 0 && !ofThisHop(r.In.Header, name) {
			r.Out.Header[name] = values
		}
	}
}

// ofThisHop reports whether a Connection header names another one
// (https://www.rfc-editor.org/rfc/rfc9110#section-7.6.1).
func ofThisHop(header http.Header, name string) bool {
	for _, names := range header["Connection"] {
		for each := range strings.SplitSeq(names, ",") {
			if strings.EqualFold(textproto.TrimString(each), name) {
				return true
			}
		}
	}
	return false
}

func restore(header http.Header, name string, values []string) {
	if len(values) > 0 {
		header[name] = values
	}
}

func setOf(names ...string) map[string]bool {
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

func begins(name string) func(prefix string) bool {
	return func(prefix string) bool { return strings.HasPrefix(name, prefix) }
}

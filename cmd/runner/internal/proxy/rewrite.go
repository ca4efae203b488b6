package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"slices"
	"strings"
)

// identityHeaders are names under which other proxies tell a backend who the
// caller is. Nobody in front of us is trusted to say so, and we do not say so.
var identityHeaders = []string{"X-Real-Ip", "Remote-User", "X-Remote-User", "X-Remote-Group", "X-Webauth-User"}

// identityPrefixes are the same for families of names.
var identityPrefixes = []string{"X-Remote-Extra-", "X-Auth-Request-", "Impersonate-"}

// rewrite makes the request to the backend. The Host header stays the
// client's, so that a backend which builds URLs builds right ones.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	r.Out.URL.Scheme = p.config.Backend.Scheme
	r.Out.URL.Host = p.config.Backend.Host
	// Parameters are the backend's to parse; ReverseProxy drops what Go's
	// parser does not like, which would change the call.
	r.Out.URL.RawQuery = r.In.URL.RawQuery

	// A client's token is for this server's audience and not to be passed on
	// (MCP specification, security best practices, token passthrough).
	r.Out.Header.Del("Authorization")
	// No protocol upgrades: MCP has none, and a hijacked connection could not
	// be drained.
	r.Out.Header.Del("Upgrade")
	r.Out.Header.Del("Connection")
	// ReverseProxy passes no trailers of requests on, only their announcement.
	r.Out.Trailer = nil

	for name := range r.Out.Header {
		if p.spoofed(name) {
			delete(r.Out.Header, name)
		}
	}
	if p.config.TrustForwardedHeaders {
		forward(r)
	}
	host, proto := r.Out.Header["X-Forwarded-Host"], r.Out.Header["X-Forwarded-Proto"]
	r.SetXForwarded() // appends our client to X-Forwarded-For, replaces the others
	if p.config.TrustForwardedHeaders {
		restore(r.Out.Header, "X-Forwarded-Host", host)
		restore(r.Out.Header, "X-Forwarded-Proto", proto)
	}
}

// spoofed reports whether a header of this name says what a client may not say.
func (p *Proxy) spoofed(name string) bool {
	meant := name
	if strings.Contains(name, "_") {
		// CGI and what follows it (WSGI, Rack, PHP) take X_Remote_User for
		// X-Remote-User.
		meant = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
	}
	if strings.HasPrefix(meant, forwardedPrefix) {
		return !p.config.TrustForwardedHeaders || meant != name
	}
	return slices.Contains(identityHeaders, meant) || hasAnyPrefix(meant, identityPrefixes)
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

func hasAnyPrefix(name string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

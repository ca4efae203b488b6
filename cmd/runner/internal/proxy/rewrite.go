package proxy

import (
	"net/http"
	"net/http/httputil"
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
	for _, name := range identityHeaders {
		r.Out.Header.Del(name)
	}
	// No protocol upgrades: MCP has none, and a hijacked connection could not
	// be drained.
	r.Out.Header.Del("Upgrade")
	r.Out.Header.Del("Connection")

	for name := range r.Out.Header {
		if strings.HasPrefix(name, "X-Forwarded-") || hasAnyPrefix(name, identityPrefixes) {
			r.Out.Header.Del(name)
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

// forward takes over what the load balancer in front said about its client.
func forward(r *httputil.ProxyRequest) {
	for name, values := range r.In.Header {
		if name == "Forwarded" || strings.HasPrefix(name, "X-Forwarded-") {
			r.Out.Header[name] = values
		}
	}
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

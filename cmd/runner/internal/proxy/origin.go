package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// origins decides which browser pages may call.
//
// The MCP specification (basic/transports, security warning) wants Origin
// validated on every request, against DNS rebinding. http.CrossOriginProtection
// alone does not do that: it lets every GET pass, and it takes "Origin equals
// Host" for harmless, although a page of an attacker whose name was rebound to
// our address sends exactly that. So it is asked about all methods, and
// same-origin counts only under a name that cannot be an attacker's.
type origins struct {
	allowed    map[string]bool
	hosts      map[string]bool
	protection *http.CrossOriginProtection
}

// newOrigins takes the allow-list (values of the Origin header, compared byte
// for byte) and the host names that are ours, lower-case and without port.
func newOrigins(allowed, hosts []string) *origins {
	o := &origins{allowed: map[string]bool{}, hosts: map[string]bool{}, protection: http.NewCrossOriginProtection()}
	for _, origin := range allowed {
		o.allowed[origin] = true
	}
	for _, host := range hosts {
		o.hosts[strings.ToLower(host)] = true
	}
	return o
}

// rebound is the refusal of a request under a host name that anybody may have pointed to this address. Clients take
// HTTP 403 for a missing login and hide what it says (docs/adr/0085-a-refusal-that-people-read.md).
func rebound(r *http.Request) *jsonrpc.Fault {
	return jsonrpc.Fail(http.StatusMisdirectedRequest, CodeOriginRefused,
		"HostRefused: host %q is not a name of this server: write the URL that clients call into spec.proxy.publicURL",
		r.Host)
}

// foreign is the refusal of what a browser sends for a page that may not call.
func foreign(format string, args ...any) *jsonrpc.Fault {
	return jsonrpc.Fail(http.StatusForbidden, CodeOriginRefused, "OriginRefused: "+format, args...)
}

// check returns why a request is refused, or nil. Requests without Origin and
// Sec-Fetch-Site do not come from a page in a browser, and pass; but a GET without
// them may, because browsers say neither in one to the page's own host that is not
// HTTPS.
func (o *origins) check(r *http.Request) *jsonrpc.Fault {
	if len(r.Header["Origin"]) > 1 {
		// The backend might believe another one than the one that is checked here.
		return foreign("the request has more than one Origin header: send one")
	}
	origin := r.Header.Get("Origin")
	if origin == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		if r.Method == http.MethodGet && r.Host != "" && !o.isOwnName(r.Host) {
			return rebound(r)
		}
		return nil
	}
	if o.allowed[origin] {
		return nil
	}
	judged := &http.Request{Method: http.MethodPost, Header: r.Header, Host: r.Host, URL: r.URL}
	if err := o.protection.Check(judged); err != nil {
		return foreign("%q is not in spec.proxy.allowedOrigins: %v", origin, err)
	}
	if !o.isOwnName(r.Host) {
		return rebound(r)
	}
	return nil
}

// isOwnName reports whether no foreign DNS name can have led a browser to hostport:
// it is an address, localhost, or a name that we were told is ours.
func (o *origins) isOwnName(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	}
	host = strings.ToLower(strings.Trim(host, "[]"))
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || o.hosts[host]
}

package proxy

import (
	"net/http"
	"net/url"
)

// Inside is a server in the process, which answers a request as http.RoundTripper has it.
func Inside(server http.RoundTripper) *Upstream {
	u := newUpstream(&url.URL{Scheme: "http", Host: "inside"}, nil, dialing("inside", ""))
	u.inside = server
	return u
}

// Connect is how requests of a server in the process go to the proxy of another server, on such connections as calls go
// to backends. Whole is its host:port for a resolver, the same where it is empty.
func Connect(to *url.URL, whole string) http.RoundTripper {
	return connected{newUpstream(to, nil, dialing(to.Host, whole))}
}

type connected struct{ to *Upstream }

// RoundTrip implements http.RoundTripper.
func (c connected) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := gather(request, nil); err != nil {
		return nil, err
	}
	return c.to.young().RoundTrip(request)
}

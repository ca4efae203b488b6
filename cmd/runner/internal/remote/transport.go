package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

const (
	// dialTime and handshakeTime are how long a connection and its TLS may take.
	dialTime, handshakeTime = 5 * time.Second, 10 * time.Second
	// life is how long an idle connection is kept.
	life = 30 * time.Second
	// maxHeader is how long the headers of an answer may be, in bytes.
	maxHeader = 64 << 10
)

// keepAlive ends calls after half a minute if the node on the other end is gone.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Dialer connects to the server, where Connect lets it.
func (s *Server) Dialer() *Dialer {
	host := s.URL.Host
	if s.URL.Port() == "" {
		host = net.JoinHostPort(s.URL.Hostname(), map[string]string{"http": "80", "https": "443"}[s.URL.Scheme])
	}
	return NewDialer(net.Dialer{Timeout: dialTime, ControlContext: s.Connect}, host, "")
}

// over is the transport of requests that the proxy itself makes of the server.
type over struct {
	*Server
	connections *http.Transport
}

// Transport carries requests that the proxy itself makes of the server, at its scheme and
// host: each connection is judged by Connect and Secure, each request has the server's
// headers, and each answer is one that Judge lets pass and that has no error. Every other
// error is a *Refusal, and says nothing that differs from one request to the next.
func (s *Server) Transport() http.RoundTripper {
	dialer := s.Dialer()
	return &over{Server: s, connections: &http.Transport{
		DialContext: dialer.DialContext,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return s.Secure(ctx, conn)
		},
		MaxIdleConnsPerHost: 16, IdleConnTimeout: life, MaxResponseHeaderBytes: maxHeader,
		// An event would wait for more to be decompressed.
		DisableCompression: true,
	}}
}

// RoundTrip implements http.RoundTripper.
func (o *over) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != o.URL.Scheme || request.URL.Host != o.URL.Host {
		return nil, &Refusal{NotMCP, "the server at spec.url names an endpoint of another host, which is not called: write " +
			"the URL of that host into spec.url"}
	}
	request = request.Clone(request.Context())
	if err := o.Present(request); err != nil {
		return nil, err
	}
	response, err := o.connections.RoundTrip(request)
	if err != nil {
		return nil, unanswered(err)
	}
	if err = o.Judge(response); err == nil && request.Method == http.MethodGet && response.StatusCode != http.StatusOK {
		err = notEvents(response.StatusCode)
	}
	if err != nil {
		_ = response.Body.Close() //nolint:errcheck // nothing of it is read
		return nil, err
	}
	return response, nil
}

// notEvents is what an answer says that is no stream of events.
func notEvents(status int) error {
	switch {
	case status == http.StatusForbidden:
		return refusedCredentials(status)
	case status >= http.StatusInternalServerError, status == http.StatusTooManyRequests:
		return &Refusal{v1alpha1.ReasonNotAnswering, fmt.Sprintf("the server at spec.url answers with HTTP %d", status)}
	}
	return &Refusal{NotMCP, fmt.Sprintf("the server at spec.url answers with HTTP %d: write the URL of its stream of "+
		"events into spec.url, or another transport", status)}
}

func unanswered(err error) error {
	if _, ok := errors.AsType[*Refusal](err); ok || errors.Is(err, context.Canceled) {
		return err
	}
	return &Refusal{v1alpha1.ReasonNotAnswering, "the server at spec.url does not answer (" + Why(err) + ")"}
}

// Why says in words why nothing came back, without the address, which is not the
// caller's business and different each time.
func Why(err error) string {
	var unknown *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &unknown):
		return "its name cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "it refuses connections"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "it does not respond in time"
	default:
		return "it broke the connection off"
	}
}

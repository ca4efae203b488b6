package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

const (
	// dialTime is how long one attempt to connect may take: one lost packet is
	// sent again within it.
	dialTime = 2 * time.Second
	// connectionLife is how long calls begin on a connection. It belongs to one
	// pod, which ends some time after new connections have stopped going there.
	connectionLife = 2 * time.Second
	// remoteLife is the same of a server that runs elsewhere, where a connection
	// costs a TLS handshake and no pod of ours ends: what its name leads to, and
	// whose certificates are trusted, is looked at that often.
	remoteLife = 30 * time.Second
)

// RoundTrip sends a request on a connection that is young enough, to the pod of its session, to one of the pods where
// it may begin a session, or else to the Service, which does not know of pods that are left out. It dials again where a
// connection was refused, since the next one may lead to another pod.
func (u *Upstream) RoundTrip(request *http.Request) (*http.Response, error) {
	// What a backend says before its answer is for nobody. ReverseProxy would pass it on without a look at it, and forget
	// with it what the proxy has said.
	if trace := httptrace.ContextClientTrace(request.Context()); trace != nil {
		trace.Got1xxResponse = nil
	}
	if u.inside != nil {
		u.answered.Store(true)
		return u.inside.RoundTrip(request)
	}
	if u.remote != nil {
		if err := u.remote.Present(request); err != nil {
			return nil, err
		}
	}
	f := flightOf(request.Context())
	if u.direct() {
		if err := gather(request, f.body); err != nil {
			return nil, err
		}
	}
	response, err := u.send(request, f)
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
		u.answered.Store(true)
	}
	return response, err
}

func (u *Upstream) send(request *http.Request, f *flight) (*http.Response, error) {
	switch {
	case f.route.pod.IsValid():
		request.URL.Host = u.pods.addressOf(f.route.pod).String()
	case u.pods != nil && (f.route.begins || u.pods.choose(f.route.only)):
		return u.toAnyPod(request, f)
	}
	return u.young().RoundTrip(request)
}

// toAnyPod sends a request to a pod, and to the next where nothing was sent because there
// was no connection. It waits for pods as dial does.
func (u *Upstream) toAnyPod(request *http.Request, f *flight) (*http.Response, error) {
	body := &heldBody{ReadCloser: request.Body}
	if _, again := request.Body.(*readBody); !again && request.Body != nil && request.Body != http.NoBody {
		request.Body = body
	}
	end, age, present := time.Now().Add(u.dialer.Patience), freshPods, u.dialer.Present.Load()
	for pause := remote.FirstPause; ; pause = min(2*pause, remote.LastPause) {
		pods, err := u.pods.next(request.Context(), age, f.route.only)
		for _, pod := range pods {
			for _, address := range u.pods.candidates(pod) {
				f.began, request.URL.Host = address, address.String()
				body.again()
				var response *http.Response
				if response, err = u.young().RoundTrip(request); err == nil || !undialled(err) {
					body.release()
					return response, err
				}
				if !errors.Is(err, syscall.ECONNREFUSED) {
					break
				}
			}
		}
		age = missing
		isGone := f.route.only.IsValid() && errors.Is(err, errNoPods)
		if isGone || !u.dialer.Present.Load() || time.Now().Add(pause).After(end) {
			if present && !u.pods.isOneOfSeveral(f.route.only) { // of the others nothing is known by that
				u.dialer.Present.Store(false)
			}
			body.release()
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-request.Context().Done():
			body.release()
			return nil, err
		}
	}
}

// dialPod connects to a pod past the Service: a node may hear of a new Service's pods seconds after they are ready, and
// a switch does not wait for kube-proxy.
func (l *lane) dialPod(ctx context.Context, network string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime) // the resolver may name pods that have gone
	defer cancel()
	pods, err := l.pods.next(ctx, missing, netip.Addr{})
	for _, pod := range pods {
		for _, address := range l.pods.candidates(pod) {
			var conn net.Conn
			if conn, err = l.dialer.DialContext(ctx, network, address.String()); err == nil {
				return conn, nil
			}
			if !errors.Is(err, syscall.ECONNREFUSED) {
				break
			}
		}
	}
	return nil, err
}

// connections make requests to the hosts of their URLs. Calls begin on them for a time: direct, or http.Transport
// alone.
type connections interface {
	http.RoundTripper
	CloseIdleConnections()
}

// direct reports whether calls are made in their goroutines.
func (u *Upstream) direct() bool { return !u.standard && u.remote == nil && u.peers == nil }

// young are those on which calls begin now. Those before close when their calls have ended.
func (u *Upstream) young() connections {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now := time.Now(); u.current == nil || now.Sub(u.since) >= u.life {
		if u.current != nil {
			go u.current.CloseIdleConnections()
		}
		u.current, u.since = u.connect(), now
	}
	return u.current
}

func (u *Upstream) connect() connections {
	transport := u.transport()
	if u.direct() {
		return &direct{transport, newWires(u.life, u.dialer.DialContext)}
	}
	return transport
}

func (u *Upstream) transport() *http.Transport {
	transport := &http.Transport{
		// No Proxy: the backend is a neighbour, whatever the environment says.
		DialContext:         u.dialer.DialContext,
		MaxIdleConnsPerHost: 256,
		// Node's and uvicorn's servers close idle connections after 5 s. A call
		// that meets this close fails and may not be repeated, so we let go first.
		IdleConnTimeout: 3 * time.Second,
		// The client's Accept-Encoding and the backend's answer to it pass through.
		DisableCompression:    true,
		ExpectContinueTimeout: time.Second,
		// In memory the headers of an answer are many times what they are on the wire.
		MaxResponseHeaderBytes: MaxHeader,
		// No ResponseHeaderTimeout: a tool may take its time.
	}
	if u.remote != nil {
		transport.DialTLSContext = u.dialTLS
	}
	if u.peers != nil {
		transport.DialContext = u.dialPeer
	}
	return transport
}

// peerHandshake is how long the TLS handshake with another proxy may take.
const peerHandshake = 5 * time.Second

// unshaken is why a proxy that took a connection did not show that it is one of this server's: it may be busy.
type unshaken struct{ error }

// Unwrap is that error.
func (u unshaken) Unwrap() error { return u.error }

// dialPeer connects to a proxy of the same server, a second time where that takes the connection and no more. What
// fails is a dial, of which nothing was sent.
func (u *Upstream) dialPeer(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := u.peers()
	if err != nil {
		return nil, err
	}
	for range 2 {
		var conn net.Conn
		if conn, err = u.dialer.DialContext(ctx, network, address); err != nil {
			return nil, err
		}
		secured := tls.Client(conn, config)
		if err = u.shake(ctx, secured); err == nil {
			return secured, nil
		}
		_ = conn.Close() //nolint:errcheck // nothing was sent
		if errors.Is(err, session.ErrStranger) || ctx.Err() != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: unshaken{err}}
}

func (u *Upstream) shake(ctx context.Context, secured *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, u.handshake)
	defer cancel()
	return secured.HandshakeContext(ctx)
}

// dialTLS connects to a server that runs elsewhere.
func (u *Upstream) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := u.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return u.remote.Secure(ctx, conn)
}

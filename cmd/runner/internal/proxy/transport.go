package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
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

// transport is the way to the backend. It dials again where a connection was
// refused, since the next one may lead to another pod, and begins no call on a
// connection older than connectionLife.
type transport struct {
	dialer *remote.Dialer
	pods   *pods         // nil where no pod keeps sessions
	life   time.Duration // connectionLife
	remote *remote.Server
	peers  func() (*tls.Config, error) // nil where no other proxy is called

	handshake time.Duration // peerHandshake
	standard  bool          // StandardClient

	mu      sync.Mutex
	current upstream
	since   time.Time

	// answered is whether a backend has answered since the start.
	answered atomic.Bool
}

// newTransport calls the backend's Service, a host:port, by its whole name.
func newTransport(to *remote.Server, service, whole string, pods *pods) *transport {
	t := &transport{
		pods: pods, life: connectionLife, remote: to, handshake: peerHandshake,
		dialer: remote.NewDialer(net.Dialer{Timeout: dialTime}, service, whole),
	}
	if to != nil {
		t.life, t.dialer = remoteLife, to.Dialer()
	}
	return t
}

// RoundTrip sends a request on a connection that is young enough, to the pod of its
// session, to one of the pods where it may begin a session, or else to the Service.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	// What a backend says before its answer is for nobody. ReverseProxy would pass it on without a look at it, and forget
	// with it what the proxy has said.
	if trace := httptrace.ContextClientTrace(request.Context()); trace != nil {
		trace.Got1xxResponse = nil
	}
	if t.remote != nil {
		if err := t.remote.Present(request); err != nil {
			return nil, err
		}
	}
	f, _ := request.Context().Value(flightKey{}).(*flight)
	if t.direct() {
		var body *pipeline.Body
		if f != nil {
			body = f.body
		}
		if err := gather(request, body); err != nil {
			return nil, err
		}
	}
	var response *http.Response
	var err error
	switch {
	case f != nil && f.route.begins && t.pods != nil:
		response, err = t.any(request, f)
	case f != nil && f.route.pod.IsValid():
		request.URL.Host = t.pods.place(f.route.pod).String()
		response, err = t.young().RoundTrip(request)
	default:
		response, err = t.young().RoundTrip(request)
	}
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
		t.answered.Store(true)
	}
	return response, err
}

// any sends a request to a pod, and to the next where nothing was sent because there
// was no connection. It waits for pods as dial does.
func (t *transport) any(request *http.Request, f *flight) (*http.Response, error) {
	body := &heldBody{ReadCloser: request.Body}
	if _, again := request.Body.(*readBody); !again && request.Body != nil && request.Body != http.NoBody {
		request.Body = body
	}
	end, age := time.Now().Add(t.dialer.Patience), freshPods
	for pause := remote.FirstPause; ; pause = min(2*pause, remote.LastPause) {
		pods, err := t.pods.next(request.Context(), age)
		for _, pod := range pods {
			for _, place := range t.pods.places(pod) {
				f.began, request.URL.Host = place, place.String()
				body.again()
				var response *http.Response
				if response, err = t.young().RoundTrip(request); err == nil || !undialled(err) {
					body.release()
					return response, err
				}
				if !errors.Is(err, syscall.ECONNREFUSED) {
					break
				}
			}
		}
		age = missing
		if !t.dialer.Present.Load() || time.Now().Add(pause).After(end) {
			t.dialer.Present.Store(false)
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

// upstream makes requests to the hosts of their URLs, over connections on which calls begin for a time: direct, or
// http.Transport alone.
type upstream interface {
	http.RoundTripper
	CloseIdleConnections()
}

// direct reports whether calls are made in their goroutines.
func (t *transport) direct() bool { return !t.standard && t.remote == nil && t.peers == nil }

// young is that on whose connections calls begin now. Those of the one
// before close when their calls have ended.
func (t *transport) young() upstream {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.current == nil || now.Sub(t.since) >= t.life {
		if t.current != nil {
			go t.current.CloseIdleConnections()
		}
		t.current, t.since = t.connections(), now
		if t.direct() {
			t.current = &direct{t.connections(), newWires(t.life, t.dialer.DialContext)}
		}
	}
	return t.current
}

func (t *transport) connections() *http.Transport {
	connections := &http.Transport{
		// No Proxy: the backend is a neighbour, whatever the environment says.
		DialContext:         t.dialer.DialContext,
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
	if t.remote != nil {
		connections.DialTLSContext = t.dialTLS
	}
	if t.peers != nil {
		connections.DialContext = t.dialPeer
	}
	return connections
}

// peerHandshake is how long the TLS handshake with another proxy may take.
const peerHandshake = 5 * time.Second

// unshaken is why a proxy that took a connection did not show that it is one of this server's: it may be busy.
type unshaken struct{ error }

// Unwrap is that error.
func (u unshaken) Unwrap() error { return u.error }

// dialPeer connects to a proxy of the same server, a second time where that takes the connection and no more. What
// fails is a dial, of which nothing was sent.
func (t *transport) dialPeer(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := t.peers()
	if err != nil {
		return nil, err
	}
	for range 2 {
		var conn net.Conn
		if conn, err = t.dialer.DialContext(ctx, network, address); err != nil {
			return nil, err
		}
		secured := tls.Client(conn, config)
		if err = t.shake(ctx, secured); err == nil {
			return secured, nil
		}
		_ = conn.Close() //nolint:errcheck // nothing was sent
		if errors.Is(err, session.ErrStranger) || ctx.Err() != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
	}
	return nil, &net.OpError{Op: "dial", Net: network, Err: unshaken{err}}
}

func (t *transport) shake(ctx context.Context, secured *tls.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, t.handshake)
	defer cancel()
	return secured.HandshakeContext(ctx)
}

// dialTLS connects to a server that runs elsewhere.
func (t *transport) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return t.remote.Secure(ctx, conn)
}

// bufferPool lends copy buffers to httputil.ReverseProxy, which would allocate
// 32 KiB for each response.
type bufferPool struct{ pool sync.Pool }

func newBufferPool() *bufferPool {
	return &bufferPool{pool: sync.Pool{New: func() any { return new([32 << 10]byte) }}}
}

func (b *bufferPool) Get() []byte {
	return b.pool.Get().(*[32 << 10]byte)[:] //nolint:forcetypeassert // New above
}

func (b *bufferPool) Put(buffer []byte) {
	b.pool.Put((*[32 << 10]byte)(buffer))
}

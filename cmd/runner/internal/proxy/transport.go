package proxy

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// dialTime is how long one attempt to connect may take: one lost packet is
	// sent again within it.
	dialTime = 2 * time.Second
	// dialPatience is how long a call that got no connection goes on trying.
	// Nothing of it has been sent, so that it cannot run twice.
	dialPatience = 3 * time.Second
	// The pauses between the attempts.
	firstDialPause = 20 * time.Millisecond
	lastDialPause  = 250 * time.Millisecond
	// connectionLife is how long calls begin on a connection. It belongs to one
	// pod, which ends some time after new connections have stopped going there.
	connectionLife = 2 * time.Second
)

// transport is the way to the backend. It dials again where a connection was
// refused, since the next one may lead to another pod, and begins no call on a
// connection older than connectionLife.
type transport struct {
	dialer   net.Dialer
	patience time.Duration // dialPatience

	mu      sync.Mutex
	current *http.Transport
	since   time.Time

	// present is whether the last dial found a backend: only then do calls wait
	// for the next pod. While there is none at all they are told at once.
	present atomic.Bool
	// answered is whether a backend has answered since the start.
	answered atomic.Bool
}

func newTransport() *transport {
	return &transport{patience: dialPatience, dialer: net.Dialer{
		Timeout: dialTime,
		// A backend whose node is gone ends its calls after half a minute.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}}
}

// RoundTrip sends a request on a connection that is young enough.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.young().RoundTrip(request)
	if err == nil && response.StatusCode != http.StatusSwitchingProtocols {
		t.answered.Store(true)
	}
	return response, err
}

// young is the set of connections on which calls begin now. Those of the one
// before close when their calls have ended.
func (t *transport) young() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); t.current == nil || now.Sub(t.since) >= connectionLife {
		if t.current != nil {
			go t.current.CloseIdleConnections()
		}
		t.current, t.since = t.connections(), now
	}
	return t.current
}

func (t *transport) connections() *http.Transport {
	return &http.Transport{
		// No Proxy: the backend is a neighbour, whatever the environment says.
		DialContext:         t.dial,
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
}

// dial connects to a pod of the backend. A pod that ends may refuse before every
// node has heard of its end: then the Service leads to another one the next time.
func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	end := time.Now().Add(t.patience)
	for pause := firstDialPause; ; pause = min(2*pause, lastDialPause) {
		conn, err := t.dialer.DialContext(ctx, network, address)
		if err == nil {
			t.present.Store(true)
			return conn, nil
		}
		if !t.present.Load() || time.Now().Add(pause).After(end) {
			t.present.Store(false)
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, err
		}
	}
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

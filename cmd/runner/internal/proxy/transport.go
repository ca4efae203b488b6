package proxy

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// newTransport is the way to the backend.
func newTransport() *http.Transport {
	dialer := &net.Dialer{
		Timeout: 5 * time.Second,
		// A backend whose node is gone ends its calls after half a minute.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	return &http.Transport{
		// No Proxy: the backend is a neighbour, whatever the environment says.
		DialContext:         dialer.DialContext,
		MaxIdleConnsPerHost: 256,
		// Node's and uvicorn's servers close idle connections after 5 s. A call
		// that meets this close fails and may not be repeated, so we let go first.
		IdleConnTimeout: 3 * time.Second,
		// The client's Accept-Encoding and the backend's answer to it pass through.
		DisableCompression:    true,
		ExpectContinueTimeout: time.Second,
		// No ResponseHeaderTimeout: a tool may take its time.
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

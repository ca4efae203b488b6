package proxy

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
)

// Process is what all targets share.
type Process struct {
	// Memory is what is divided among callers; nil is that of the default limit.
	Memory *budget.Budget
	// Log receives what is wrong with connections.
	Log *slog.Logger
	// StandardClient has net/http alone call the backend, and StandardStreams keep streams that are silent, so that it can
	// be compared with code of ours.
	StandardClient, StandardStreams bool
}

// Proxy is an http.Handler in front of targets. It has what is the process's: the memory that callers divide, the
// requests on their way, what is counted. Make it with New, serve it with Server, end it with Drain.
type Proxy struct {
	process Process
	buffers httputil.BufferPool
	traffic *traffic
	metrics metrics
	started time.Time

	targets map[string]*target // by the path of the MCP endpoint
	// chain is all stages, and inside the same without who may call and what.
	chain, inside, own http.Handler

	draining atomic.Bool
}

const (
	// MaxRequestHeader is how long the headers of a request may be, in bytes.
	MaxRequestHeader = 16 << 10
	// MaxHeader is how long the headers of an answer may be, in bytes.
	MaxHeader = 64 << 10
)

// New makes a proxy that serves at once: one target or several, by the path of the MCP endpoint, which is the same at
// the backend. A request is for it if its path has exactly these bytes, or one slash more or less at its end: no dots,
// no percent-encoding, and no redirect, which would name a scheme and a host that the proxy only knows by hearsay. The
// query is passed on.
func New(process Process, targets map[string]Config) *Proxy {
	p := &Proxy{
		process: process, buffers: newBufferPool(), traffic: newTraffic(), metrics: newMetrics(), started: time.Now(),
		targets: map[string]*target{},
	}
	if process.Memory == nil {
		p.process.Memory = budget.New(budget.Default)
	}
	for path, config := range targets {
		p.targets[path] = newTarget(p, config)
	}
	p.chain = p.metrics.count(p.choose(func(t *target) http.Handler { return t.chain }))
	p.inside = p.metrics.count(p.choose(func(t *target) http.Handler { return t.inside }))
	p.own = p.metrics.count(p.choose(func(t *target) http.Handler { return t.own }))
	return p
}

// choose is the stage that finds the target of a request, whose chain it goes on with. It answers what is at no
// target's path.
func (p *Proxy) choose(chain func(*target) http.Handler) http.Handler {
	paths := strings.Join(slices.Sorted(maps.Keys(p.targets)), ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.draining.Load() {
			w.Header().Set("Connection", "close") // the next call finds another pod
		}
		path := r.URL.Path
		t, served := p.targets[path]
		if !served {
			path = otherSlash(path)
			t, served = p.targets[path]
		}
		if !served || r.URL.RawPath != "" {
			Answer(w, jsonrpc.Fail(http.StatusNotFound, CodeNotServed, "NotServed: the MCP endpoint is at %s", paths), nil)
			return
		}
		chain(t).ServeHTTP(w, pipeline.At(r, path))
	})
}

// otherSlash is a path with a slash at its end, or without the one that it has.
func otherSlash(path string) string {
	if without, has := strings.CutSuffix(path, "/"); has {
		return without
	}
	return path + "/"
}

// ServeHTTP judges a request, passes it on, and counts it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.chain.ServeHTTP(w, r) }

// Inside is the proxy without who may call and what, for questions of the process's own.
func (p *Proxy) Inside() http.Handler { return p.inside }

// Own is the same for questions about the content of the process's own run config, whether or not that gets the calls.
func (p *Proxy) Own() http.Handler { return p.own }

// Server serves the proxy, behind stages that all targets have. It has no write timeout: a stream lasts as long as
// both ends want it.
func (p *Proxy) Server(before ...pipeline.Stage) *http.Server {
	return &http.Server{
		Handler:           pipeline.Stages(before).To(p),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    MaxRequestHeader,
		ErrorLog:          slog.NewLogLogger(p.process.Log.Handler(), slog.LevelWarn),
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

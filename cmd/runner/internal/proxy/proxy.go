package proxy

import (
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"slices"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
)

// Process is what all targets share.
type Process struct {
	// Memory is what is divided among callers; nil is that of the default limit.
	Memory *budget.Budget
	// Log receives what is wrong with connections.
	Log *slog.Logger
	// Standard is what is left to net/http alone, so that it can be compared with code of ours.
	Standard Standard
}

// Standard is what net/http does alone.
type Standard int

const (
	// StandardClient is to call the backend.
	StandardClient Standard = 1 << iota
	// StandardStreams is to keep streams that are silent.
	StandardStreams
)

// Proxy is an http.Handler in front of targets. It has what is the process's: the memory that callers divide, the
// requests on their way, what is counted. Make it with New, serve it with Server, end it with Drain.
type Proxy struct {
	memory   *budget.Budget
	log      *slog.Logger
	standard Standard
	buffers  httputil.BufferPool
	traffic  *traffic
	metrics  metrics
	started  time.Time

	targets map[string]*target // by the path of the MCP endpoint
	first   *target            // whose gate refuses what is at no target's path

	draining atomic.Bool
}

const (
	// MaxRequestHeader is how long the headers of a request may be, in bytes.
	MaxRequestHeader = 16 << 10
	// MaxHeader is how long the headers of an answer may be, in bytes.
	MaxHeader = 64 << 10
)

// New makes a proxy that serves at once: one target or several, by the path of the MCP endpoint, which is the same at
// the backend. A request is for it if its path has exactly these bytes: no trailing slash, no dots, no
// percent-encoding, no redirect. The query is passed on.
func New(process Process, targets map[string]Config) *Proxy {
	p := &Proxy{
		memory: process.Memory, log: process.Log, standard: process.Standard, buffers: newBufferPool(),
		traffic: newTraffic(), metrics: newMetrics(), started: time.Now(), targets: map[string]*target{},
	}
	if p.memory == nil {
		p.memory = budget.New(budget.Default)
	}
	for path, config := range targets {
		p.targets[path] = newTarget(p, path, config)
	}
	p.first = p.targets[slices.Min(slices.Collect(maps.Keys(targets)))]
	return p
}

// choose finds the target of a request.
func (p *Proxy) choose(r *http.Request) *target {
	if t, known := p.targets[r.URL.Path]; known {
		return t
	}
	return p.first
}

// ServeHTTP judges a request, passes it on, and counts it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.count(w, r, p.choose(r).chain) }

// Inside is the proxy without who may call and what, for questions of the process's own.
func (p *Proxy) Inside() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.count(w, r, p.choose(r).inside) })
}

func (p *Proxy) count(w http.ResponseWriter, r *http.Request, next http.Handler) {
	c := p.metrics.begin(w, r)
	defer c.end()
	defer c.begun()
	next.ServeHTTP(c, r)
	c.whole = true
}

package proxy

import (
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// Config says what is served and how.
type Config struct {
	// Path of the MCP endpoint, at the proxy and at the backend. A request is
	// for it if its path has exactly these bytes: no trailing slash, no dots,
	// no percent-encoding, no redirect. The query is passed on.
	Path string
	// BelowPath says that clients call the proxy below a path which their Ingress removes: a URL that leads them back is
	// relative then.
	BelowPath bool
	// Backend has the scheme and the host:port of the backend.
	Backend *url.URL
	// Dials is the host:port of the backend by its whole name, empty where Backend has that.
	Dials string
	// Remote, if not nil, is the server elsewhere to which calls go in place of a
	// backend. Backend is its URL.
	Remote *remote.Server
	// AllowedOrigins are values of the Origin header that are let in.
	AllowedOrigins []string
	// Hosts are host names, without port, by which this proxy is known: under
	// these a browser's same-origin request is believed.
	Hosts []string
	// TrustForwardedHeaders keeps the X-Forwarded-* and Forwarded headers of
	// requests, for a load balancer that sets them itself.
	TrustForwardedHeaders bool
	// Refusal, if not empty, is the message with which every call is answered
	// (HTTP 503, CodeNotEnforced); nothing reaches the backend.
	Refusal string
	// Guard, if not nil, stands in front of the backend: it answers itself what it
	// does not pass on, and calls failed for a body that cannot be read.
	Guard func(next http.Handler, failed func(http.ResponseWriter, *http.Request, error)) http.Handler
	// Translate, if not nil, stands between the guard and the backend: it passes requests on with pass, makes requests of
	// its own with send, and calls failed for a body that cannot be read. Where the backend leads a request of its own to
	// another path, the refusal says so: Location.
	Translate func(pass, send http.Handler, failed func(http.ResponseWriter, *http.Request, error)) http.Handler
	// Sessions, if not nil, is how sessions are found. Without it ids pass as they are.
	Sessions *Sessions
	// Bridged has the backend told who has a share: it is a bridge, and bounds what one caller has of it.
	Bridged bool
	// Log receives changes of the backend's reachability.
	Log *slog.Logger
	// Memory is what is divided among callers; nil is that of the default limit.
	Memory *budget.Budget
}

// Proxy is an http.Handler. Make it with New, serve it with Server, end it
// with Drain.
type Proxy struct {
	config  Config
	origins *origins
	backend *transport
	reverse *httputil.ReverseProxy
	inner   http.Handler // reverse, behind what finds sessions
	within  http.Handler // inner, behind the translation
	guarded http.Handler // within, behind the guard
	traffic *traffic
	metrics metrics
	pods    *pods // nil where no pod keeps sessions
	content [8]byte
	started time.Time

	unreachable atomic.Bool // the last request found no backend
	draining    atomic.Bool
}

const (
	// MaxRequestHeader is how long the headers of a request may be, in bytes.
	MaxRequestHeader = 16 << 10
	// MaxHeader is how long the headers of an answer may be, in bytes.
	MaxHeader = 64 << 10
)

// flushInterval is how long a part of an answer of stated length is held back at
// most; ReverseProxy sends all other answers on at once. To hold nothing back would
// send the headers of each answer apart: one more write, and a goroutine.
const flushInterval = 50 * time.Millisecond

// New makes a proxy that serves at once.
func New(config Config) *Proxy {
	if config.Memory == nil {
		config.Memory = budget.New(budget.Default)
	}
	p := &Proxy{
		config:  config,
		origins: newOrigins(config.AllowedOrigins, config.Hosts),
		traffic: newTraffic(),
		metrics: newMetrics(),
		started: time.Now(),
	}
	if s := config.Sessions; s != nil {
		p.content = session.Content(s.Content)
		switch {
		case s.Self.IsValid():
			p.pods = onlyPod(s.Self)
		case s.Pods != "":
			p.pods = newPods(s.Pods)
			p.pods.named, p.pods.standing = s.PodPort, s.Standing
		}
	}
	p.backend = newTransport(config.Remote, config.Backend.Host, config.Dials, p.pods)
	if s := config.Sessions; s != nil && s.Self.IsValid() {
		p.backend.peers, p.backend.life = s.Keys.Peers, remoteLife
	}
	p.reverse = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      p.backend,
		FlushInterval:  flushInterval,
		BufferPool:     newBufferPool(),
		ModifyResponse: p.response,
		ErrorHandler:   p.failed,
		// What ReverseProxy would log is a client that left or a stream that
		// broke; both are in the caller's hands already.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	p.inner = unfiltered(p.reverse)
	if config.Sessions != nil {
		p.inner = p.withSessions(p.inner)
	}
	p.within = p.inner
	if config.Translate != nil {
		p.within = config.Translate(p.inner, http.HandlerFunc(p.send), p.failed)
	}
	p.guarded = p.shared(p.within)
	if config.Guard != nil {
		p.guarded = config.Guard(p.guarded, p.failed)
	}
	return p
}

// shared gives each caller that has logged in its share of the requests on their way. An address has its share of
// connections.
func (p *Proxy) shared(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := pipeline.Of(r.Context()).Share(); who != "" {
			leave, err := p.config.Memory.Calls.Take(who, 1)
			if err != nil {
				w.Header().Set("Retry-After", "1")
				Answer(w, jsonrpc.Fail(http.StatusServiceUnavailable, protocol.CodeInternal, "TooManyCalls: %v", err), nil)
				return
			}
			flightOf(r.Context()).leave = leave
		}
		next.ServeHTTP(w, r)
	})
}

// send makes a request that is not the client's own. A drain waits for the client's, and ends that: what it asked for
// ends by itself, after the backend has been told.
func (p *Proxy) send(w http.ResponseWriter, r *http.Request) {
	body, _ := r.Body.(*pipeline.Body)
	flight := p.traffic.flight(r, body)
	defer flight.body.End()
	defer flight.cancel(nil)
	flight.ours = true
	p.inner.ServeHTTP(w, r.WithContext(flight.ctx))
}

// ServeHTTP judges a request, passes it on, and counts it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.count(w, r, p.guarded) }

// Inside is the proxy without its guard, for questions of the process's own.
func (p *Proxy) Inside() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.count(w, r, p.within) })
}

func (p *Proxy) count(w http.ResponseWriter, r *http.Request, next http.Handler) {
	c := p.metrics.begin(w, r)
	defer c.end()
	defer c.begun()
	p.serve(c, r, next)
	c.whole = true
}

func (p *Proxy) serve(w *outcome, r *http.Request, next http.Handler) {
	if p.draining.Load() {
		w.Header().Set("Connection", "close") // the next call finds another pod
	}
	preflight := p.origins.share(w, r)
	if f := p.judge(r); f != nil {
		if f.Status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", "GET, POST, DELETE, OPTIONS")
		}
		Answer(w, f, nil)
		return
	}
	if preflight {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header()["Content-Type"] = nil // an answer without one is not given one
	if r.Method != http.MethodPost {
		// Only a POST carries a message. A body that one end sees and the other
		// does not is how requests are smuggled. On a copy: the server reads what is
		// left of the body by what its own request says, and else goes on to the
		// next request while it still reads.
		r = r.WithContext(r.Context())
		r.Body, r.ContentLength, r.TransferEncoding, r.Trailer = http.NoBody, 0, nil, nil
		r.Header.Del("Content-Length")
	}
	if h := hold(w.ResponseWriter, r); h != nil {
		h.ResponseWriter = w
		p.open(h, r, next)
		if h.answer != nil {
			w.status = h.answer.StatusCode
		}
		return
	}
	call := pipeline.New(w.ResponseWriter, r, p.config.Memory) // it tells the server of a body that is too large
	flight, ctx := p.traffic.begin(r, call.Body)
	defer p.traffic.end(flight)
	next.ServeHTTP(w, r.WithContext(call.In(ctx)))
	w.denied = flight.denied
}

// judge returns what is wrong with a request, or nil.
func (p *Proxy) judge(r *http.Request) *jsonrpc.Fault {
	switch {
	case r.URL.Path != p.config.Path || r.URL.RawPath != "":
		return jsonrpc.Fail(http.StatusNotFound, CodeNotServed, "NotServed: the MCP endpoint is at %s", p.config.Path)
	case p.config.Refusal != "":
		return jsonrpc.Fail(http.StatusServiceUnavailable, CodeNotEnforced, "%s", p.config.Refusal)
	case r.Method != http.MethodPost && r.Method != http.MethodGet && r.Method != http.MethodDelete &&
		r.Method != http.MethodOptions:
		return jsonrpc.Fail(http.StatusMethodNotAllowed, CodeNotServed,
			"NotServed: an MCP endpoint takes POST, GET and DELETE")
	case r.ContentLength > budget.MaxBody:
		return budget.ErrTooLong
	}
	if err := p.origins.check(r); err != nil {
		return jsonrpc.Fail(http.StatusForbidden, CodeOriginRefused, "OriginRefused: %v", err)
	}
	return nil
}

// response looks at the backend's answer before it is passed on.
func (p *Proxy) response(response *http.Response) error {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return errors.New("the backend switched protocols unasked")
	}
	if p.config.Remote != nil {
		if err := p.config.Remote.Judge(response); err != nil {
			return err
		}
	}
	// Its client would follow it at the proxy's host, where nothing else is served. A GET that leads elsewhere is one
	// without a stream.
	if p.config.Remote == nil && response.Request.Method == http.MethodPost {
		if err := remote.Redirected(response, "the backend",
			"write the path of its MCP endpoint into spec.path"); err != nil {
			flightOf(response.Request.Context()).leads = media.Leads(response)
			return err
		}
	}
	withhold(response.Header)
	if p.unreachable.CompareAndSwap(true, false) {
		p.config.Log.Info("the backend answers again", "backend", p.config.Backend.Host)
	}
	if p.config.Sessions != nil {
		if err := p.named(response); err != nil {
			return err
		}
	}
	if f := flightOf(response.Request.Context()); f.place.opens && eventStream(response) {
		response.Body = p.endpointOf(response.Body, f)
	}
	if eventStream(response) {
		// nginx, and what follows its example, buffers unless told not to.
		response.Header.Set("X-Accel-Buffering", "no")
		flight := flightOf(response.Request.Context())
		response.Body = newStream(response.Body, flight)
		flight.held.take(response)
	}
	return nil
}

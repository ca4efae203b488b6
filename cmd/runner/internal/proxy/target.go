package proxy

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// Config says how one target is served.
type Config struct {
	// Public is the URL that clients outside the cluster call, empty for none. Where it has a path, their Ingress removes
	// that: a URL that leads them back is relative then.
	Public url.URL
	// ServerUID is that of the server, and Own the hash of the content of the process's own run config.
	ServerUID, Own string
	// Upstream is where calls go until Switch says it. Nil is nowhere: they are refused until then.
	Upstream *Upstream
	// Refresh, if not nil, has what the server's status says read anew, and told by Switch, before it returns, and reports
	// whether it was read.
	Refresh func(context.Context) (read bool)
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
	// Authenticate says in a Call who has sent it, and Authorize whether it may pass. They answer themselves what they do
	// not pass on; nil for nothing.
	Authenticate, Authorize pipeline.Stage
	// Translate, if not nil, stands between these and the backend: it passes requests on to next, and makes requests of
	// its own with send. Where the backend leads a request of its own to another path, the refusal says so: Location. Each
	// upstream has its own.
	Translate func(to *Upstream, next, send http.Handler) Translator
	// Keys, if not nil, seal the ids of sessions. Without them ids pass as they are.
	Keys *session.Keys
	// Log receives changes of the upstream's reachability, and what goes wrong with one stream.
	Log *slog.Logger
}

// belowPath reports whether clients call the proxy below a path that is not its own.
func (c Config) belowPath() bool { return strings.Trim(c.Public.Path, "/") != "" }

// Translator is a handler that may keep sessions with the backend.
type Translator interface {
	http.Handler
	// Close ends them.
	Close(ctx context.Context)
	// Waiting is how many calls wait for another request of their client, and Waits reports whether one does under a state
	// that the client was told.
	Waiting() int
	Waits(state string) bool
}

// target is one server, and the stages that a call for it meets.
type target struct {
	proxy   *Proxy
	config  Config
	origins *origins
	// upstreams are where calls go from now on: others may replace them. The stage pick reads them, once for a call.
	upstreams atomic.Pointer[Upstreams]
	switching switching
	// behindPick are the stages of an upstream. Behind them is forward.
	behindPick func(*Upstream) pipeline.Stages
	forward    *httputil.ReverseProxy
	// chain is all stages but those of the process, and inside the same without who may call and what, for questions of
	// the process's own: own are those for the content of its own run config.
	chain, inside, own http.Handler
	// unserved answers a request with a method that MCP does not have, after its sender has logged in: a client takes
	// HTTP 401 alone for a server with a login.
	unserved http.Handler
}

// flushInterval is how long a part of an answer of stated length is held back at
// most; ReverseProxy sends all other answers on at once. To hold nothing back would
// send the headers of each answer apart: one more write, and a goroutine.
const flushInterval = 50 * time.Millisecond

func newTarget(p *Proxy, config Config) *target {
	t := &target{proxy: p, config: config, origins: newOrigins(config.AllowedOrigins, config.Hosts)}
	// A call meets the stages in this order (docs/maintainers/call.md): these, then those of the upstream that pick picks,
	// which each lane has once.
	calls := pipeline.Stages{t.gate, t.track, config.Authenticate, t.answerFailures, t.admit, config.Authorize}
	questions := pipeline.Stages{t.gate, t.track, insider}
	t.behindPick = func(to *Upstream) pipeline.Stages {
		return pipeline.Stages{t.translate(to), t.route(to.lane), offerTakeover}
	}
	t.forward = &httputil.ReverseProxy{
		Rewrite:        t.rewrite,
		Transport:      routed{},
		FlushInterval:  flushInterval,
		BufferPool:     p.buffers,
		ModifyResponse: t.response,
		ErrorHandler:   t.fail,
		// What ReverseProxy would log is a client that left or a stream that
		// broke; both are in the caller's hands already.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	t.upstreams.Store(&Upstreams{})
	if config.Upstream != nil {
		t.config.Own = cmp.Or(config.Own, config.Upstream.Hash)
		t.switchTo(&Upstreams{Active: config.Upstream})
	}
	t.unserved = pipeline.Stages{t.track, config.Authenticate}.To(http.HandlerFunc(notServed))
	t.chain = calls.To(t.pick(false))
	t.inside, t.own = questions.To(t.pick(false)), questions.To(t.pick(true))
	return t
}

// gate refuses what is no request of MCP, or comes from a page that may not send it.
func (t *target) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		preflight := t.origins.allow(w, r)
		if f := t.judge(r); f != nil {
			Answer(w, f, nil)
			return
		}
		if preflight {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		switch r.Method {
		case http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodOptions:
		default:
			t.unserved.ServeHTTP(w, r)
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
		next.ServeHTTP(w, r)
	})
}

// notServed answers a method that MCP does not have.
func notServed(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", "GET, POST, DELETE, OPTIONS")
	Answer(w, jsonrpc.Fail(http.StatusMethodNotAllowed, CodeNotServed,
		"NotServed: an MCP endpoint takes POST, GET and DELETE"), nil)
}

// judge returns what is wrong with a request, or nil.
func (t *target) judge(r *http.Request) *jsonrpc.Fault {
	switch {
	case t.config.Refusal != "":
		return jsonrpc.Fail(http.StatusServiceUnavailable, CodeNotEnforced, "%s", t.config.Refusal)
	case r.ContentLength > budget.MaxBody:
		return budget.ErrTooLong
	}
	return t.origins.check(r)
}

// track makes the Call, and has a drain wait for its end.
func (t *target) track(next http.Handler) http.Handler {
	fail := t.fail // once, and not for each call
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		counted := to.(*outcome) //nolint:forcetypeassert // the stage that counts comes before
		// The server's own writer is told of a body that is too large.
		call := pipeline.New(fail, counted.ResponseWriter, r, t.proxy.process.Memory)
		w, client := to, r.Context()
		var o *takeover
		if !t.proxy.process.StandardStreams {
			o = newTakeover(counted, r)
		}
		if o != nil {
			w, client = o, o.client
		}
		f, taken := t.proxy.traffic.begin(client, r, call.Body), false
		defer func() {
			if !taken {
				o.end()
				t.proxy.traffic.end(f)
			}
		}()
		next.ServeHTTP(w, r.WithContext(call.In(f.ctx)))
		counted.denied, counted.failed = f.denied, f.failed
		if counted.status == http.StatusOK && f.failed == 0 && !f.denied {
			f.heard()
		}
		if taken = t.takeOver(o, f); taken {
			counted.status = http.StatusOK
		}
	})
}

// admit gives each caller that has logged in its share of the requests on their way. An address has its share of
// connections.
func (t *target) admit(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := pipeline.Of(r.Context()).Account(); who != "" {
			leave, err := t.proxy.process.Memory.Calls.Take(who, 1)
			if err != nil {
				why := "this caller has as many calls on their way as one may have: wait for an answer to one of them"
				if errors.Is(err, share.ErrAll) {
					why = "there are as many calls on their way as this proxy takes: come again later"
				}
				f := jsonrpc.Fail(http.StatusServiceUnavailable, protocol.CodeInternal, "TooManyCalls: %s", why)
				f.Retry = 1
				Answer(w, f, nil)
				return
			}
			flightOf(r.Context()).leave = leave
		}
		next.ServeHTTP(w, r)
	})
}

// translate has clients of either era of MCP use the backend.
func (t *target) translate(to *Upstream) pipeline.Stage {
	if t.config.Translate == nil {
		return nil
	}
	return func(next http.Handler) http.Handler {
		to.translator = t.config.Translate(to, next, t.secondFlight(next))
		return to.translator
	}
}

// secondFlight is how a translator sends requests of its own: they meet the same stages behind it as what it passes on,
// each as a flight beside the client's. A drain waits for the client's, and ends that. What it asked for ends by
// itself, after the backend has been told.
func (t *target) secondFlight(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := r.Body.(*pipeline.Body)
		flight := t.proxy.traffic.flight(r.Context(), r, body)
		defer flight.body.End()
		defer flight.cancel(nil)
		flight.internal = true
		next.ServeHTTP(w, r.WithContext(flight.ctx))
	})
}

// IsOwn reports whether a request is the process's own, by its context.
func IsOwn(ctx context.Context) bool { return flightOf(ctx).inside }

// insider says that a request is the process's own, and to which pod it goes.
func insider(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		flightOf(r.Context()).inside = true
		if pod, err := netip.ParseAddr(r.Header.Get(protocol.HeaderPod)); err == nil {
			pipeline.Of(r.Context()).Pod = pod
		}
		next.ServeHTTP(w, r)
	})
}

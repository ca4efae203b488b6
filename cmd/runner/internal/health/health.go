// Package health answers the kubelet's probes and Prometheus on a listener of their own: an
// MCP endpoint answers 405 or 406 to a GET, and must not be open to probes
// that carry no Origin.
package health

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// State is what the probes tell. The zero State is alive and not ready.
type State struct {
	// Metrics, if not nil, answers /metrics.
	Metrics http.Handler
	// Routing, if not nil, answers /backend: where the proxy's calls go.
	Routing http.Handler

	answered atomic.Bool
	draining atomic.Bool
}

// Answered says that the backend has answered MCP, or that there is an answer
// for callers without one. It holds for the rest of the process's life: a backend
// that goes away later is an error for its calls, not a reason to take away
// the one place that can say so.
func (s *State) Answered() { s.answered.Store(true) }

// Drain says that the process is going away. It is ready no more.
func (s *State) Drain() { s.draining.Store(true) }

// Handler serves /livez (200 while the process runs: restarting it would cure
// no backend) and /readyz (200 after Answered and before Drain, else 503 and
// the reason as text), /metrics and /backend.
func (s *State) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		text(w, http.StatusOK, "alive\n")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		switch {
		case s.draining.Load():
			text(w, http.StatusServiceUnavailable, "shutting down\n")
		case !s.answered.Load():
			text(w, http.StatusServiceUnavailable, "the backend has not answered MCP yet\n")
		default:
			text(w, http.StatusOK, "ready\n")
		}
	})
	if s.Metrics != nil {
		mux.Handle("GET /metrics", s.Metrics)
	}
	if s.Routing != nil {
		mux.Handle("GET /backend", s.Routing)
	}
	return mux
}

// Bounds of who asks: kubelet, and Prometheus.
const (
	// MaxConnections is how many connections there are at a time, half of them from one address.
	MaxConnections = 64
	// MaxFields is how many header fields a request has.
	MaxFields = 32
	// maxHeader is how long they are, in bytes.
	maxHeader = 4 << 10
)

// Server is the server for Handler.
func (s *State) Server() *http.Server {
	return &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      5 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    maxHeader,
	}
}

func text(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) //nolint:errcheck // the kubelet that left asks again
}

// The pauses between attempts of Await.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 2 * time.Second
)

// Await asks all until each answers yes, and calls Answered then; after that nothing
// is asked any more. The pauses double from 0.1 to 2 seconds. It also returns when
// ctx ends.
func (s *State) Await(ctx context.Context, asks ...func(context.Context) bool) {
	no := func(ask func(context.Context) bool) bool { return !ask(ctx) }
	for pause := firstPause; slices.ContainsFunc(asks, no); pause = min(2*pause, lastPause) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
	s.Answered()
}

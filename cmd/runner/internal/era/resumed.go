package era

import (
	"cmp"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// A legacy server may end the stream of a call before it answers, so that no connection waits with it, and a connection
// may break. The rest is said to who asks with the id of the last event (MCP specification 2025-11-25,
// basic/transports, resumability and redelivery).

const (
	// usualPause is how long a client waits before it asks, unless the server says otherwise, and leastPause the shortest.
	usualPause, leastPause = time.Second, 100 * time.Millisecond
	// maxAgain is how often in a row it asks a server that cannot answer now.
	maxAgain = 3
	// maxEventID is how long the id of an event may be, in bytes.
	maxEventID = 4 << 10
)

// resumption is by what the rest of a stream is asked for.
type resumption struct {
	last    string // the id of the last event; empty for none
	pause   time.Duration
	replied bool // the stream has the answer
}

// note keeps what an event says about the rest.
func (r *resumption) note(e sse.Event) {
	if e.ID != nil && string(e.ID) != r.last {
		r.last = ""
		if len(e.ID) <= maxEventID {
			r.last = string(e.ID)
		}
	}
	if ms, err := strconv.ParseUint(string(e.Retry), 10, 31); err == nil {
		r.pause = max(time.Duration(ms)*time.Millisecond, leastPause)
	}
}

// resume asks for the rest of a stream until the answer is there; that of a session has none, and goes on.
func (x *exchange) resume(send http.Handler, r *http.Request, logger *slog.Logger) {
	if r.Header.Get(protocol.HeaderSession) == "" {
		return
	}
	standing := r.Method == http.MethodGet
	for failed := 0; x.events != nil && (standing || !x.rest.replied) && x.rest.last != "" &&
		(x.err == nil || x.err == errBroken); { //nolint:errorlint // it is ours, unwrapped
		x.err = errBroken
		select {
		case <-time.After(cmp.Or(x.rest.pause, usualPause)):
		case <-x.ctx.Done():
			return
		}
		again := r.Clone(x.ctx)
		again.Method, again.Body, again.ContentLength = http.MethodGet, http.NoBody, 0
		again.Header.Del("Content-Type")
		again.Header.Set("Accept", media.Events)
		again.Header.Set(protocol.HeaderLast, x.rest.last)
		x.err = nil
		*x.events = sse.Reader{Limit: maxAnswer, Event: x.event}
		w := &rest{exchange: x, header: http.Header{}}
		x.serve(send, w, again, logger)
		switch {
		case w.streams():
			failed = 0
		case failed+1 < maxAgain && (inconclusive(w.status) || w.status == http.StatusConflict):
			// the server may take the broken stream for open
			failed++
			x.err = errBroken
		default:
			x.err = errBroken
			return
		}
	}
}

// rest is the answer to a request for the rest of a stream: an http.ResponseWriter that says it in the exchange.
type rest struct {
	exchange *exchange
	header   http.Header
	status   int
}

func (a *rest) streams() bool {
	return a.status == http.StatusOK && media.Type(a.header) == media.Events
}

// Header implements http.ResponseWriter.
func (a *rest) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *rest) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.status = cmp.Or(a.status, status)
	}
}

// Write implements io.Writer.
func (a *rest) Write(p []byte) (int, error) {
	if a.WriteHeader(http.StatusOK); a.streams() {
		return a.exchange.Write(p)
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (a *rest) Flush() {}

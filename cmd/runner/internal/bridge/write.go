package bridge

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

const (
	// writeTime is how long a client may take to read what is written at once.
	writeTime = time.Minute
	// quickLegacy and quickModern are how long an answer may take to be JSON and no stream: in the legacy era
	// a stream can be resumed, in the modern one an error has an HTTP status.
	quickLegacy = 250 * time.Millisecond
	quickModern = 2 * time.Second
)

// keepAlive is how long a stream may be silent, for proxies that end those. Tests change it.
var keepAlive = 25 * time.Second

// reading is how a stream is written to a client.
type reading struct {
	s  *stream
	by *reader
	// quick is how long the first event is waited for.
	quick time.Duration
	// events and json say what the client accepts.
	events, json bool
	// primed begins the stream with an event that only carries an id.
	primed bool
	// batch says that JSON is a list.
	batch bool
	// begun says that the headers were sent.
	begun bool
}

// serve writes the stream until its end or the client's. It reports whether all of it
// was written.
func (r reading) serve(w http.ResponseWriter, request *http.Request) bool {
	if !r.events {
		return r.collect(w, request)
	}
	out := &eventWriter{w: w, control: http.NewResponseController(w), ids: r.s.replays, id: r.s.id}
	first, cancel := context.WithTimeout(request.Context(), r.quick)
	e, n, ok := r.s.take(first, r.by)
	cancel()
	if ok && r.json && !r.batch && r.s.last() {
		writeJSON(w, max(e.status, http.StatusOK), e.data)
		e.hold.part()
		return true
	}
	defer out.end()
	if !r.begun {
		out.begin()
	}
	if r.primed {
		before := n - 1
		if !ok {
			before = r.s.written()
		}
		out.prime(before)
	}
	for {
		if ok {
			broken := out.event(e, n)
			if broken != nil {
				r.s.lost(n, r.by)
			}
			if e.hold.part(); broken != nil {
				return false
			}
			if r.s.last() {
				return true
			}
		}
		silence, cancel := context.WithTimeout(request.Context(), keepAlive)
		e, n, ok = r.s.take(silence, r.by)
		cancel()
		switch {
		case ok:
		case request.Context().Err() != nil, !r.s.reads(r.by):
			return false
		case r.s.last():
			return true
		default:
			if out.comment() != nil {
				return false
			}
		}
	}
}

// collect writes all answers as JSON, for a client that takes no stream.
func (r reading) collect(w http.ResponseWriter, request *http.Request) bool {
	var all [][]byte
	var held []*hold
	defer func() {
		for _, h := range held {
			h.part()
		}
	}()
	status := http.StatusOK
	for {
		e, _, ok := r.s.take(request.Context(), r.by)
		if !ok {
			break
		}
		held = append(held, e.hold)
		all, status = append(all, e.data), max(e.status, http.StatusOK)
	}
	switch {
	case request.Context().Err() != nil && !r.s.last():
		return false
	case len(all) == 0:
		w.WriteHeader(http.StatusAccepted)
	case r.batch:
		parts := make([]string, len(all))
		for i, part := range all {
			parts[i] = string(part)
		}
		writeJSON(w, http.StatusOK, []byte("["+strings.Join(parts, ",")+"]"))
	default:
		writeJSON(w, status, all[len(all)-1])
	}
	return true
}

// eventWriter writes server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html).
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	ids     bool
	id      string
}

func (o *eventWriter) begin() {
	header := o.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	o.w.WriteHeader(http.StatusOK)
	_ = o.control.Flush() //nolint:errcheck // the next write tells
}

// prime tells the number of the last event that was written, from which on a client
// may resume.
func (o *eventWriter) prime(n int) {
	_ = o.write(sse.Prime(eventID(o.id, n))) //nolint:errcheck // the next write tells
}

func (o *eventWriter) event(e event, n int) error {
	before := sse.Before
	if o.ids {
		before = sse.BeforeID(eventID(o.id, n))
	}
	return o.write([]byte(before), e.data, []byte(sse.After))
}

func (o *eventWriter) comment() error { return o.write([]byte(sse.Alive)) }

func (o *eventWriter) write(parts ...[]byte) error {
	_ = o.control.SetWriteDeadline(time.Now().Add(writeTime)) //nolint:errcheck // only recorders in tests have none
	for _, part := range parts {
		if _, err := o.w.Write(part); err != nil {
			return err
		}
	}
	return o.control.Flush()
}

// end takes the deadline back, which is the connection's and not the answer's.
func (o *eventWriter) end() {
	_ = o.control.SetWriteDeadline(time.Time{}) //nolint:errcheck // only recorders in tests have none
}

func eventID(stream string, n int) string { return stream + "_" + strconv.Itoa(n) }

// parseEventID reads what a client sends as Last-Event-ID.
func parseEventID(id string) (stream string, n int, ok bool) {
	stream, number, found := strings.Cut(id, "_")
	n, err := strconv.Atoi(number)
	return stream, n, found && stream != "" && err == nil && n >= -1
}

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
	// first is an event that the stream begins with; nil for none.
	first []byte
}

// serve writes the stream until its end or the client's. It reports whether all of it
// was written.
func (r reading) serve(w http.ResponseWriter, request *http.Request) bool {
	if !r.events {
		return r.collect(w, request)
	}
	out := eventsTo(w)
	first, cancel := context.WithTimeout(request.Context(), r.quick)
	e, n, ok := r.s.take(first, r.by)
	cancel()
	if ok && r.json && !r.batch && r.s.last() {
		writeJSON(w, max(e.status, http.StatusOK), e.data)
		e.hold.part()
		return true
	}
	_ = out.Events(r.first) //nolint:errcheck // the next write tells, and what was taken is given back there
	if r.primed {
		before := n - 1
		if !ok {
			before = r.s.written()
		}
		_ = out.Prime(eventID(r.s.id, before)) //nolint:errcheck // the next write tells
	}
	for {
		if ok {
			broken := out.Message(r.id(n), e.data)
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
			if out.Comment() != nil {
				return false
			}
		}
	}
}

// id is that of an event, empty for one that is not kept.
func (r reading) id(n int) string {
	if !r.s.replays {
		return ""
	}
	return eventID(r.s.id, n)
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

// eventsTo writes a stream to a client.
func eventsTo(w http.ResponseWriter) *sse.Writer {
	return &sse.Writer{ResponseWriter: w, Time: func(int) time.Duration { return writeTime }}
}

func eventID(stream string, n int) string { return stream + "_" + strconv.Itoa(n) }

// parseEventID reads what a client sends as Last-Event-ID.
func parseEventID(id string) (stream string, n int, ok bool) {
	stream, number, found := strings.Cut(id, "_")
	n, err := strconv.Atoi(number)
	return stream, n, found && stream != "" && err == nil && n >= -1
}

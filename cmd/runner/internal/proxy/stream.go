package proxy

import (
	"errors"
	"io"
	"net/http"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// stream passes an event stream on and, when its backend breaks off or the
// proxy has to end it, ends it so that the client knows what happened:
// a call gets a JSON-RPC error, a subscription its result, and who can resume
// (https://html.spec.whatwg.org/multipage/server-sent-events.html, Last-Event-ID)
// a hint to do so. Half an event cannot be taken back: then the connection is
// cut.
type stream struct {
	body   io.ReadCloser
	flight *flight
	lines  lines
	broken error
	tail   []byte
	ended  bool
}

func newStream(body io.ReadCloser, f *flight) *stream {
	s := &stream{body: body, flight: f, lines: lines{atEvent: true}}
	if id := f.body.ID(); id != nil {
		s.lines.answer = newAnswerScan(id)
	}
	return s
}

func (s *stream) Close() error { return s.body.Close() }

func (s *stream) Read(p []byte) (int, error) {
	if s.ended {
		return s.rest(p)
	}
	if s.broken == nil {
		n, err := s.body.Read(p)
		s.lines.scan(p[:n])
		if s.lines.answered() {
			s.flight.answered()
		}
		if err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		s.broken = err
		if n > 0 {
			return n, nil
		}
	}
	if s.flight.deserted() || !s.lines.atEvent {
		return 0, s.broken
	}
	s.tail, s.ended = s.ending(), true
	return s.rest(p)
}

func (s *stream) rest(p []byte) (int, error) {
	n := copy(p, s.tail)
	s.tail = s.tail[n:]
	if len(s.tail) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// ending is what is still to be said. It is nothing for a call whose id is not
// known: clients take the end of the stream for its failure.
func (s *stream) ending() []byte {
	id := s.flight.body.ID()
	switch {
	case s.lines.answered():
		return nil
	case s.flight.moved() && s.flight.listening() && id != nil:
		return sse.Message(jsonrpc.ListenEnd(id))
	case s.flight.request.Method == http.MethodGet, s.lines.identified:
		return []byte(sse.Resume)
	case id == nil:
		return nil
	case s.flight.listening() && s.flight.drained():
		return sse.Message(jsonrpc.ListenEnd(id))
	case s.flight.drained():
		return sse.Message(errDraining.Response(id))
	default:
		return sse.Message(errGone.Response(id))
	}
}

var errGone = jsonrpc.Fail(http.StatusOK, CodeBackendGone,
	"BackendGone: the backend broke the stream off before it answered; the call may have run")

// lines follows the events of a stream as it passes.
type lines struct {
	framing    sse.Scanner
	atEvent    bool // nothing has been sent since the end of an event
	identified bool // an event had an id, so the stream can be resumed
	// event is the name of the event so far, and line that of its last line.
	event, line name
	// answer looks for the call's answer; nil where there is none to look for.
	answer *answerScan
}

// answered reports whether the answer to the call has passed, as a whole.
func (l *lines) answered() bool { return l.answer != nil && l.answer.found }

func (l *lines) scan(p []byte) {
	for len(p) > 0 {
		part, n := l.framing.Next(p)
		l.atEvent = part == sse.End || part == sse.None && l.atEvent
		switch {
		case part == sse.ID:
			l.identified = true
		case l.answer == nil:
		case part == sse.Data:
			l.answer.Read(p[:n])
		case part == sse.Name:
			l.line.keep(p[:n])
		case part == sse.Line && l.framing.Field() == sse.Name:
			l.event, l.line = l.line, name{}
		case part == sse.End:
			l.answer.message(l.event.length == 0 || l.event.is("message"))
			l.event = name{}
		}
		p = p[n:]
	}
}

// name is a name, or its beginning: those that matter are short.
type name struct {
	text   [len("message") + 1]byte
	length int
}

func (n *name) is(text string) bool { return string(n.text[:n.length]) == text }

func (n *name) keep(p []byte) { n.length += copy(n.text[n.length:], p) }

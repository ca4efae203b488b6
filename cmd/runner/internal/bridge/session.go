package bridge

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// maxFinished is how many answers that are over, or broke off, are kept for clients that
// resume them.
const maxFinished = 8

// session is a client of the legacy era, from initialize on.
type session struct {
	id     string
	caller string // who began it; "" where that is not known
	own    bool   // it is a proxy's, which has a server while it needs one
	peer   *peer
	shared *shared // where the server is not the session's own
	// hello is what a session of a proxy's is told of a server that it does not have.
	hello []byte
	// standing carries what answers no request.
	standing *stream
	// gone is closed when the session has ended.
	gone chan struct{}

	mu      sync.Mutex
	version string // that was agreed on
	streams []*stream
	used    time.Time
	left    bool            // its client has closed the standing stream, and sent nothing since
	asked   map[string]bool // resources that it subscribed to, of a shared server
	over    bool
}

// touch says that the client was there.
func (s *session) touch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used = time.Now()
}

// comes says that the client asks for something, and leaves that it reads its standing stream no more.
func (s *session) comes()  { s.setLeft(false) }
func (s *session) leaves() { s.setLeft(true) }

func (s *session) setLeft(left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used, s.left = time.Now(), left
}

// patience is how long it may be idle.
func (s *session) patience(set time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case set != 0:
		return set
	case s.left:
		return LeftTime
	}
	return IdleTime
}

// idle is since when the client has had nothing open; false while it has.
func (s *session) idle() (since time.Time, ok bool) {
	if !s.standing.idle() {
		return time.Time{}, false
	}
	if p, _ := s.server(); p != nil && len(p.mine(s)) > 0 {
		return time.Time{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stream := range s.streams {
		if stream.isAttached() {
			return time.Time{}, false
		}
	}
	return s.used, true
}

// server is the session's server, and what shares it; nil for a proxy's session that has none.
func (s *session) server() (*peer, *shared) {
	if !s.own {
		return s.peer, s.shared
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.peer == nil || s.peer.leaves() {
		return nil, nil
	}
	return s.peer, s.shared
}

// keep remembers a stream while it can be resumed.
func (s *session) keep(stream *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		defer stream.free()
	}
	s.streams = append(s.streams, stream)
	for i := 0; len(s.streams) > maxFinished && i < len(s.streams); {
		if s.streams[i].idle() {
			s.streams[i].free()
			s.streams = append(s.streams[:i], s.streams[i+1:]...)
			continue
		}
		i++
	}
}

func (s *session) forget(stream *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, kept := range s.streams {
		if kept == stream {
			stream.free()
			s.streams = append(s.streams[:i], s.streams[i+1:]...)
			return
		}
	}
}

func (s *session) stream(id string) *stream {
	if id == s.standing.id {
		return s.standing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kept := range s.streams {
		if kept.id == id && !kept.isFreed() {
			return kept
		}
	}
	return nil
}

// post sends messages of the client on; what answers them goes to a stream, whose calls
// are counted beforehand. It returns what is wrong with the first that cannot be sent,
// unless a call was: whoever is refused sends all again. Then each call has its own answer.
func (s *session) post(ctx context.Context, messages []jsonrpc.Message, to *stream) *jsonrpc.Fault {
	sent := false
	p, shared := s.server()
	for _, m := range messages {
		params := oneLine(m.Params)
		var err error
		switch {
		case p == nil:
			s.alone(m, to)
		case shared != nil && shared.answers(s, m, to):
		case m.Call():
			c := &call{id: m.ID, method: m.Method, owner: s, caller: s.caller, to: to, answer: answerTo(to)}
			if m.Method == "initialize" {
				c.to, c.answer = nil, s.agreed(c.answer)
			}
			if shared != nil && m.Method == methodSubscribe {
				c.answer = s.subscribed(jsonrpc.TextAt(params, "uri"), c.answer)
			}
			err = p.ask(ctx, c, params)
		case m.Method == methodCancelled:
			p.cancel(ctx, s, jsonrpc.At(params, "requestId"), params)
		case m.Method != "":
			err = p.tell(ctx, jsonrpc.Message{Method: m.Method, Params: params}.Text())
		default:
			s.answered(m.ID)
			err = p.tell(ctx, onOneLine(m).Text())
		}
		switch {
		case err != nil && !sent:
			return asFault(err)
		case err != nil && m.Call():
			answerTo(to)(asFault(err).Response(m.ID), http.StatusOK, false)
		}
		sent = sent || m.Call()
	}
	return nil
}

// onOneLine is an answer of a client's as one line.
func onOneLine(m jsonrpc.Message) jsonrpc.Message {
	return jsonrpc.Message{ID: m.ID, Result: oneLine(m.Result), Error: oneLine(m.Error)}
}

// agreed notes the revision that initialize has led to.
func (s *session) agreed(answer func([]byte, int, bool)) func([]byte, int, bool) {
	return func(data []byte, status int, patient bool) {
		s.mu.Lock()
		s.version = jsonrpc.TextAt(data, "result", "protocolVersion")
		s.mu.Unlock()
		answer(data, status, patient)
	}
}

func (s *session) revision() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// other takes a message of the session's own server that answers no call. Where one
// call waits, it is about that; on standard output nothing says so. Where several do,
// it is about one whose client has nothing to answer: the server waits in the others.
// What comes before the answer to initialize is for the standing stream.
// Changes of lists and resources are for the standing stream if there is one.
func (s *session) other(p *peer, m jsonrpc.Message) {
	e := event{data: m.Text()}
	calls := slices.DeleteFunc(p.mine(s), func(c *call) bool { return c.to == nil })
	general := strings.HasSuffix(m.Method, "/list_changed") || m.Method == "notifications/resources/updated"
	to := s.standing
	if len(calls) > 0 && (!general && len(calls) <= 1) || len(calls) > 0 && !to.isAttached() {
		to = s.likely(calls, m.ID).to
	}
	to.push(e, true)
}

// likely is the call that a message is about which may be a question: the one that has
// waited longest without one, else the last.
func (s *session) likely(calls []*call, question []byte) *call {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := slices.MinFunc(calls, func(a, b *call) int {
		if (a.asked == "") != (b.asked == "") {
			return cmp.Compare(a.asked, b.asked)
		}
		order := cmp.Compare(a.began, b.began)
		if a.asked != "" {
			order = -order
		}
		return order
	})
	if question != nil {
		first.asked = jsonrpc.IDKey(question)
	}
	return first
}

// answered notes that the client has answered a question.
func (s *session) answered(question []byte) {
	calls := s.peer.mine(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range calls {
		if c.asked == jsonrpc.IDKey(question) {
			c.asked = ""
		}
	}
}

// end ends the session, and its server if that is its own, which has ended when done is closed. The table alone calls
// it, for what it has taken out: once.
func (s *session) end() (done <-chan struct{}) {
	close(s.gone)
	s.standing.end()
	s.standing.free()
	s.mu.Lock()
	s.over = true
	for _, stream := range s.streams {
		stream.free()
	}
	p, shared := s.peer, s.shared
	s.mu.Unlock()
	switch {
	case shared != nil:
		shared.leave(s)
	case p != nil:
		p.stop()
		return p.done
	}
	return nil
}

func asFault(err error) *jsonrpc.Fault {
	f, ok := err.(*jsonrpc.Fault) //nolint:errorlint // it is ours, unwrapped
	if !ok {
		return jsonrpc.Fail(http.StatusBadGateway, CodeServerUnusable, "ServerUnusable: %s", err)
	}
	return f
}

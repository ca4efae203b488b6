package bridge

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// shared is one server of the legacy era for many sessions. The bridge has initialized
// it, with no capability of a client's: the server never asks a client, and could not
// say which.
type shared struct {
	peer  *peer
	hello []byte // the result of initialize

	mu       sync.Mutex
	sessions map[*session]bool
	used     time.Time // when a session last needed it
}

// starting is a start of the shared server.
type starting struct {
	done chan struct{} // closed once it has ended
	all  *shared
	f    *jsonrpc.Fault
}

// share is the server that sessions share. Where it does not run it is started, once for all who ask meanwhile: they
// are told alike how that ends, and whoever asks after that is not. It goes on when those have left who wait for it.
func (b *Bridge) share(ctx context.Context) (*shared, *jsonrpc.Fault) {
	b.sharing.Lock()
	if all := b.shared; all != nil && !all.peer.leaves() {
		all.used = time.Now()
		b.sharing.Unlock()
		return all, nil
	}
	s := b.starting
	if s == nil {
		s = &starting{done: make(chan struct{})}
		b.starting = s
		go b.openShared(s)
	}
	b.sharing.Unlock()
	select {
	case <-s.done:
		return s.all, s.f
	case <-ctx.Done():
		return nil, busy("the client did not wait for the server")
	}
}

// openShared starts the server and initializes it.
func (b *Bridge) openShared(s *starting) {
	defer close(s.done)
	ctx := context.Background() // a start has a bound of its own
	if s.all, s.f = startShared(ctx, b.starter, b.sharedBy()); s.f == nil {
		s.f = s.all.introduce(ctx, b.starter)
	}
	b.sharing.Lock()
	defer b.sharing.Unlock()
	if b.starting = nil; s.f == nil {
		b.starter.remember(s.all.hello)
		b.shared, s.all.used = s.all, time.Now()
	}
}

// sharedBy is who shares a server of the legacy era.
func (b *Bridge) sharedBy() string {
	if b.config.Shared {
		return allSessions
	}
	return proxiesAsk
}

// startShared starts a server for many.
func startShared(ctx context.Context, s *starter, of string) (*shared, *jsonrpc.Fault) {
	all := &shared{sessions: map[*session]bool{}, used: time.Now()}
	p, f := s.open(ctx, "", of, func(p *peer, m jsonrpc.Message) { all.other(p, m) })
	all.peer = p
	return all, f
}

// introduce initializes the server, and ends it where that is not possible.
func (a *shared) introduce(ctx context.Context, s *starter) *jsonrpc.Fault {
	p := a.peer
	answer, err := p.question(ctx, "initialize", map[string]any{
		"protocolVersion": protocol.Legacy, "capabilities": struct{}{}, "clientInfo": ownInfo,
	})
	if err != nil {
		p.stop()
		return asFault(err)
	}
	m, f := await(ctx, s, p, answer)
	switch {
	case f != nil:
	case code(m) == CodeServerEnded:
		f = jsonrpc.Fail(http.StatusBadGateway, CodeServerEnded, "%s", jsonrpc.TextAt(m.Error, "message"))
	case m.Result == nil:
		f = jsonrpc.Fail(http.StatusBadGateway, CodeServerUnusable, "ServerUnusable: the server refuses initialize: %s",
			m.Error)
	}
	if f == nil {
		if err := p.tell(ctx, jsonrpc.Message{Method: "notifications/initialized"}.Text()); err != nil {
			f = asFault(err)
		}
	}
	if f != nil {
		p.stop()
		return f
	}
	a.hello = m.Result
	return nil
}

// answers answers in the server's place what it may not be asked for each session.
func (a *shared) answers(s *session, m jsonrpc.Message, to *stream) bool {
	if !m.Call() { // what says nothing of a call of the session's is of no use to a server that asks nothing
		return m.Method != methodCancelled
	}
	switch m.Method {
	case "initialize":
		s.agreed(answerTo(to))(jsonrpc.Result(m.ID, helloFor(m, a.hello)), http.StatusOK, false)
		return true
	case methodSubscribe:
		if f := s.mayAsk(jsonrpc.TextAt(m.Params, "uri")); f != nil {
			answerTo(to)(f.Response(m.ID), http.StatusOK, false)
			return true
		}
	case "resources/unsubscribe":
		s.mu.Lock()
		delete(s.asked, jsonrpc.TextAt(m.Params, "uri"))
		s.mu.Unlock()
		if a.wanted(jsonrpc.TextAt(m.Params, "uri")) {
			answerTo(to)(jsonrpc.Result(m.ID, []byte("{}")), http.StatusOK, false)
			return true
		}
	}
	return false
}

// helloFor is a server's result of initialize for another client than the one that has asked: in the revision that is
// agreed on with that.
func helloFor(initialize jsonrpc.Message, hello []byte) []byte {
	agreed := protocol.Agreed(jsonrpc.TextAt(initialize.Params, "protocolVersion"),
		jsonrpc.TextAt(hello, "protocolVersion"))
	hello, _ = jsonrpc.Swapped(hello, []byte(strconv.Quote(agreed)), "protocolVersion")
	return hello
}

const methodSubscribe = "resources/subscribe"

// Bounds of what a session subscribes to of a shared server, which the bridge remembers.
const (
	maxAsked = 100
	maxURI   = 2 << 10 // in bytes
)

// mayAsk is why a session cannot subscribe to a resource.
func (s *session) mayAsk(uri string) *jsonrpc.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(uri) > maxURI:
		return jsonrpc.Fail(http.StatusOK, protocol.CodeInvalidParams, "the URI has more than %d bytes", maxURI)
	case len(s.asked) >= maxAsked && !s.asked[uri]:
		return jsonrpc.Fail(http.StatusOK, protocol.CodeInvalidParams,
			"the session is subscribed to %d resources: unsubscribe from one first", maxAsked)
	}
	return nil
}

// subscribed notes a subscription once the server has taken it.
func (s *session) subscribed(uri string, answer func([]byte, int, bool)) func([]byte, int, bool) {
	return func(data []byte, status int, patient bool) {
		if jsonrpc.At(data, "result") != nil {
			s.mu.Lock()
			s.asked[uri] = true
			s.mu.Unlock()
		}
		answer(data, status, patient)
	}
}

// wanted reports whether a session is subscribed to a resource.
func (a *shared) wanted(uri string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s := range a.sessions {
		s.mu.Lock()
		asked := s.asked[uri]
		s.mu.Unlock()
		if asked {
			return true
		}
	}
	return false
}

// other takes what is about no call that waits: changes go to all whom they concern.
// Whose the rest is nobody can tell, the log above all: a call that has ended may have
// led to it also where only one waits.
func (a *shared) other(p *peer, m jsonrpc.Message) {
	if m.ID != nil {
		refuse(p, m)
		return
	}
	e := event{data: m.Text()}
	uri := jsonrpc.TextAt(m.Params, "uri")
	switch m.Method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed":
		a.each(func(s *session) { s.standing.push(e, false) })
	case "notifications/resources/updated":
		a.each(func(s *session) {
			s.mu.Lock()
			asked := s.asked[uri]
			s.mu.Unlock()
			if asked {
				s.standing.push(e, false)
			}
		})
	}
}

// refuse answers a request of a server that nobody may be asked for.
func refuse(p *peer, m jsonrpc.Message) {
	answer := jsonrpc.Fail(http.StatusOK, protocol.CodeMethodNotFound,
		"the server is shared by clients, and cannot ask one").Response(m.ID)
	if m.Method == "ping" {
		answer = jsonrpc.Result(m.ID, []byte("{}"))
	}
	select {
	case p.refusals <- struct{}{}:
	default:
		return
	}
	// Not here: the server may read only after what it writes was read.
	go func() {
		defer func() { <-p.refusals }()
		_ = p.tell(context.Background(), answer) //nolint:errcheck // its end is noticed elsewhere
	}()
}

func (a *shared) each(do func(*session)) {
	a.mu.Lock()
	sessions := make([]*session, 0, len(a.sessions))
	for s := range a.sessions {
		sessions = append(sessions, s)
	}
	a.mu.Unlock()
	for _, s := range sessions {
		do(s)
	}
}

// join gives a session a shared server, in place of one that has ended.
func (s *session) join(a *shared) {
	s.mu.Lock()
	before := s.shared
	s.shared, s.peer, s.hello = a, a.peer, a.hello
	s.mu.Unlock()
	if before != nil {
		before.leave(s)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions[s] = true
}

func (a *shared) leave(s *session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sessions, s)
}

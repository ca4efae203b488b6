package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// Server is the server behind the bridge.
type Server struct {
	// Open starts the server, or connects to it. The error says why neither can be.
	Open func() (Conn, error)
	// Junk is what the server last printed that is no message, empty if nothing was.
	Junk func() string
	// Modern says that the server may speak revision 2026-07-28.
	Modern bool
	// LongestPause is how long the pauses become before it is opened again, which cannot be or ends without a word: half
	// a minute if zero.
	LongestPause time.Duration
}

// How long a server may take for its first words.
const (
	// firstWords is how long a client waits for the answer to initialize.
	firstWords = 60 * time.Second
	// junkPatience is the same for a server that has printed what is no message.
	junkPatience = 10 * time.Second
	// probePatience is how long a client of the modern era waits until it is known
	// whether the server speaks it: less than the minute after which many clients give up.
	probePatience = 50 * time.Second
	// junkPause is the time between two looks at what it prints.
	junkPause = 500 * time.Millisecond
)

// Pauses before a server is started again that ended before it said anything.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
)

// starter opens connections, with growing pauses while they end without a word.
type starter struct {
	server Server
	log    *slog.Logger

	mu sync.Mutex
	// pauses are by whose connections ended, of those for many clients by "": what a client
	// says may have its server end, and is nothing to the others.
	pauses map[string]pause
	peers  map[*peer]bool // those that have not ended
	// hello is what one of them said to initialize last, and telling closed once it is there.
	hello   []byte
	telling chan struct{}
	// closed says that none is opened any more.
	closed bool
}

// pause is how long the next start waits, until when, and why.
type pause struct {
	lasts time.Duration
	until time.Time
	why   string
	err   error // from which a reason is told; nil for none
}

// What a connection is for, as the log says it.
const (
	oneSession  = "a session"
	allSessions = "all sessions"
	noSession   = "requests without a session"
	proxiesAsk  = "what proxies ask"
	itsEra      = "its era"
)

// rest waits for the end of the pause that a caller's next start has, where that is no longer than a client would be
// asked to wait.
func (s *starter) rest(ctx context.Context, caller string) *jsonrpc.Fault {
	for {
		s.mu.Lock()
		p, closed := s.pauses[caller], s.closed
		if all := s.pauses[""]; all.until.After(p.until) {
			p = all
		}
		s.mu.Unlock()
		left := time.Until(p.until)
		switch {
		case closed:
			return busy("the server stops")
		case left <= 0:
			return nil
		case left > retryAfter:
			return because(busy("the server is tried again after a pause: it ended before it answered (%s)", p.why), p.err)
		}
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return busy("the client did not wait for the server")
		}
	}
}

// open opens a connection of a caller's own; for many clients it is that of "".
func (s *starter) open(
	ctx context.Context, caller, of string, other func(p *peer, m jsonrpc.Message),
) (*peer, *jsonrpc.Fault) {
	if f := s.rest(ctx, caller); f != nil {
		return nil, f
	}
	began := time.Now()
	conn, err := s.server.Open() // it may take long
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		if err == nil {
			conn.End()
		}
		return nil, busy("the server stops")
	}
	if err != nil {
		s.failed("", began, err.Error(), err)
		f := because(jsonrpc.Fail(http.StatusBadGateway, CodeServerUnusable, "ServerUnusable: %s", err), err)
		f.Err = errUnstartable
		return nil, f
	}
	var p *peer
	ready := make(chan struct{})
	p = newPeer(conn, of == oneSession, func(m jsonrpc.Message) { <-ready; other(p, m) },
		func(p *peer) { s.over(caller, p) })
	p.isFor(of)
	close(ready)
	if s.peers == nil {
		s.peers = map[*peer]bool{}
	}
	s.peers[p] = true
	go s.watch(caller, of, p)
	return p, nil
}

// failed makes the next start of a caller wait, of all of them that of "", after one that began at a time: those that
// fail together count as one. It forgets pauses that are over for long. The lock is held.
func (s *starter) failed(caller string, began time.Time, why string, err error) {
	now := time.Now()
	if caller == "" {
		s.hello = nil
	}
	if began.Before(s.pauses[caller].until) {
		return
	}
	maps.DeleteFunc(s.pauses, func(_ string, p pause) bool { return now.Sub(p.until) > lastPause })
	if s.pauses == nil {
		s.pauses = map[string]pause{}
	}
	lasts := min(max(2*s.pauses[caller].lasts, firstPause), cmp.Or(s.server.LongestPause, lastPause))
	s.pauses[caller] = pause{lasts, now.Add(lasts), why, err}
}

// over has the next start wait after a connection that ended without a word. A client
// that is told of the end closes its session, after which the bridge has stopped it.
func (s *starter) over(caller string, p *peer) {
	select {
	case <-p.heard:
		return
	default:
	}
	if p.stopped.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed(caller, p.started, p.conn.Why(), nil)
}

// watch forgets the pauses once a connection has said something, and the connection once it
// has ended. It logs both ends of it, and warns of one that the bridge has not ended.
func (s *starter) watch(caller, of string, p *peer) {
	began := time.Now()
	s.log.Info("server started", "for", of)
	select {
	case <-p.heard:
		s.mu.Lock()
		delete(s.pauses, caller)
		delete(s.pauses, "")
		s.mu.Unlock()
	case <-p.done:
	}
	<-p.done
	level := slog.LevelWarn
	if p.stopped.Load() {
		level = slog.LevelInfo
	}
	s.log.Log(context.Background(), level, "server ended", "for", p.purpose(), "detail", p.conn.Why(), "lived",
		time.Since(began).String())
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.peers, p)
}

// close ends all connections, also those whose first words somebody waits for.
func (s *starter) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, p := range s.running() {
		p.stop()
	}
}

// running are the connections that have not ended.
func (s *starter) running() []*peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.peers))
}

// await waits for the first of: the answer, the end of ctx, and the end of patience,
// which is short for a server that prints what is no message.
func await[T any](ctx context.Context, s *starter, p *peer, answer <-chan T) (T, *jsonrpc.Fault) {
	var none T
	select {
	case m := <-answer:
		return m, nil // also where ctx has ended
	default:
	}
	tick := time.NewTicker(junkPause)
	defer tick.Stop()
	patience := time.After(firstWords)
	for {
		select {
		case m := <-answer:
			return m, nil
		case <-tick.C:
			if f := s.junk(p); f != nil {
				return none, f
			}
		case <-patience:
			return none, jsonrpc.Fail(http.StatusBadGateway, CodeServerUnusable,
				"ServerUnusable: the server did not answer initialize within %s", firstWords)
		case <-ctx.Done():
			return none, busy("the client did not wait for the server")
		}
	}
}

// junk is what is wrong with a server that has only said what is no message, for long.
func (s *starter) junk(p *peer) *jsonrpc.Fault {
	text := s.server.Junk()
	select {
	case <-p.heard:
		return nil
	default:
	}
	if text == "" || time.Since(p.started) < junkPatience {
		return nil
	}
	return jsonrpc.Fail(http.StatusBadGateway, CodeServerUnusable,
		"ServerUnusable: the server prints on its standard output what is not MCP: %q; have it log to standard error", text)
}

// ownInfo is what the bridge says of itself where it asks in no client's place.
var ownInfo = struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}{"freehold-bridge", "1"}

// ownMeta is _meta of its own requests in the modern era, and ownID their id.
var (
	ownMeta = map[string]any{
		protocol.MetaVersion: protocol.Modern, protocol.MetaClient: ownInfo,
		protocol.MetaCapabilities: struct{}{},
	}
	ownID = []byte("0")
)

// question is a request of the bridge's own. Its answer is the owner of the call.
func (p *peer) question(ctx context.Context, method string, params any) (<-chan jsonrpc.Message, error) {
	answer := make(chan jsonrpc.Message, 1)
	body, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	return answer, p.ask(ctx, &call{
		id: ownID, owner: (<-chan jsonrpc.Message)(answer), method: method,
		answer: func(data []byte, _ int, _ bool) {
			if all := read(data); len(all) == 1 {
				answer <- all[0]
			}
		},
	}, body)
}

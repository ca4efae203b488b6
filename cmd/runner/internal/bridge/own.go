package bridge

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A proxy asks whether its server answers, what that offers, and which revisions it speaks. A program may take long to
// start, and is not started for each of these questions: what one has said to initialize answers the proxy's own, and
// from the first call on that needs a program there is one for all sessions of proxies, which ends when it is not
// needed.

const (
	// ownIdle is how long such a program stays when nothing is asked.
	ownIdle = time.Minute
	// maxKnown is how long may be what is remembered of an answer to initialize, in bytes.
	maxKnown = 64 << 10
)

// known is what a program said to initialize, nil where that is not known.
func (s *starter) known() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hello
}

// told is closed once it is known.
func (s *starter) told() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hello != nil {
		now := make(chan struct{})
		close(now)
		return now
	}
	if s.telling == nil {
		s.telling = make(chan struct{})
	}
	return s.telling
}

// remember keeps what a program has said to initialize, without instructions, which may be for one client. Failed
// starts forget it.
func (s *starter) remember(hello []byte) {
	told := jsonrpc.Object{}
	for _, name := range []string{"protocolVersion", "capabilities", "serverInfo"} {
		told[name] = jsonrpc.At(hello, name)
	}
	kept := told.Joined()
	if told["protocolVersion"] == nil || len(kept) > maxKnown {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hello = kept
	if s.telling != nil {
		close(s.telling)
		s.telling = nil
	}
}

// learn remembers the answer to a client's initialize, unless that is in an older revision than the program may have.
func (s *starter) learn(initialize jsonrpc.Message, result []byte) {
	agreed := jsonrpc.TextAt(result, "protocolVersion")
	if agreed == protocol.Legacy || agreed != jsonrpc.TextAt(initialize.Params, "protocolVersion") {
		s.remember(result)
	}
}

// asksForItself reports whether initialize is a proxy's own, which nobody has called for: whoever else takes its name
// has a program apart, as all have. Servers of events are no programs: what is known of those may be over.
func (b *Bridge) asksForItself(caller string, initialize jsonrpc.Message) bool {
	return caller == "" && b.config.Server.Modern &&
		jsonrpc.TextAt(initialize.Params, "clientInfo", "name") == protocol.OwnClient
}

// waitKnown waits until it is known what a program says to initialize, while one starts that may tell. A fault says
// that none does.
func (b *Bridge) waitKnown(ctx context.Context) *jsonrpc.Fault {
	if _, legacy := b.modern.known(); legacy || b.starter.known() != nil {
		return nil
	}
	all, settled, f := b.modern.running(ctx)
	if f != nil {
		return f
	}
	told, first := b.starter.told(), make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(first)
		select {
		case <-settled:
		case <-told:
		case <-ctx.Done():
		}
	}()
	_, f = await(ctx, b.starter, all.peer, first)
	return f
}

// reach gives a session of a proxy a server, where messages need one and it has none.
func (b *Bridge) reach(ctx context.Context, s *session, messages []jsonrpc.Message) *jsonrpc.Fault {
	if !s.own || !slices.ContainsFunc(messages, b.needsServer) {
		return nil
	}
	return b.connect(ctx, s)
}

// needsServer reports whether a server is to answer a message. Whether one that all share still does is what a ping
// asks: one that has ended is started again. A program for the ping alone is not started.
func (b *Bridge) needsServer(m jsonrpc.Message) bool {
	return m.Call() && m.Method != "initialize" && (m.Method != "ping" || b.config.Shared)
}

// alone answers a message of a session that has no server.
func (s *session) alone(m jsonrpc.Message, to *stream) {
	switch {
	case !m.Call():
	case m.Method == "initialize":
		s.agreed(answerTo(to))(jsonrpc.Result(m.ID, helloFor(m, s.hello)), http.StatusOK, false)
	case m.Method == "ping":
		answerTo(to)(jsonrpc.Result(m.ID, []byte("{}")), http.StatusOK, false)
	default: // its server has ended just now
		answerTo(to)(busy("the server ends").Response(m.ID), http.StatusOK, false)
	}
}

// keep takes a program that was initialized and that no client has: the sessions of all use it, or with a program for
// each those of proxies.
func (b *Bridge) keep(all *shared) {
	b.sharing.Lock()
	defer b.sharing.Unlock()
	if b.starting != nil || b.shared != nil && !b.shared.peer.leaves() {
		all.peer.stop()
		return
	}
	all.peer.isFor(b.sharedBy())
	b.shared = all
}

// sweepOwn ends the program of proxies' sessions that is not needed.
func (b *Bridge) sweepOwn(now time.Time) {
	if b.config.Shared {
		return
	}
	b.sharing.Lock()
	defer b.sharing.Unlock()
	if all := b.shared; all != nil && now.Sub(all.used) > ownIdle && len(all.peer.mine(nil)) == 0 {
		all.peer.stop()
		b.shared = nil
	}
}

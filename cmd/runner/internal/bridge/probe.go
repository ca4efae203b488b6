package bridge

import (
	"context"
	"slices"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// How long a server may take for its era before it is asked for a session besides, and how long after it has answered
// that.
const (
	discoverTime = 15 * time.Second
	besidesTime  = 2 * time.Second
)

// probe asks a server that was started whether it speaks the era.
func (m *modern) probe(all *shared, settled chan<- struct{}) {
	defer close(settled)
	p := all.peer
	answer, err := p.question(context.Background(), protocol.MethodDiscover, map[string]any{"_meta": ownMeta})
	if err != nil {
		return
	}
	var late <-chan time.Time // a server that is known to speak the era is not asked for a session
	if speaks, _ := m.known(); !speaks {
		late = time.After(discoverTime)
	}
	var hello jsonrpc.Message
	introduced := false
	select {
	case hello = <-answer:
	case <-late:
		hello, introduced = m.besides(all, answer)
	}
	speaks := slices.Contains(jsonrpc.Discovered(hello), protocol.Modern)
	// A server that ended may have done so for another reason than the question.
	legacy := !speaks && code(hello) != CodeServerEnded
	if legacy {
		m.yield(all, introduced)
	}
	m.mu.Lock()
	m.speaks, m.legacy = speaks, legacy
	m.mu.Unlock()
	if speaks {
		p.isFor(noSession)
	}
	if speaks && introduced {
		p.stop()
	}
}

// besides asks a server for a session that does not answer the question for its era, as one of the legacy era need not.
// Many that are slow answer both in turn once they have started. It returns the answer to the first, none where there
// is only one to the second, and whether there was such a one.
func (m *modern) besides(all *shared, answer <-chan jsonrpc.Message) (hello jsonrpc.Message, introduced bool) {
	second := make(chan bool, 1)
	go func() { second <- all.introduce(context.Background(), m.starter) == nil }()
	select {
	case hello = <-answer:
		return hello, <-second
	case introduced = <-second:
	}
	if !introduced { // it has ended
		return <-answer, false
	}
	select {
	case hello = <-answer:
	case <-time.After(besidesTime):
		all.peer.cancel(context.Background(), answer, ownID, nil)
	}
	return hello, true
}

// yield hands a server on that is of the legacy era, if it begins a session, and ends it otherwise.
func (m *modern) yield(all *shared, introduced bool) {
	if !introduced && all.introduce(context.Background(), m.starter) != nil {
		return
	}
	m.keep(all)
	m.starter.remember(all.hello)
}

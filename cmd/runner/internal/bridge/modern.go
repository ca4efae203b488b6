package bridge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/headers"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// legacyMethods are of the connection, beside initialize, which all clients share in the modern era
// (https://modelcontextprotocol.io/specification/2026-07-28/changelog).
var legacyMethods = []string{"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}

// modern is the one server that answers requests of the modern era. It gets no initialize: a server takes its
// connection for one era (docs/adr/0034-one-server-a-session.md).
type modern struct {
	starter *starter
	// keep takes a server that turns out to be of the legacy era.
	keep    func(*shared)
	starts  chan struct{} // held while one is started
	all     *shared
	settled chan struct{} // closed once it is known whether the server speaks the era

	mu     sync.Mutex
	speaks bool
	legacy bool // it does not; that stays so
}

func newModern(s *starter, keep func(*shared)) *modern {
	return &modern{starter: s, keep: keep, starts: make(chan struct{}, 1)}
}

// start starts the server. It reports whether that has ended without a word.
func (m *modern) start(ctx context.Context) (silent bool, err error) {
	if _, f := m.server(ctx); f != nil && errors.Is(f, errUnstartable) {
		return false, f
	}
	speaks, legacy := m.known()
	m.starts <- struct{}{}
	defer func() { <-m.starts }()
	if speaks || legacy || m.all == nil {
		return m.all == nil, nil
	}
	select {
	case <-m.all.peer.done:
		return true, nil
	case <-time.After(firstPause):
		return false, nil // it may yet say something
	}
}

func (m *modern) known() (speaks, legacy bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.speaks, m.legacy
}

// running is the server, started if it does not run, and what is closed once its era is known.
func (m *modern) running(ctx context.Context) (all *shared, settled <-chan struct{}, f *jsonrpc.Fault) {
	select {
	case m.starts <- struct{}{}:
		defer func() { <-m.starts }()
	case <-ctx.Done():
		return nil, nil, busy("the server starts")
	}
	if m.all == nil || m.all.peer.leaves() {
		all, f := startShared(ctx, m.starter, itsEra)
		if f != nil {
			return nil, nil, f
		}
		m.all, m.settled = all, make(chan struct{})
		go m.probe(all, m.settled)
	}
	return m.all, m.settled, nil
}

// server is the server, started if it does not run; nil for one that does not speak
// the era.
func (m *modern) server(ctx context.Context) (*peer, *jsonrpc.Fault) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	for {
		if _, legacy := m.known(); legacy || !m.starter.server.Modern {
			return nil, nil
		}
		all, settled, f := m.running(ctx)
		if f != nil {
			return nil, f
		}
		p := all.peer
		patience, end := context.WithDeadline(ctx, p.started.Add(firstWords))
		_, f = await(patience, m.starter, p, settled)
		end()
		switch speaks, _ := m.known(); {
		case f != nil && f.Code != CodeBusy:
			return nil, f
		case f != nil && time.Since(p.started) >= firstWords:
			return nil, nil // one of the legacy era need not answer the question
		case f != nil:
			return nil, busy("the server has not said yet whether it speaks revision %s", protocol.Modern)
		case !speaks:
			return nil, nil
		case !p.stopped.Load():
			return p, nil
		}
		// It was asked for a session besides: another one is started.
	}
}

// postModern answers one request. Where its client leaves, it is cancelled.
func (b *Bridge) postModern(w http.ResponseWriter, r *http.Request, messages []jsonrpc.Message, batch bool) {
	m := messages[0]
	if batch {
		writeFault(w, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest, "revision %s has no batches",
			protocol.Modern), nil)
		return
	}
	p, f := b.modern.server(r.Context())
	if f == nil && p == nil {
		f = jsonrpc.Fail(http.StatusBadRequest, protocol.CodeUnsupportedVersion, "the server does not speak revision %s",
			requested(r, m))
		f.Data = map[string]any{"supported": protocol.LegacyRevisions, "requested": requested(r, m)}
	}
	if f == nil {
		f = invalid(r, m)
	}
	if f == nil && m.Method == protocol.MethodCallTool {
		f = p.repeated(r, m)
	}
	if f != nil {
		writeFault(w, f, m.ID)
		return
	}
	if !m.Call() { // the ids in it are its client's, and would be other clients' for the server
		w.WriteHeader(http.StatusAccepted)
		return
	}
	params := oneLine(m.Params)
	asJSON, asEvents := accepts(r)
	to := b.stream(rand.Text(), false, r.Header.Get(protocol.HeaderCaller))
	to.begin(1)
	by := to.attach(false, 0)
	defer to.detach(by)
	defer to.free()
	c := &call{
		id: m.ID, method: m.Method, owner: to, caller: r.Header.Get(protocol.HeaderCaller), to: to,
		answer: answerTo(to), modern: true,
	}
	if err := p.ask(r.Context(), c, params); err != nil {
		writeFault(w, asFault(err), m.ID)
		return
	}
	quick := quickModern
	if m.Method == protocol.MethodListen {
		quick = 0
	}
	if !(reading{s: to, by: by, quick: quick, events: asEvents, json: asJSON}).serve(w, r) {
		p.cancel(context.WithoutCancel(r.Context()), to, m.ID, []byte(`{"requestId":0,"reason":"the client has left"}`))
	}
}

func requested(r *http.Request, m jsonrpc.Message) string {
	if v := r.Header.Get(protocol.HeaderVersion); v != "" {
		return v
	}
	return jsonrpc.TextAt(m.Params, "_meta", protocol.MetaVersion)
}

// invalid is a method that the era does not have, or what headers and body say differently.
func invalid(r *http.Request, m jsonrpc.Message) *jsonrpc.Fault {
	if !m.Call() {
		return nil
	}
	if _, wrong := headers.Revision(r.Header, m, func(method string) bool {
		return slices.Contains(legacyMethods, method)
	}); wrong != nil {
		return wrong
	}
	return headers.Call(r.Header, m)
}

// repeated is what is wrong with the headers that repeat arguments of a tool.
func (p *peer) repeated(r *http.Request, call jsonrpc.Message) *jsonrpc.Fault {
	err := p.tools.Check(r.Context(), r.Header, jsonrpc.TextAt(call.Params, "name"), jsonrpc.At(call.Params, "arguments"),
		func(ctx context.Context, cursor jsontext.Value) (jsontext.Value, error) {
			params := map[string]any{"_meta": ownMeta}
			if cursor != nil {
				params["cursor"] = json.RawMessage(cursor)
			}
			answer, err := p.question(ctx, protocol.MethodListTools, params)
			if err != nil {
				return nil, err
			}
			select {
			case said := <-answer:
				return said.Result, nil
			case <-ctx.Done():
				p.cancel(context.WithoutCancel(ctx), answer, ownID, nil)
				return nil, ctx.Err()
			}
		})
	if err != nil {
		return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeHeaderMismatch, "HeaderMismatch: %s", err)
	}
	return nil
}

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

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// legacyMethods are of the connection, which all clients share in the modern era
// (https://modelcontextprotocol.io/specification/2026-07-28/changelog).
var legacyMethods = []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}

// isModern reports whether a request is of the modern era: its header or its message
// says so, or it asks which there are.
func isModern(r *http.Request, messages []jsonrpc.Message) bool {
	if r.Header.Get(protocol.HeaderVersion) >= protocol.Modern {
		return true
	}
	return len(messages) == 1 && (messages[0].Method == protocol.MethodDiscover || at(messages[0].Params, "_meta", protocol.MetaVersion) != nil)
}

// modern is the one server that answers requests of the modern era. It never gets an
// initialize: a server takes its connection for one era
// (docs/adr/0034-one-server-a-session.md).
type modern struct {
	starter *starter
	starts  chan struct{} // held while one is started
	peer    *peer
	// settled is closed once it is known whether the server speaks the era.
	settled chan struct{}

	mu     sync.Mutex
	speaks bool
	legacy bool // it does not; that stays so
}

func newModern(s *starter) *modern { return &modern{starter: s, starts: make(chan struct{}, 1)} }

// start starts the server. It reports whether that has ended without a word.
func (m *modern) start(ctx context.Context) (silent bool, err error) {
	if _, f := m.server(ctx); f != nil && errors.Is(f, errUnstartable) {
		return false, f
	}
	speaks, legacy := m.known()
	m.starts <- struct{}{}
	defer func() { <-m.starts }()
	if speaks || legacy || m.peer == nil {
		return m.peer == nil, nil
	}
	select {
	case <-m.peer.done:
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

// server is the server, started if it does not run; nil for one that does not speak
// the era.
func (m *modern) server(ctx context.Context) (*peer, *jsonrpc.Fault) {
	if _, legacy := m.known(); legacy || !m.starter.server.Modern {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	select {
	case m.starts <- struct{}{}:
	case <-ctx.Done():
		return nil, busy("the server starts")
	}
	if m.peer == nil || m.peer.ended() {
		p, f := m.starter.open("", false, m.other)
		if f != nil {
			<-m.starts
			return nil, f
		}
		m.peer, m.settled = p, make(chan struct{})
		go m.probe(p, m.settled)
	}
	p, settled := m.peer, m.settled
	<-m.starts
	patience, end := context.WithDeadline(ctx, p.started.Add(firstWords))
	defer end()
	if _, f := await(patience, m.starter, p, settled); f != nil {
		switch {
		case f.Code != CodeBusy:
			return nil, f
		case time.Since(p.started) >= firstWords:
			return nil, nil // one of the legacy era need not answer the question
		}
		return nil, busy("the server has not said yet whether it speaks revision %s", protocol.Modern)
	}
	if speaks, _ := m.known(); !speaks {
		return nil, nil
	}
	return p, nil
}

// probe asks a server that was started whether it speaks the era. One that does not is
// ended, for it need not take an initialize after the question.
func (m *modern) probe(p *peer, settled chan<- struct{}) {
	defer close(settled)
	answer, err := p.question(context.Background(), protocol.MethodDiscover, map[string]any{"_meta": ownMeta})
	if err != nil {
		return
	}
	hello := <-answer
	speaks := hello.Result != nil && slices.Contains(texts(at(hello.Result, "supportedVersions")), protocol.Modern)
	m.mu.Lock()
	m.speaks = speaks
	// A server that ended may have done so for another reason than the question.
	legacy := !speaks && hello.code() != CodeServerEnded
	m.legacy = legacy
	m.mu.Unlock()
	if legacy { // one that ended by itself is started again after a pause
		p.stop()
	}
}

// other takes what is about no call that waits. No request belongs here in this era,
// and whose a notification is nobody can tell: a call that has ended may have led to it
// also where only one waits.
func (m *modern) other(p *peer, s said) {
	if s.ID != nil {
		refuse(p, s)
	}
}

// postModern answers one request. Where its client leaves, it is cancelled.
func (b *Bridge) postModern(w http.ResponseWriter, r *http.Request, messages []jsonrpc.Message, batch bool) {
	m := messages[0]
	if batch {
		writeFault(w, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest, "revision %s has no batches", protocol.Modern), nil)
		return
	}
	p, f := b.modern.server(r.Context())
	if f == nil && p == nil {
		f = jsonrpc.Fail(http.StatusBadRequest, protocol.CodeUnsupportedVersion, "the server does not speak revision %s", requested(r, m))
		f.Data = map[string]any{"supported": protocol.LegacyRevisions, "requested": requested(r, m)}
	}
	if f == nil {
		f = mismatch(r, m)
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
	if slices.Contains(legacyMethods, m.Method) {
		writeFault(w, jsonrpc.Fail(http.StatusNotFound, protocol.CodeMethodNotFound, "revision %s has no method %s", protocol.Modern, m.Method), m.ID)
		return
	}
	params := oneLine(m.Params)
	asJSON, asEvents := accepts(r)
	to := b.stream(rand.Text(), false, r.Header.Get(protocol.HeaderCaller))
	to.begin(1)
	to.attach(false, 0)
	defer to.detach()
	defer to.free()
	c := &call{id: m.ID, method: m.Method, owner: to, caller: r.Header.Get(protocol.HeaderCaller), to: to, answer: answerTo(to), modern: true}
	if err := p.ask(r.Context(), c, params); err != nil {
		writeFault(w, asFault(err), m.ID)
		return
	}
	quick := quickModern
	if m.Method == protocol.MethodListen {
		quick = 0
	}
	if !(reading{s: to, quick: quick, events: asEvents, json: asJSON}).serve(w, r) {
		p.cancel(context.WithoutCancel(r.Context()), to, m.ID, []byte(`{"requestId":0,"reason":"the client has left"}`))
	}
}

func requested(r *http.Request, m jsonrpc.Message) string {
	if v := r.Header.Get(protocol.HeaderVersion); v != "" {
		return v
	}
	return text(at(m.Params, "_meta", protocol.MetaVersion))
}

// mismatch is what headers and body say differently.
func mismatch(r *http.Request, m jsonrpc.Message) *jsonrpc.Fault {
	differ := func(header, has, wants string) *jsonrpc.Fault {
		return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeHeaderMismatch, "HeaderMismatch: %s is %q where the message has %q", header, has, wants)
	}
	if !m.Call() {
		return nil
	}
	version := text(at(m.Params, "_meta", protocol.MetaVersion))
	switch has := r.Header.Get(protocol.HeaderVersion); {
	case has == "" || version != "" && has != version:
		return differ(protocol.HeaderVersion, has, version)
	case version == "":
		return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams, "_meta has no %s", protocol.MetaVersion)
	}
	if has := r.Header.Get(protocol.HeaderMethod); has != m.Method {
		return differ(protocol.HeaderMethod, has, m.Method)
	}
	field, isNamed := protocol.NameMember[m.Method]
	if !isNamed {
		return nil
	}
	has := r.Header.Get(protocol.HeaderName)
	if name, err := protocol.Decoded(has); err != nil || name != text(at(m.Params, field)) {
		return differ(protocol.HeaderName, has, text(at(m.Params, field)))
	}
	return nil
}

// repeated is what is wrong with the headers that repeat arguments of a tool.
func (p *peer) repeated(r *http.Request, call jsonrpc.Message) *jsonrpc.Fault {
	err := p.tools.Check(r.Context(), r.Header, text(at(call.Params, "name")), at(call.Params, "arguments"),
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
				return jsontext.Value(said.Result), nil
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

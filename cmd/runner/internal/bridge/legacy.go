package bridge

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// firstPrimed is the first revision whose clients know an event without data
// (https://modelcontextprotocol.io/specification/2025-11-25/changelog).
const firstPrimed = "2025-11-25"

// standingID is the id of each session's standing stream.
const standingID = "s"

// accepts reports what answers a client takes.
func accepts(r *http.Request) (asJSON, asEvents bool) {
	asJSON, _ = media.Accepts(r.Header.Values("Accept"), media.JSON)
	asEvents, _ = media.Accepts(r.Header.Values("Accept"), media.Events)
	return asJSON, asEvents
}

// initialize begins a session. Its answer is JSON where the client takes that, because
// the session is one only after the server has agreed.
func (b *Bridge) initialize(w http.ResponseWriter, r *http.Request, messages []jsonrpc.Message) {
	id := messages[0].ID
	caller := r.Header.Get(protocol.HeaderCaller)
	s, f := b.open(r.Context(), caller, b.asksForItself(caller, messages[0]), b.stream(standingID, true, caller))
	if f != nil {
		writeFault(w, f, id)
		return
	}
	answer := b.stream("", false, caller)
	answer.begin(1)
	defer answer.detach(answer.attach(false, 0))
	defer answer.free()
	if f := s.post(r.Context(), messages, answer); f != nil {
		b.end(s)
		writeFault(w, f, id)
		return
	}
	e, f := b.hello(r.Context(), s, answer)
	if f != nil {
		b.end(s)
		writeFault(w, f, id)
		return
	}
	defer e.hold.part()
	if result := jsonrpc.At(e.data, "result"); result == nil {
		b.end(s)
	} else {
		b.starter.learn(messages[0], result)
		w.Header().Set(protocol.HeaderSession, s.id)
	}
	status := max(e.status, http.StatusOK)
	if refused := (jsonrpc.Message{Error: jsonrpc.At(e.data, "error")}); status == http.StatusOK &&
		jsonrpc.NamesModern(r.Header) {
		status = modernStatus(messages[0].Method, code(refused)) // the modern era has no initialize
	}
	if asJSON, _ := accepts(r); asJSON || status != http.StatusOK {
		writeJSON(w, status, e.data)
		return
	}
	_ = eventsTo(w).Message("", e.data) //nolint:errcheck // a client that is gone does not need it
}

// hello is the answer to initialize.
func (b *Bridge) hello(ctx context.Context, s *session, answer *stream) (event, *jsonrpc.Fault) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan event)
	go func() {
		e, _, ok := answer.take(ctx, answer.reader)
		if !ok {
			return
		}
		select {
		case got <- e:
		case <-ctx.Done():
			e.hold.part()
		}
	}()
	p, _ := s.server()
	if p != nil {
		return await(ctx, b.starter, p, got)
	}
	select { // the bridge has answered
	case e := <-got:
		return e, nil
	case <-ctx.Done():
		return event{}, busy("the client did not wait")
	}
}

// inSession is the session of a request, nil after it was answered.
func (b *Bridge) inSession(w http.ResponseWriter, r *http.Request, id string, call []byte) *session {
	s := b.sessions.Get(id)
	v := r.Header.Get(protocol.HeaderVersion)
	switch {
	case v != "" && !slices.Contains(protocol.LegacyRevisions, v) && (s == nil || v != s.revision()):
		writeFault(w, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest,
			"%s is %q: in a session write one of %s",
			protocol.HeaderVersion, v, strings.Join(protocol.LegacyRevisions, ", ")), call)
		return nil
	case s == nil || s.old():
		writeFault(w, jsonrpc.Fail(http.StatusNotFound, protocol.CodeInvalidRequest, "no such session: send initialize"),
			call)
		return nil
	}
	return s
}

func (b *Bridge) postSession(
	w http.ResponseWriter, r *http.Request, id string, messages []jsonrpc.Message, batch bool,
) {
	s := b.inSession(w, r, id, messages[0].ID)
	if s == nil {
		return
	}
	defer s.touch()
	calls := slices.DeleteFunc(slices.Clone(messages), func(m jsonrpc.Message) bool { return !m.Call() })
	if f := b.reach(r.Context(), s, messages); f != nil {
		writeFault(w, f, messages[0].ID)
		return
	}
	if len(calls) == 0 {
		if f := s.post(r.Context(), messages, nil); f != nil {
			writeFault(w, f, nil)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		return
	}
	asJSON, asEvents := accepts(r)
	to := b.stream(rand.Text(), asEvents, s.caller)
	to.begin(len(calls))
	by := to.attach(false, 0)
	s.keep(to)
	if f := s.post(r.Context(), messages, to); f != nil {
		to.detach(by)
		s.forget(to)
		writeFault(w, f, calls[0].ID)
		return
	}
	whole := reading{
		s: to, by: by, quick: quickLegacy, events: asEvents, json: asJSON, batch: batch, primed: s.revision() >= firstPrimed,
	}.serve(w, r)
	to.detach(by)
	switch {
	case whole && media.Type(w.Header()) == media.Events:
		b.keepFinished(to) // what was written need not have arrived
	case whole:
		s.forget(to)
	}
}

func (b *Bridge) get(w http.ResponseWriter, r *http.Request) {
	if _, asEvents := accepts(r); !asEvents {
		writeFault(w, jsonrpc.Fail(http.StatusNotAcceptable, protocol.CodeInvalidRequest,
			"Accept must have text/event-stream"), nil)
		return
	}
	id := r.Header.Get(protocol.HeaderSession)
	if id == "" {
		// Browsers and probes take anything, and are to start no server.
		if _, names := media.Accepts(r.Header.Values("Accept"), media.Events); !names {
			writeFault(w, jsonrpc.Fail(http.StatusNotAcceptable, protocol.CodeInvalidRequest,
				"Accept must name text/event-stream"), nil)
			return
		}
		b.getOld(w, r)
		return
	}
	s := b.inSession(w, r, id, nil)
	if s == nil {
		return
	}
	from, after, resume := s.standing, 0, false
	if last := r.Header.Get(protocol.HeaderLast); last != "" {
		var f *jsonrpc.Fault
		if from, after, f = s.resumed(last); f != nil {
			if f.Status == http.StatusMethodNotAllowed {
				w.Header().Set("Allow", allowed)
			}
			writeFault(w, f, nil)
			return
		}
		resume = true
	}
	by := from.attach(resume, after)
	defer func() {
		if from == s.standing && from.reads(by) { // else its client is there, and reads it elsewhere
			s.leaves()
		} else {
			s.touch()
		}
		from.detach(by)
	}()
	reading{s: from, by: by, events: true, primed: !resume && s.revision() >= firstPrimed}.serve(w, r)
}

// resumed is the stream of an event, and its number there. Clients resume the stream of a call that they have
// cancelled: after HTTP 405 they leave it, and else they try again, for ever where they get an empty stream.
func (s *session) resumed(last string) (*stream, int, *jsonrpc.Fault) {
	id, n, ok := parseEventID(last)
	if !ok {
		return nil, 0, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest, "%s is of no event",
			protocol.HeaderLast)
	}
	if from := s.stream(id); from == s.standing || from != nil && from.follows(n) {
		return from, n, nil
	}
	return nil, 0, jsonrpc.Fail(http.StatusMethodNotAllowed, protocol.CodeInvalidRequest,
		"%s is of no stream that can be resumed", protocol.HeaderLast)
}

func (b *Bridge) delete(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(protocol.HeaderSession)
	if id == "" {
		writeFault(w, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest, "no %s", protocol.HeaderSession), nil)
		return
	}
	s := b.inSession(w, r, id, nil)
	if s == nil {
		return
	}
	b.end(s)
	w.WriteHeader(http.StatusNoContent)
}

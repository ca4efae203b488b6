package bridge

import (
	"net/http"
	"net/url"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// Clients of the transport HTTP+SSE
// (https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse) open a stream, which tells
// them where to POST. All that the server says comes on it.

// getOld begins a session and is its stream: the session ends with it.
func (b *Bridge) getOld(w http.ResponseWriter, r *http.Request) {
	caller := r.Header.Get(protocol.HeaderCaller)
	standing := b.stream("", false, caller)
	standing.begin(1) // it lasts longer than what was asked
	s, f := b.open(r.Context(), caller, false, standing)
	if f != nil {
		writeFault(w, f, nil)
		return
	}
	defer b.end(s)
	by := s.standing.attach(false, 0)
	defer s.standing.detach(by)
	endpoint := r.URL.Path + "?" + url.Values{protocol.QuerySession: {s.id}}.Encode()
	reading{s: s.standing, by: by, events: true, first: sse.Endpoint(endpoint)}.serve(w, r)
}

// old reports whether a session is of this transport. The proxy seals the ids of the
// others, which are not to be had past the seal.
func (s *session) old() bool { return s.standing.id != standingID }

// putOld takes answers of the proxy's own to calls that it does not pass on, for the stream of their session: a client
// of this transport reads nothing of what its POST gets. No client can PUT, which the proxy does not pass on.
func (b *Bridge) putOld(w http.ResponseWriter, r *http.Request) {
	messages, _, leave, f := b.messages(w, r)
	defer leave()
	if f != nil {
		writeFault(w, f, nil)
		return
	}
	s := b.sessions.Get(r.URL.Query().Get(protocol.QuerySession))
	if s == nil || !s.old() {
		writeFault(w, noStream, nil)
		return
	}
	for _, m := range messages {
		if m.Response() {
			s.standing.begin(1)
			answerTo(s.standing)(onOneLine(m).Text(), http.StatusOK, false)
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

var noStream = jsonrpc.Fail(http.StatusNotFound, protocol.CodeInvalidRequest, "no such session: open the stream first")

// postOld takes messages whose answers come on the session's stream.
func (b *Bridge) postOld(w http.ResponseWriter, r *http.Request, messages []jsonrpc.Message) {
	s := b.sessions.Get(r.URL.Query().Get(protocol.QuerySession))
	if s == nil || !s.old() {
		writeFault(w, noStream, messages[0].ID)
		return
	}
	for _, m := range messages {
		if m.Call() {
			s.standing.begin(1)
		}
	}
	if f := s.post(r.Context(), messages, s.standing); f != nil {
		writeFault(w, f, messages[0].ID)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

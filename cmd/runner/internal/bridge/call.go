package bridge

import (
	"net/http"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// call is a request that waits for its answer.
type call struct {
	id     []byte // the client's
	wire   []byte // the id that the server knows
	ours   bool   // that is another one than the client's, for its token of progress, too
	method string
	token  []byte // the client's for progress, nil if it chose none
	owner  any    // whose it is
	caller string // who sent it; "" where that is not known
	// to is where messages about the call go, and answer what takes the answer. to is nil for
	// initialize, whose client has one message to read before it has a session, and for
	// questions of the bridge's own.
	to     *stream
	answer func(data []byte, status int, patient bool)
	over   chan struct{} // closed when it does not wait any more
	modern bool
	began  int64 // its number among all calls
	// asked is the id of what its client was asked and has not answered, as a key.
	asked string
}

// mayHaveRun is what to say of a call that was sent and is not answered. The questions that begin a connection run
// nothing; nil is a notification or an answer.
func (c *call) mayHaveRun() string {
	if c != nil && (c.method == "initialize" || c.method == protocol.MethodDiscover) {
		return ""
	}
	return "; the call may have run"
}

// meddles is what a client may not send where ids are rewritten, since it would name
// other clients' calls: a notification as a request, and a progress token whose name
// differs from the specification's in case only, which some servers read.
func meddles(method string, params []byte) *jsonrpc.Fault {
	if strings.HasPrefix(method, "notifications/") {
		return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest, "%s has an id: a notification has none",
			method)
	}
	if len(params) == 0 {
		return nil
	}
	all, err := jsonrpc.Read(params, "_meta")
	if err == nil && all["_meta"].Kind() == '{' {
		_, err = jsonrpc.Read(all["_meta"], protocol.MetaProgress)
	}
	if err != nil {
		return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams, "%s", err)
	}
	return nil
}

// about is the call that a notification is about, by its token or subscription; the
// client's own stands in it then.
func (p *peer) about(m *jsonrpc.Message) *call {
	token, subscription := jsonrpc.At(m.Params, protocol.MetaProgress),
		jsonrpc.At(m.Params, "_meta", protocol.MetaSubscription)
	if token == nil && subscription == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.calls {
		known := c.token
		if c.ours {
			known = c.wire
		}
		switch {
		case token != nil && c.token != nil && jsonrpc.SameID(known, token):
			m.Params, _ = jsonrpc.Swapped(m.Params, c.token, protocol.MetaProgress)
			return c
		case subscription != nil && jsonrpc.SameID(c.wire, subscription):
			m.Params, _ = jsonrpc.Swapped(m.Params, c.id, "_meta", protocol.MetaSubscription)
			return c
		}
	}
	return nil
}

// answerTo is an answer that goes to a stream.
func answerTo(s *stream) func([]byte, int, bool) {
	return func(data []byte, status int, patient bool) {
		if !s.push(event{data: data, status: status}, patient) {
			s.end()
		}
		s.settle()
	}
}

// complete answers the calls of a method in the server's place: it is done.
func (p *peer) complete(method string) {
	all := p.mine(nil)
	for _, c := range all {
		if c.method != method || p.take(c.wire) == nil {
			continue
		}
		c.answer(jsonrpc.ListenEnd(c.id), http.StatusOK, p.alone)
	}
}

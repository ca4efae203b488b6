package proxy

import "github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"

// answerScan finds, among the messages of an event stream, the answer to one call: a JSON-RPC response with its id.
type answerScan struct {
	jsonrpc.Skim
	id    []byte // of the call
	found bool
}

// newAnswerScan looks for the answer to id, which is valid JSON. It returns nil if it is no id of JSON-RPC.
func newAnswerScan(id []byte) *answerScan {
	if c := id[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
		return nil
	}
	return &answerScan{id: id}
}

// message ends a message, and remembers if it was the answer. A client that does not hear it has none.
func (a *answerScan) message(heard bool) {
	if heard && !a.found && a.Answers() {
		id := a.Message().ID
		a.found = id != nil && jsonrpc.SameID(a.id, id)
	}
	a.Next()
}

package proxy

import (
	"bytes"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// answerScan finds, among the messages of an event stream, the answer to one
// call: a JSON-RPC response with its id. It reads bytes as they pass, keeps no
// message, and looks at the top level of a message only: what a tool returns may
// hold the same words.
type answerScan struct {
	id      []byte // of the call
	found   bool
	depth   int
	quoted  bool   // in a string
	escaped bool   // behind a backslash in it
	value   bool   // at the top level, behind a colon
	name    name   // of what is at the top level
	text    []byte // of the id
	method  bool
	result  bool
}

// name is a name with its quotes, or its beginning: those that matter are short.
type name struct {
	text   [len(`"method"`) + 1]byte
	length int
}

func (n *name) is(text string) bool { return string(n.text[:n.length]) == text }

func (n *name) keep(p []byte) { n.length += copy(n.text[n.length:], p) }

// newAnswerScan looks for the answer to id, which is valid JSON. It returns nil if
// it is no id of JSON-RPC.
func newAnswerScan(id []byte) *answerScan {
	if c := id[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
		return nil
	}
	return &answerScan{id: id}
}

// message ends a message, and remembers if it was the answer. A client that does not hear it has none.
func (a *answerScan) message(heard bool) {
	found := a.found || heard && a.result && !a.method && len(a.text) > 0 && jsonrpc.SameID(a.id, bytes.TrimSpace(a.text))
	*a = answerScan{id: a.id, found: found, text: a.text[:0]}
}

// scan takes a part of a message.
func (a *answerScan) scan(p []byte) {
	for len(p) > 0 {
		if a.quoted && !a.escaped && a.depth != 1 {
			// Inside of a text that does not matter: most of most messages.
			skip := bytes.IndexAny(p, `"\`)
			if skip < 0 {
				return
			}
			p = p[skip:]
		}
		a.take(p[0])
		p = p[1:]
	}
}

func (a *answerScan) take(b byte) {
	if a.quoted {
		a.keep(b)
		switch {
		case a.escaped:
			a.escaped = false
		case b == '\\':
			a.escaped = true
		case b == '"':
			a.quoted = false
		}
		return
	}
	switch b {
	case '"':
		if a.depth == 1 && !a.value {
			a.name.length = 0
		}
		a.quoted = true
		a.keep(b)
	case '{', '[':
		a.keep(b)
		a.depth++
	case '}', ']':
		a.depth--
		a.keep(b)
	case ':':
		if a.depth == 1 {
			a.value = true
			a.method = a.method || a.name.is(`"method"`)
			a.result = a.result || a.name.is(`"result"`) || a.name.is(`"error"`)
		}
	case ',':
		if a.depth == 1 {
			a.value = false
		}
	default:
		if a.value {
			a.keep(b)
		}
	}
}

// maxID is the longest id of a call that is looked for, in bytes.
const maxID = 64 << 10

// keep keeps a byte of a name at the top level, or of the value of the id.
func (a *answerScan) keep(b byte) {
	switch {
	case a.depth != 1:
	case !a.value:
		a.name.keep([]byte{b})
	case a.name.is(`"id"`) && len(a.text) < maxID:
		a.text = append(a.text, b)
	}
}

// Package jsonrpc reads JSON-RPC 2.0 messages (https://www.jsonrpc.org/specification)
// as MCP uses them. Whoever decides by a message must understand it as the
// backend does, so what two readers could understand in two ways is an error.
package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxBatch is how many messages a batch may have.
const MaxBatch = 100

// Message is a request, a notification or a response. Absent members are nil.
type Message struct {
	ID     jsontext.Value `json:"id,omitzero"`
	Method string         `json:"method,omitzero"`
	Params jsontext.Value `json:"params,omitzero"`
	Result jsontext.Value `json:"result,omitzero"`
	Error  jsontext.Value `json:"error,omitzero"`
}

// Response reports whether the message answers a request.
func (m Message) Response() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// envelope are the names that a message may have, in the case in which it has
// them.
var envelope = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// Parse reads one message, or a batch of them as revision 2025-03-26 has it. It
// refuses what readers disagree about: members that occur twice or differ from
// those of the specification in case only, text that is not UTF-8, a message
// with both a method and a result, and a batch that is empty or longer than
// MaxBatch.
func Parse(body []byte) (messages []Message, batch bool, err error) {
	body = bytes.TrimSpace(body)
	raws := []jsontext.Value{body}
	if batch = bytes.HasPrefix(body, []byte("[")); batch {
		if err := json.Unmarshal(body, &raws); err != nil {
			return nil, true, fmt.Errorf("reading the batch: %w", err)
		}
		if len(raws) == 0 || len(raws) > MaxBatch {
			return nil, true, fmt.Errorf("the batch has %d messages: send 1 to %d", len(raws), MaxBatch)
		}
	}
	for _, raw := range raws {
		m := Message{}
		if err := Members(raw, &m, envelope...); err != nil {
			return nil, batch, err
		}
		if err := m.check(); err != nil {
			return nil, batch, err
		}
		messages = append(messages, m)
	}
	return messages, batch, nil
}

func (m Message) check() error {
	switch {
	case m.Method != "" && (m.Result != nil || m.Error != nil):
		return errors.New("the message has a method and a result: send a request or a response")
	case m.Method == "" && !m.Response():
		return errors.New("the message has no method")
	case m.ID != nil && m.ID.Kind() != '"' && m.ID.Kind() != '0' && m.ID.Kind() != 'n':
		return errors.New("the id is neither a string nor a number")
	}
	return nil
}

// Members decodes an object into a struct, and refuses names that differ from
// the given ones in case only: some readers take those for the same.
func Members(object jsontext.Value, into any, names ...string) error {
	var all map[string]jsontext.Value
	if err := json.Unmarshal(object, &all); err != nil {
		return fmt.Errorf("reading the message: %w", err)
	}
	if all == nil {
		return errors.New("the message is not an object")
	}
	for name := range all {
		folded := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
		if folded >= 0 && names[folded] != name {
			return fmt.Errorf("the message has the member %q: write %q", name, names[folded])
		}
	}
	if err := json.Unmarshal(object, into); err != nil {
		return fmt.Errorf("reading the message: %w", err)
	}
	return nil
}

// Package jsonrpc reads JSON-RPC 2.0 messages (https://www.jsonrpc.org/specification)
// as MCP uses them. Whoever decides by a message must understand it as the
// backend does, so what two readers could understand in two ways is an error.
package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

const (
	// MaxBatch is how many messages a batch may have.
	MaxBatch = 100
	// MaxValues is how many names and values a caller's body may have: readers take tens of times the text of the
	// shortest.
	MaxValues = 200_000
	// MaxMembers is how many members an object may have that is taken apart: each becomes an entry of a map.
	MaxMembers = 10_000
)

// Message is a request, a notification or a response. Absent members are nil.
type Message struct {
	ID     jsontext.Value
	Method string
	Params jsontext.Value
	Result jsontext.Value
	Error  jsontext.Value
}

// Identified reports whether the message has an id that is not null, which requests and their answers have.
func (m Message) Identified() bool { return m.ID != nil && m.ID.Kind() != 'n' }

// Call reports whether the message asks for an answer.
func (m Message) Call() bool { return m.Method != "" && m.Identified() }

// Response reports whether the message answers a request.
func (m Message) Response() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// Text is the message as JSON: of one line, if its members are. An error stands in place of a result.
func (m Message) Text() []byte {
	var method jsontext.Value
	if m.Method != "" {
		method, _ = jsontext.AppendQuote(nil, m.Method) //nolint:errcheck // what is not UTF-8 becomes U+FFFD
	}
	if m.Error != nil {
		m.Result = nil
	}
	values := [...]jsontext.Value{jsontext.Value(`"2.0"`), m.ID, method, m.Params, m.Result, m.Error}
	size := len("{}")
	for i, value := range values {
		size += len(envelope[i]) + len(value) + len(`"":,`)
	}
	text := append(make([]byte, 0, size), '{')
	for i, value := range values {
		if len(value) == 0 {
			continue
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(append(append(text, '"'), envelope[i]...), `":`...), value...)
	}
	return append(text, '}')
}

// Result is the answer to the request called id.
func Result(id, result jsontext.Value) []byte { return Message{ID: id, Result: result}.Text() }

// Discovered are the revisions that an answer to server/discover tells, which may be anything.
func Discovered(m Message) []string {
	var revisions []string
	if told := At(m.Result, "supportedVersions"); told == nil || json.Unmarshal(told, &revisions) != nil {
		return nil
	}
	return revisions
}

// ListenEnd is the answer with which the subscription of a request ends (2026-07-28, basic/patterns/subscriptions).
func ListenEnd(id jsontext.Value) []byte {
	return Result(id, fmt.Appendf(nil, `{"resultType":"complete","_meta":{%q:%s}}`, protocol.MetaSubscription, id))
}

// envelope are the names that a message may have, in the case in which it has
// them.
var envelope = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// unquoted are those names by how they mostly stand in a text: each message has some.
var unquoted = func() map[string]string {
	names := make(map[string]string, len(envelope))
	for _, name := range envelope {
		names[strconv.Quote(name)] = name
	}
	return names
}()

// Parse reads one message, or a batch of them as revision 2025-03-26 has it. It
// refuses what readers disagree about: members that occur twice or differ from
// those of the specification in case only, text that is not UTF-8, a message
// with both a method and a result, and a batch that is empty or longer than
// MaxBatch. Nothing is read behind the last message that a batch may have.
func Parse(body []byte) (messages []Message, batch bool, err error) { return parseAll(body, Read) }

// ParseAnswer is Parse of what a server has said, which is lenient below the members of a message: the call has run,
// and what is wrong with a text in its result is for its client to see.
func ParseAnswer(body []byte) (messages []Message, batch bool, err error) {
	return parseAll(body, ReadAnswer, Lenient)
}

type reader func(jsontext.Value, ...string) (Object, error)

func parseAll(body []byte, read reader, options ...jsontext.Options) (messages []Message, batch bool, err error) {
	body = bytes.TrimSpace(body)
	if !bytes.HasPrefix(body, []byte("[")) {
		m, err := parse(body, read)
		if err != nil {
			return nil, false, err
		}
		return []Message{m}, false, nil
	}
	messages, err = parseBatch(body, read, options...)
	return messages, true, err
}

// parseBatch reads one message after the other, and none behind those that a batch may have.
func parseBatch(body []byte, read reader, options ...jsontext.Options) (messages []Message, err error) {
	decoder, done := decoderOf(body, options...)
	defer done()
	if _, err := decoder.ReadToken(); err != nil {
		return nil, fmt.Errorf("reading the batch: %w", err)
	}
	for decoder.PeekKind() != ']' {
		if len(messages) == MaxBatch {
			return nil, fmt.Errorf("the batch has more than %d messages: send 1 to %d", MaxBatch, MaxBatch)
		}
		raw, err := decoder.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("reading the batch: %w", err)
		}
		end := decoder.InputOffset()
		m, err := parse(body[end-int64(len(raw)):end:end], read)
		if err != nil {
			return nil, err
		}
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return nil, fmt.Errorf("the batch has 0 messages: send 1 to %d", MaxBatch)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, fmt.Errorf("reading the batch: %w", err)
	}
	return messages, ended(decoder)
}

func parse(text jsontext.Value, read reader) (m Message, err error) {
	all, err := read(text, envelope...)
	if err != nil {
		return m, err
	}
	if m, err = messageOf(all); err != nil {
		return m, err
	}
	return m, m.check()
}

// Lax is a message as it comes, for who passes it on: where its sender is not strict, its reader decides what to make
// of it.
func Lax(text jsontext.Value) (Message, error) {
	decoder, done := decoderOf(text, Lenient)
	defer done()
	all, err := read(decoder, text, true)
	if err != nil {
		return Message{}, err
	}
	return messageOf(all)
}

func messageOf(all Object) (m Message, err error) {
	m = Message{ID: all["id"], Params: all["params"], Result: all["result"], Error: all["error"]}
	if m.Method, err = all.Text("method"); err != nil {
		return m, err
	}
	// Some libraries write both; the one that is null is none.
	if m.Result != nil && m.Error != nil {
		if m.Error.Kind() == 'n' {
			m.Error = nil
		} else if m.Result.Kind() == 'n' {
			m.Result = nil
		}
	}
	return m, nil
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

// Fault is why a request is not answered with a result: an error of JSON-RPC, and the status of HTTP that goes with it.
// It is the cause of a context that ends because of it.
type Fault struct {
	Status  int
	Code    int
	Message string
	Data    any // nil for none
	// Retry is after how many seconds the client may come again, 0 where that is of no use.
	Retry int
	// Err, if not nil, is why, for errors.Is. No client reads it.
	Err error
}

// Fail makes a fault with a message.
func Fail(status, code int, format string, args ...any) *Fault {
	return &Fault{Status: status, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Because adds a reason by which another process decides, and what the reason says in words, as error.data.reason and
// error.data.detail.
func (f *Fault) Because(reason, detail string) *Fault {
	f.Data = map[string]any{"reason": reason, "detail": detail}
	return f
}

// Head adds to the head of the response what HTTP says of the fault.
func (f *Fault) Head(h http.Header) {
	if f.Retry > 0 {
		h.Set("Retry-After", strconv.Itoa(f.Retry))
	}
}

// Error implements error.
func (f *Fault) Error() string { return f.Message }

// Unwrap is why.
func (f *Fault) Unwrap() error { return f.Err }

// Response is the answer to the request called id, null where that is empty or no JSON in UTF-8
// (https://www.jsonrpc.org/specification#response_object).
func (f *Fault) Response(id []byte) []byte {
	if !jsontext.Value(id).IsValid() {
		id = []byte("null")
	}
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitzero"`
	}
	text, err := json.Marshal(failure{f.Code, f.Message, f.Data}, json.Deterministic(true), Lenient)
	if err != nil {
		panic(fmt.Sprintf("encoding a JSON-RPC error: %v", err)) // it is made of what a decoder read, and of texts of ours
	}
	return Message{ID: id, Error: text}.Text()
}

// Write writes a message as the whole response of HTTP.
func Write(w http.ResponseWriter, status int, message []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(message)))
	w.WriteHeader(status)
	_, _ = w.Write(message) //nolint:errcheck // a client that is gone does not need it
}

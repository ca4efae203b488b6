package sse

import (
	"bytes"
	"net/http"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
)

// message is what a message of MCP begins with.
const message = "event: message"

// Message is an event with a message of MCP.
func Message(text []byte) []byte { return Event{Text: []byte(message)}.WithData(text) }

// Resume asks a client to come back with its Last-Event-ID after a second
// (MCP specification 2025-11-25, basic/transports, SEP-1699).
const Resume = "retry: 1000\n\n"

// EndpointName is the name of the event by which a server of the transport HTTP+SSE says where to send messages
// (https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).
const EndpointName = "endpoint"

// Endpoint is that event.
func Endpoint(url string) []byte { return []byte("event: " + EndpointName + "\ndata: " + url + "\n\n") }

// Writer has a stream as the answer to a client.
type Writer struct {
	http.ResponseWriter
	// Time is how long the client may take to read so many bytes that are written at once, 0 as long as it likes.
	Time func(size int) time.Duration
	// Begun says that the head is written.
	Begun bool
}

// Message writes a message of MCP, with an id unless that is empty.
func (w *Writer) Message(id string, text []byte) error {
	head := message
	if id != "" {
		head = "id: " + id + "\n" + head
	}
	if bytes.ContainsAny(text, "\r\n") {
		return w.Events(Event{Text: []byte(head)}.WithData(text))
	}
	return w.Events([]byte(head+"\ndata: "), text, []byte("\n\n"))
}

// Prime writes an event with an id alone, from which on a client may resume
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server).
func (w *Writer) Prime(id string) error { return w.Events([]byte("id: " + id + "\ndata:\n\n")) }

// Comment keeps a connection alive on which nothing is said.
func (w *Writer) Comment() error { return w.Events([]byte(":\n\n")) }

// Events writes the parts of events, and all that was written before; without parts the head alone.
func (w *Writer) Events(parts ...[]byte) error {
	if !w.Begun {
		w.Begun = true
		header := w.Header()
		header.Set("Content-Type", media.Events)
		header.Set("Cache-Control", "no-cache, no-transform")
		header.Set("X-Accel-Buffering", "no")
		w.WriteHeader(http.StatusOK)
	}
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	defer w.Hurry(size)()
	for _, part := range parts {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hurry bounds the time in which the client reads so many bytes, until done: the bound is the connection's, and not the
// answer's.
func (w *Writer) Hurry(size int) (done func()) {
	most := w.Time(size)
	if most == 0 {
		return func() {}
	}
	control := http.NewResponseController(w.ResponseWriter)
	_ = control.SetWriteDeadline(time.Now().Add(most))          //nolint:errcheck // only recorders in tests have none
	return func() { _ = control.SetWriteDeadline(time.Time{}) } //nolint:errcheck // as above
}

// WithData is an event with other data, its other fields unchanged.
func (e Event) WithData(data []byte) []byte {
	var out []byte
	scan := Scanner{begun: true} // the mark is left out
	line := 0
	keep := func(end int) {
		if end > line {
			out = append(append(out, e.Text[line:end]...), '\n')
		}
	}
	for at := 0; at < len(e.Text); {
		part, n := scan.Next(e.Text[at:])
		if part == Line && scan.Field() != Data {
			keep(at)
		}
		if at += n; part == Line || part == None || part == End {
			line = at
		}
	}
	keep(len(e.Text))
	if bytes.IndexByte(data, '\r') >= 0 { // alone it ends a line, too
		data = bytes.ReplaceAll(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
	}
	for text := range bytes.SplitSeq(data, []byte("\n")) {
		out = append(append(append(out, "data: "...), text...), '\n')
	}
	return append(out, '\n')
}

package sse

import "bytes"

// Before and After are what stands before and behind the text of a message of MCP, which
// has no line end.
const (
	Before = "event: message\ndata: "
	After  = "\n\n"
)

// Message is an event with a message of MCP.
func Message(text []byte) []byte {
	return Event{Text: []byte("event: message")}.WithData(text)
}

// Resume asks a client to come back with its Last-Event-ID after a second
// (MCP specification 2025-11-25, basic/transports, SEP-1699).
const Resume = "retry: 1000\n\n"

// Alive is a comment, which keeps a connection alive on which nothing is said.
const Alive = ":\n\n"

// BeforeID is Before of an event with an id.
func BeforeID(id string) string { return "id: " + id + "\n" + Before }

// Prime is an event with an id alone, from which on a client may resume
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#sending-messages-to-the-server).
func Prime(id string) []byte { return []byte("id: " + id + "\ndata:\n\n") }

// EndpointName is the name of the event by which a server of the transport HTTP+SSE says where to send messages
// (https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).
const EndpointName = "endpoint"

// Endpoint is that event.
func Endpoint(url string) []byte { return []byte("event: " + EndpointName + "\ndata: " + url + "\n\n") }

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
	for text := range bytes.SplitSeq(data, []byte("\n")) {
		out = append(append(append(out, "data: "...), text...), '\n')
	}
	return append(out, '\n')
}

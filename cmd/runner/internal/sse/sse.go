// Package sse takes streams of server-sent events apart
// (https://html.spec.whatwg.org/multipage/server-sent-events.html), event by
// event, for whoever has to change what is in them.
package sse

import (
	"bytes"
	"errors"
)

// ErrTooLong is the error of an event that is longer than a Splitter takes.
var ErrTooLong = errors.New("the event is too long")

// Splitter cuts what is written to it into events: blocks of lines up to and
// with the empty line that ends them. It leaves out the mark at the begin of a
// stream. The zero value takes no event.
type Splitter struct {
	// Limit is the longest event in bytes.
	Limit int
	// Event is called with each whole event. The bytes are valid until it
	// returns; its error ends the stream.
	Event func(event []byte) error

	buffer []byte
	// filled says that the line so far is not empty, and cr that a CR ended the
	// last one, whose LF belongs to it.
	filled bool
	cr     bool
	begun  bool
}

// keep is the largest buffer, in bytes, that is used for the next event. A stream may
// be idle for ever.
const keep = 4 << 10

// mark is what a stream may begin with (a byte order mark); it is of no line.
var mark = []byte("\ufeff")

// Write implements io.Writer. Its errors are those of Event, and ErrTooLong.
func (s *Splitter) Write(p []byte) (int, error) {
	for i, b := range p {
		if b == '\n' && s.cr {
			s.cr = false
			if len(s.buffer) > 0 {
				s.buffer = append(s.buffer, b)
			}
			continue
		}
		s.buffer = append(s.buffer, b)
		if len(s.buffer) > s.Limit {
			return i, ErrTooLong
		}
		s.cr = b == '\r'
		if b != '\n' && b != '\r' {
			s.filled = true
			continue
		}
		if s.filled {
			s.filled = false
			continue
		}
		event := s.buffer
		if s.buffer = s.buffer[:0]; cap(s.buffer) > keep {
			s.buffer = nil
		}
		if !s.begun {
			s.begun, event = true, bytes.TrimPrefix(event, mark)
		}
		if err := s.Event(event); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// Rest is what was written after the last whole event.
func (s *Splitter) Rest() []byte { return s.buffer }

// Data is the data of an event: its data lines, joined by line feeds; nil if it
// has none. That of one line is a part of the event.
func Data(event []byte) []byte {
	var data []byte
	found := 0
	for line := range lines(event) {
		value, ok := field(line, "data")
		if !ok {
			continue
		}
		if found++; found == 1 {
			data = value[:len(value):len(value)]
			continue
		}
		data = append(append(data, '\n'), value...)
	}
	if found > 0 && len(data) == 0 {
		return nil
	}
	return data
}

// WithData is an event with other data, its other fields unchanged.
func WithData(event, data []byte) []byte {
	var out []byte
	for line := range lines(event) {
		if _, ok := field(line, "data"); !ok && len(line) > 0 {
			out = append(append(out, line...), '\n')
		}
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		out = append(append(append(out, "data: "...), line...), '\n')
	}
	return append(out, '\n')
}

// Message is an event with a message of MCP.
func Message(data []byte) []byte { return WithData([]byte("event: message"), data) }

func field(line []byte, name string) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(line, []byte(name))
	if !ok || len(rest) > 0 && rest[0] != ':' {
		return nil, false
	}
	rest = bytes.TrimPrefix(rest, []byte(":"))
	return bytes.TrimPrefix(rest, []byte(" ")), true
}

// lines ends a line at CR, LF, or both.
func lines(event []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(event) > 0 {
			end := bytes.IndexAny(event, "\r\n")
			if end < 0 {
				yield(event)
				return
			}
			if !yield(event[:end]) {
				return
			}
			if event[end] == '\r' && end+1 < len(event) && event[end+1] == '\n' {
				end++
			}
			event = event[end+1:]
		}
	}
}

// Name is the name of an event, empty if it has none.
func Name(event []byte) string {
	name := ""
	for line := range lines(event) {
		if value, ok := field(line, "event"); ok {
			name = string(value)
		}
	}
	return name
}

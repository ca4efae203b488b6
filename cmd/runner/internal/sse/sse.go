// Package sse reads and writes streams of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html). It is the only
// place that knows how they look.
//
// sse.go follows a stream as it passes, read.go takes it apart event by event, write.go
// has what we say on one.
package sse

import "bytes"

// Part is what bytes of a stream are.
type Part int

// The parts.
const (
	// None is of no line: the second half of a line end.
	None Part = iota
	// Frame is of a line, and of none of the values below.
	Frame
	// ID, Name, Data and Retry are of the value of the field id, event, data or retry.
	ID
	Name
	Data
	Retry
	// Line is the end of a line that has something.
	Line
	// End is the end of an event: of an empty line.
	End
)

// Scanner tells the parts of a stream as it passes, and keeps nothing of it. The zero
// value is at the begin of one.
type Scanner struct {
	field [len("event")]byte
	named int  // how long the name of the line's field is; longer than field for one that is none of ours
	of    Part // ID, Name, Data, Retry or Frame: the field, from its colon or the end of the line on
	value bool // behind the colon of the line
	space bool // just behind it
	cr    bool // a CR ended the last line, whose LF belongs to it
	begun bool // the mark at the begin of the stream is over
}

// mark is what a stream may begin with (a byte order mark); it is of no line.
const mark = "\ufeff"

// Next tells what the first n bytes of p are, one at least. p is not empty.
func (s *Scanner) Next(p []byte) (part Part, n int) {
	b := p[0]
	if b == '\n' && s.cr {
		s.cr = false
		return None, 1
	}
	if s.cr = b == '\r'; s.cr || b == '\n' {
		return s.end(), 1
	}
	switch {
	case !s.value && b == ':':
		s.of, s.value, s.space, s.begun = s.known(), true, true, true
		return Frame, 1
	case !s.value:
		return Frame, s.name(p)
	case s.space && b == ' ':
		s.space = false
		return Frame, 1
	}
	s.space = false
	return s.of, lineEnd(p)
}

// Field is the field of a line that has just ended: ID, Name, Data, Retry, or Frame for
// any other.
func (s *Scanner) Field() Part { return s.of }

// name takes bytes of the name of a field.
func (s *Scanner) name(p []byte) (n int) {
	for n < len(p) && p[n] != ':' && p[n] != '\r' && p[n] != '\n' {
		if s.named < len(s.field) {
			s.field[s.named] = p[n]
		}
		s.named = min(s.named+1, len(s.field)+1)
		n++
		if !s.begun && s.named == len(mark) {
			if s.begun = true; string(s.field[:s.named]) == mark {
				s.named = 0
			}
		}
	}
	return n
}

// end ends a line.
func (s *Scanner) end() Part {
	s.begun = true
	if !s.value && s.named == 0 {
		return End
	}
	if !s.value {
		s.of = s.known()
	}
	s.named, s.value, s.space = 0, false, false
	return Line
}

// known is the field that the line names.
func (s *Scanner) known() Part {
	if s.named > len(s.field) {
		return Frame
	}
	switch string(s.field[:s.named]) {
	case "id":
		return ID
	case "event":
		return Name
	case "data":
		return Data
	case "retry":
		return Retry
	}
	return Frame
}

// lineEnd is where the line ends of which p is a part.
func lineEnd(p []byte) int {
	if n := bytes.IndexByte(p, '\n'); n >= 0 {
		p = p[:n]
	}
	if n := bytes.IndexByte(p, '\r'); n >= 0 {
		return n
	}
	return len(p)
}

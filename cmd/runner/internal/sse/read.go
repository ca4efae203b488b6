package sse

import (
	"bytes"
	"errors"
)

// ErrTooLong is the error of an event that is longer than a Reader takes.
var ErrTooLong = errors.New("the event is too long")

// Kept is the longest event, in bytes, whose buffer is used again. The bytes of a
// longer one are its receiver's to keep: a stream may be idle for ever, and holds
// little then.
const Kept = 4 << 10

// Reader takes what is written to it apart into events. It leaves out the mark at the
// begin of a stream. The zero value takes no event.
type Reader struct {
	// Limit is the longest event in bytes.
	Limit int
	// Event is called with each whole event, also with one of comments alone. Its error
	// ends the stream.
	Event func(Event) error

	scan   Scanner
	buffer []byte
	begun  bool
	// data is the value of the first of so many lines of data, name is that of the last line
	// that names the event, and id and retry those of their lines, at 0 where there is none.
	// value is that of the line so far.
	data, name, id, retry, value span
	lines                        int
}

type span struct{ begin, end int }

// Event is one event. Its bytes are valid until Reader.Event returns, if there are at
// most Kept of them.
type Event struct {
	// Text is all of it, with the empty line that ends it.
	Text []byte
	// Name is its name, empty if it has none, and Data its lines of data, joined by line
	// feeds; nil if they have nothing.
	Name, Data []byte
	// ID is its id, nil if it has none, and Retry how long a client waits, in milliseconds,
	// before it comes back with that.
	ID, Retry []byte
}

// Write implements io.Writer. Its errors are those of Event, and ErrTooLong.
func (r *Reader) Write(p []byte) (int, error) {
	for done := 0; done < len(p); {
		part, n := r.scan.Next(p[done:])
		piece := p[done : done+n]
		done += n
		if part == None && len(r.buffer) == 0 {
			continue // it is of the end of the event before
		}
		begin := len(r.buffer)
		if begin+n > r.Limit {
			return done - n, ErrTooLong
		}
		r.buffer = append(r.buffer, piece...)
		if part == ID || part == Name || part == Data || part == Retry {
			if r.value.end != begin {
				r.value.begin = begin
			}
			r.value.end = begin + n
		}
		if part == Line {
			r.line(begin)
		}
		if part != End {
			continue
		}
		if err := r.Event(r.event()); err != nil {
			return done, err
		}
	}
	return len(p), nil
}

// line ends a line of an event. Its value ends at end, if it has one.
func (r *Reader) line(end int) {
	value := r.value
	if value.end != end {
		value = span{end, end}
	}
	r.value = span{}
	switch r.scan.Field() {
	case Data:
		if r.lines++; r.lines == 1 {
			r.data = value
		}
	case Name:
		r.name = value
	case ID:
		r.id = value
	case Retry:
		r.retry = value
	case None, Frame, Line, End: // a field of no concern
	}
}

// event is the event that has become whole, which the reader forgets.
func (r *Reader) event() Event {
	all := r.buffer
	e := Event{Text: all, Name: all[r.name.begin:r.name.end]}
	if r.id.end > 0 { // behind the name of its field
		e.ID = all[r.id.begin:r.id.end]
	}
	e.Retry = all[r.retry.begin:r.retry.end]
	if e.Data = all[r.data.begin:r.data.end:r.data.end]; r.lines > 1 {
		e.Data = joined(all, Scanner{begun: r.begun})
	}
	if len(e.Data) == 0 {
		e.Data = nil
	}
	if !r.begun {
		r.begun, e.Text = true, bytes.TrimPrefix(all, []byte(mark))
	}
	r.data, r.lines, r.name, r.id, r.retry, r.value = span{}, 0, span{}, span{}, span{}, span{}
	if r.buffer = r.buffer[:0]; len(all) > Kept {
		r.buffer = nil
	}
	return e
}

// joined are the lines of data of an event, joined by line feeds. To remember where each is
// would take many times its text.
func joined(event []byte, scan Scanner) (data []byte) {
	data = make([]byte, 0, len(event))
	for at := 0; at < len(event); {
		part, n := scan.Next(event[at:])
		switch {
		case part == Data:
			data = append(data, event[at:at+n]...)
		case part == Line && scan.Field() == Data:
			data = append(data, '\n')
		}
		at += n
	}
	return data[:len(data)-1]
}

// Held is how many bytes there are of an event that is not whole, and Rest are these.
func (r *Reader) Held() int { return len(r.buffer) }

// Rest is what was written after the last whole event.
func (r *Reader) Rest() []byte { return r.buffer }

// Named reports whether an event has a name.
func (e Event) Named(name string) bool { return string(e.Name) == name }

// Message is the text that a client takes for a message of JSON-RPC, nil for any other
// event. A client listens to events without a name, and of the name message; what it
// cannot read it passes over, and so does whoever takes the text apart.
func (e Event) Message() []byte {
	if len(e.Name) > 0 && !e.Named("message") || !e.Object() {
		return nil
	}
	return e.Data
}

// Object reports whether the data of an event begins as a message of JSON-RPC, or a
// batch of them, does. What reads texts with less care than JSON asks for skips more
// than spaces before that.
func (e Event) Object() bool {
	first := bytes.TrimLeft(e.Data, "\x00\t\n\v\f\r \u0085\u00a0\ufeff")
	return len(first) > 0 && (first[0] == '{' || first[0] == '[')
}

package stdio

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// MaxMessage is how long a message of a child may be, in bytes.
const MaxMessage = 4 << 20

// TooLong is the error of a message that is longer than MaxMessage.
type TooLong struct {
	// Begin and End are its first and its last bytes, for whoever can tell by them
	// what it answers.
	Begin, End []byte
}

// Error is the same for all.
func (*TooLong) Error() string {
	return fmt.Sprintf("the server's message is longer than %d bytes", MaxMessage)
}

// errEndless is the error of a line whose end is not to be seen. Nothing that comes after it is ever read.
var errEndless = errors.New("its standard output has a line that does not end")

const (
	// maxSkipped is how much of a line that is too long is passed over.
	maxSkipped = 64 << 20
	// edge is how much of a message that is too long is kept at each end.
	edge = 512
	// keep is the largest buffer that is used for the next message. A child may be
	// idle for ever.
	keep = 64 << 10
	// shown is how much is told of a line that is no message.
	shown = 200
)

// lines reads messages. What is none is told, and passed over: many programs greet on
// standard output, or log there, in JSON too.
type lines struct {
	from   *os.File
	reader *bufio.Reader
	junk   func([]byte)
	buffer []byte
}

func newLines(from *os.File, junk func([]byte)) *lines {
	if junk == nil {
		junk = func([]byte) {}
	}
	return &lines{from: from, reader: bufio.NewReaderSize(from, 4<<10), junk: junk}
}

func (l *lines) next() ([]byte, error) {
	for {
		line, err := l.line()
		var tooLong *TooLong
		switch {
		case errors.As(err, &tooLong) && !opens(bytes.TrimSpace(tooLong.Begin)):
			line = tooLong.Begin
		case err != nil:
			return nil, err
		}
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
		case opens(line) && message(line):
			return line, nil
		default:
			l.junk(line[:min(len(line), shown)])
		}
	}
}

// opens reports whether a line may be a message by how it begins.
func opens(line []byte) bool { return len(line) > 0 && (line[0] == '{' || line[0] == '[') }

// message reports whether a line is a message or a batch. Only an object that does not name the protocol is taken
// apart.
func message(line []byte) bool {
	if line[0] == '[' || bytes.Contains(line, []byte(`"jsonrpc"`)) {
		return json.Valid(line)
	}
	var m struct {
		Method json.RawMessage `json:"method"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	return json.Unmarshal(line, &m) == nil && (m.Method != nil || m.Result != nil || len(m.Error) > 0 && m.Error[0] == '{')
}

// line is one line, also the last one that has no end.
func (l *lines) line() ([]byte, error) {
	if cap(l.buffer) > keep {
		l.buffer = nil
	}
	l.buffer = l.buffer[:0]
	for {
		part, err := l.reader.ReadSlice('\n')
		l.buffer = append(l.buffer, part...)
		switch {
		case err == nil && len(l.buffer)-1 > MaxMessage, errors.Is(err, bufio.ErrBufferFull) && len(l.buffer) > MaxMessage:
			return nil, l.skip(err == nil)
		case err == nil:
			return l.buffer, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case len(l.buffer) > 0 && len(l.buffer) <= MaxMessage:
			return l.buffer, nil // the error comes again
		default:
			return nil, err
		}
	}
}

// skip reads the rest of a line that is too long, unless it is whole.
func (l *lines) skip(whole bool) error {
	begin := bytes.Clone(l.buffer[:edge])
	end := bytes.Clone(l.buffer[len(l.buffer)-edge:])
	l.buffer = nil
	for skipped := 0; !whole; {
		part, err := l.reader.ReadSlice('\n')
		if skipped += len(part); skipped > maxSkipped {
			return errEndless
		}
		end = append(end, part...)
		end = append(end[:0], end[max(0, len(end)-edge):]...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break // the error comes again
		}
		whole = err == nil
	}
	return &TooLong{Begin: begin, End: end}
}

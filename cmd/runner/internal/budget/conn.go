package budget

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// MaxFields is how many header fields a request may have. net/http bounds their bytes alone, and each field takes a
// hundred more in memory.
const MaxFields = 128

// Listen accepts connections that have a place, of which one address has its share. Others are closed at once. It ends
// a connection whose head has more than so many fields.
func Listen(from net.Listener, places *share.Places, fields int) net.Listener {
	return &listener{from, places, fields}
}

type listener struct {
	net.Listener
	places *share.Places
	fields int
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		leave, err := l.places.Take(Address(c.RemoteAddr().String()), 1)
		if err != nil {
			_ = c.Close() //nolint:errcheck // nothing was sent
			continue
		}
		return &conn{Conn: c, leave: leave, framing: framing{fields: l.fields}}, nil
	}
}

// conn is a connection whose requests' heads are counted while they come: only net/http reads it, in one goroutine at a
// time.
type conn struct {
	net.Conn
	leave func()
	framing
	over bool
}

const tooMany = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\n" +
	"Connection: close\r\n\r\ntoo many header fields"

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	if c.over {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	switch c.follow(p[:n]) {
	case crowded:
		c.over = true
		_, _ = io.WriteString(c.Conn, tooMany) //nolint:errcheck // a client that left needs no answer
		_ = c.CloseWrite()                     //nolint:errcheck // as above
		return 0, io.EOF
	case lost:
		c.over = true // after what has come
	case within:
	}
	return n, err
}

// Close implements net.Conn.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite tells the client that no more follows, as net/http does before it closes a connection that is read from.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// verdict is what is known of the bytes that have come.
type verdict int

const (
	within verdict = iota
	// crowded: a head has too many fields.
	crowded
	// lost: nobody knows where the next head begins. net/http refuses such a request.
	lost
)

// framing follows HTTP/1.1 (RFC 9112, sections 2 to 7), as far as it takes to know where heads begin and end.
type framing struct {
	fields int

	state  state
	count  int      // lines of the head, or of trailers
	line   [64]byte // the beginning of the line
	length int      // of the line
	left   int64    // bytes of the body, or of a chunk, that are to come

	body    int64 // what Content-Length says
	chunked bool
	tail    [9]byte // the end of the request line
}

type state int

const (
	head state = iota
	body
	chunkSize
	chunkData
	trailer
)

func (f *framing) follow(p []byte) verdict {
	for len(p) > 0 {
		if f.state == body || f.state == chunkData {
			n := min(f.left, int64(len(p)))
			f.left, p = f.left-n, p[n:]
			if f.left > 0 {
				continue
			}
			if f.state == body {
				f.begin()
			} else {
				f.state = chunkSize
			}
			continue
		}
		end := bytes.IndexByte(p, '\n')
		part := p
		if end >= 0 {
			part = p[:end]
		}
		if f.length < len(f.line) {
			copy(f.line[f.length:], part)
		}
		f.length += len(part)
		if f.state == head && f.count == 0 {
			f.keepTail(part)
		}
		if end < 0 {
			return within
		}
		p = p[end+1:]
		if v := f.ended(); v != within {
			return v
		}
	}
	return within
}

func (f *framing) keepTail(part []byte) {
	if n := len(part); n >= len(f.tail) {
		copy(f.tail[:], part[n-len(f.tail):])
	} else {
		copy(f.tail[:], f.tail[n:])
		copy(f.tail[len(f.tail)-n:], part)
	}
}

// begin awaits a head.
func (f *framing) begin() { *f = framing{fields: f.fields} }

// ended takes a line whose end has come.
func (f *framing) ended() verdict {
	line := string(bytes.TrimSuffix(f.line[:min(f.length, len(f.line))], []byte("\r")))
	empty := line == "" && f.length <= 1
	long := f.length > len(f.line)
	f.length = 0
	switch f.state {
	case head:
		return f.headLine(line, empty, long)
	case chunkSize:
		digits, _, _ := strings.Cut(line, ";")
		size, err := strconv.ParseInt(strings.TrimSpace(digits), 16, 63)
		switch {
		case err != nil || size < 0 || size > 1<<62:
			return lost
		case size == 0:
			f.state, f.count = trailer, 0
		default:
			f.state, f.left = chunkData, size+int64(len("\r\n"))
		}
	case trailer:
		if empty {
			f.begin()
		} else if f.count++; f.count > f.fields {
			return crowded
		}
	case body, chunkData: // these have no lines
	}
	return within
}

func (f *framing) headLine(line string, empty, long bool) verdict {
	f.count++
	switch {
	case f.count == 1:
		return within // the request line
	case empty && f.chunked && bytes.Contains(f.tail[:], []byte("HTTP/1.0")):
		return lost // net/http takes it for another body than other readers
	case empty && f.chunked:
		f.state = chunkSize
		return within
	case empty && f.body > 0:
		f.state, f.left = body, f.body
		return within
	case empty:
		f.begin()
		return within
	case f.count > f.fields+1:
		return crowded
	}
	name, value, _ := strings.Cut(line, ":")
	switch {
	case strings.EqualFold(name, "Content-Length"):
		n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 63)
		if err != nil || n < 0 || long {
			return lost
		}
		f.body = n
	case strings.EqualFold(name, "Transfer-Encoding"):
		f.chunked = true
	}
	return within
}

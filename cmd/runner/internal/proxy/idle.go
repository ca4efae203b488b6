package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"time"
)

// An event stream that a GET has opened may be silent for hours. While it is in the hands of net/http it takes the goroutine of its handler,
// whose stack is as large as the way to the backend is deep, a second one, and 10 KiB of buffers. So once the backend has answered, the
// connection is taken over, the handler returns, and two small goroutines are left: one waits for the backend, one for the client to leave.

const (
	// discarded is how much a client may send on the connection of an open stream, in bytes. It is told that
	// the connection ends with the stream.
	discarded = 64 << 10
	// lastRead is how long the client may take to close a connection after its stream has ended.
	lastRead = 500 * time.Millisecond
)

// held is the ResponseWriter of a request for a stream. It writes nothing once the stream has been taken.
type held struct {
	http.ResponseWriter
	answer *http.Response // the backend's, once it is taken
	stream io.ReadCloser  // its body
}

// hold returns a writer for a request whose stream can be taken: over HTTP/1.1, whose connection is the request's alone.
func hold(w http.ResponseWriter, r *http.Request) *held {
	_, ok := w.(http.Hijacker)
	if !ok || r.Method != http.MethodGet || r.ProtoMajor != 1 || r.ProtoMinor != 1 {
		return nil
	}
	return &held{ResponseWriter: w}
}

// take leaves the answer without a body. What is between the proxy and the client, a filter for example, must see the
// body: then there is another writer, and nothing is taken.
func (h *held) take(response *http.Response) {
	if h == nil || response.StatusCode != http.StatusOK || len(response.Trailer) > 0 {
		return
	}
	h.answer, h.stream, response.Body = response, response.Body, http.NoBody
}

// WriteHeader implements http.ResponseWriter.
func (h *held) WriteHeader(status int) {
	if h.stream == nil {
		h.ResponseWriter.WriteHeader(status)
	}
}

// FlushError is for http.ResponseController.
func (h *held) FlushError() error {
	if h.stream != nil {
		return nil
	}
	return http.NewResponseController(h.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (h *held) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// unfiltered tells a flight of its writer, if nothing stands between.
func unfiltered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h, ok := w.(*held); ok {
			flightOf(r.Context()).held = h
		}
		next.ServeHTTP(w, r)
	})
}

// open passes a request on that may open a stream.
func (p *Proxy) open(h *held, r *http.Request) {
	// The server ends the context of a request whose connection is taken over.
	client, left := context.WithCancelCause(context.WithoutCancel(r.Context()))
	follows := context.AfterFunc(r.Context(), func() { left(context.Cause(r.Context())) })
	flight, ctx := p.traffic.begin(r.WithContext(client), nil)
	end := func() {
		follows()
		left(nil)
		p.traffic.end(flight)
	}
	taken := false
	defer func() {
		if taken {
			return
		}
		if h.stream != nil {
			_ = h.stream.Close() //nolint:errcheck // nobody reads it
		}
		end()
	}()
	p.guarded.ServeHTTP(h, r.WithContext(ctx))
	if h.stream == nil {
		return
	}
	if !follows() {
		panic(http.ErrAbortHandler) // the client has left
	}
	answer := statusAndHeaders(h.Header())
	conn, _, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	taken = true
	flight.take(conn)
	// What is still known of the request must not keep the server's buffers, nor headers.
	h.ResponseWriter, h.answer.Header, h.answer.Request = nil, nil, nil
	flight.request = &http.Request{Method: r.Method}
	s := &idle{conn: conn, body: h.stream, buffers: p.reverse.BufferPool}
	go s.watch(left)
	go s.pass(answer, end)
}

// idle is a stream whose connection has been taken over.
type idle struct {
	conn    net.Conn
	body    io.ReadCloser
	buffers httputil.BufferPool
}

// statusAndHeaders is the beginning of the answer.
func statusAndHeaders(header http.Header) []byte {
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	header.Set("Transfer-Encoding", "chunked")
	header.Set("Connection", "close")
	b := bytes.NewBufferString("HTTP/1.1 200 OK\r\n")
	_ = header.Write(b) //nolint:errcheck // memory takes everything
	b.WriteString("\r\n")
	return b.Bytes()
}

// watch waits for the client to leave, and tells left.
func (s *idle) watch(left context.CancelCauseFunc) {
	var buffer [64]byte
	for sum := 0; sum < discarded; {
		n, err := s.conn.Read(buffer[:])
		if sum += n; err != nil {
			break
		}
	}
	left(context.Canceled)
	_ = s.conn.Close() //nolint:errcheck // nobody is there to be told
}

// pass writes the answer's head and passes its body on until one side ends.
func (s *idle) pass(head []byte, end func()) {
	defer end()
	defer s.body.Close() //nolint:errcheck // it was read as far as it goes
	_, err := s.conn.Write(head)
	if err == nil {
		err = s.copy()
	}
	if !errors.Is(err, io.EOF) {
		_ = s.conn.Close() //nolint:errcheck // the client must see that the stream has not ended
		return
	}
	_, _ = io.WriteString(s.conn, "0\r\n\r\n") //nolint:errcheck // a client that left needs no end
	// A connection that is closed while something unread has arrived may lose what was sent last.
	if half, ok := s.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() //nolint:errcheck // as above
	}
	_ = s.conn.SetReadDeadline(time.Now().Add(lastRead)) //nolint:errcheck // connections have deadlines
}

// What a chunk has before and behind its data (RFC 9112, section 7.1): four digits at most, and ends of lines.
const beforeChunk, behindChunk = len("7fff\r\n"), len("\r\n")

// copy writes each part of the body at once, as a chunk. While parts are small, so is its buffer.
func (s *idle) copy() error {
	small := make([]byte, streamBuffer)
	for buffer := small; ; {
		n, err := s.body.Read(buffer[beforeChunk : len(buffer)-behindChunk])
		if n > 0 {
			if _, broken := s.conn.Write(framed(buffer, n)); broken != nil {
				return broken
			}
		}
		if err != nil {
			return err
		}
		switch full := n == len(buffer)-beforeChunk-behindChunk; {
		case full && len(buffer) == len(small):
			buffer = s.buffers.Get()
		case !full && len(buffer) > len(small):
			s.buffers.Put(buffer)
			buffer = small
		}
	}
}

// framed is a chunk, of which the data are in the buffer.
func framed(buffer []byte, n int) []byte {
	var digits [beforeChunk]byte
	length := append(strconv.AppendInt(digits[:0], int64(n), 16), "\r\n"...)
	start := beforeChunk - len(length)
	copy(buffer[start:], length)
	return append(buffer[start:beforeChunk+n], "\r\n"...)
}

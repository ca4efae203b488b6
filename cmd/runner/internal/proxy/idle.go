package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
)

// An event stream that a GET has opened may be silent for hours. While it is in the hands of net/http it takes the
// goroutine of its handler, whose stack is as large as the way to the backend is deep, a second one, and 10 KiB of
// buffers. So once the backend has answered, the connection is taken over, the handler returns, and two small
// goroutines are left: one waits for the backend, one for the client to leave.

const (
	// discarded is how much a client may send on the connection of an open stream, in bytes. It is told that
	// the connection ends with the stream.
	discarded = 64 << 10
	// lastRead is how long the client may take to close a connection after its stream has ended.
	lastRead = 500 * time.Millisecond
)

// takeover is the ResponseWriter of a request whose stream can be taken over. It writes nothing once the stream has
// been taken.
type takeover struct {
	http.ResponseWriter
	client   context.Context //nolint:containedctx // one request's; ends when the client leaves, not with the handler
	left     context.CancelCauseFunc
	stay     func() bool    // ends client no more with the handler; false where it has ended
	response *http.Response // the backend's, once it is taken
	stream   io.ReadCloser  // its body
	filter   Filter         // nil where none stands between
}

// Filter is a writer between the proxy and the client that stays with a stream whose handler has returned.
type Filter interface {
	http.ResponseWriter
	// Unwrap is the writer that it was made with.
	Unwrap() http.ResponseWriter
	// Follow has it write to another writer from now on, until end is called. It is false for an answer that it does not
	// pass on part by part.
	Follow(to http.ResponseWriter) (end func(), follows bool)
}

// newTakeover is nil for a request whose stream cannot be taken over: it can over HTTP/1.1, whose connection is the
// request's alone.
func newTakeover(w *outcome, r *http.Request) *takeover {
	_, ok := w.ResponseWriter.(http.Hijacker)
	if !ok || r.Method != http.MethodGet || r.ProtoMajor != 1 || r.ProtoMinor != 1 {
		return nil
	}
	// The server ends the context of a request whose connection is taken over.
	client, left := context.WithCancelCause(context.WithoutCancel(r.Context()))
	asked := r.Context() // and not the request, whose headers would be kept
	stay := context.AfterFunc(asked, func() { left(context.Cause(asked)) })
	return &takeover{ResponseWriter: w, client: client, left: left, stay: stay}
}

// take leaves the answer without a body. What is between the proxy and the client must see the body: where it is no
// Filter, nothing is taken.
func (o *takeover) take(response *http.Response) {
	if o == nil || response.StatusCode != http.StatusOK || len(response.Trailer) > 0 {
		return
	}
	o.response, o.stream, response.Body = response, response.Body, http.NoBody
}

// WriteHeader implements http.ResponseWriter.
func (o *takeover) WriteHeader(status int) {
	if o.stream == nil {
		o.ResponseWriter.WriteHeader(status)
	}
}

// FlushError is for http.ResponseController.
func (o *takeover) FlushError() error {
	if o.stream != nil {
		return nil
	}
	return http.NewResponseController(o.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (o *takeover) Unwrap() http.ResponseWriter { return o.ResponseWriter }

// offerTakeover is the stage that lets the stream of a flight be taken over, unless something other than a Filter
// stands between the backend and the client.
func offerTakeover(next http.Handler) http.Handler {
	return http.HandlerFunc(func(to http.ResponseWriter, r *http.Request) {
		w := to
		if held, is := w.(*pipeline.Held); is {
			w = held.Unwrap() // of a stream it holds nothing
		}
		filter, filtered := w.(Filter)
		if filtered {
			w = filter.Unwrap()
		}
		if o, ok := w.(*takeover); ok {
			o.filter = filter
			flightOf(r.Context()).takeover = o
		}
		next.ServeHTTP(to, r)
	})
}

// end gives up what was not taken over.
func (o *takeover) end() {
	if o == nil {
		return
	}
	if o.stream != nil {
		_ = o.stream.Close() //nolint:errcheck // nobody reads it
	}
	o.stay()
	o.left(nil)
}

// takeOver goes on with a stream whose handler returns. It reports whether there is one, which then ends the flight.
func (t *target) takeOver(o *takeover, f *flight) bool {
	if o == nil || o.stream == nil {
		return false
	}
	if !o.stay() {
		panic(http.ErrAbortHandler) // the client has left
	}
	s := &idle{body: o.stream, buffers: t.proxy.buffers, log: t.config.Log}
	if !s.follow(o.filter) {
		panic(http.ErrAbortHandler)
	}
	answer := statusAndHeaders(o.Header())
	conn, _, err := http.NewResponseController(o.ResponseWriter).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	s.conn = conn
	f.takenOver(conn)
	// What is still known of the request must not keep the server's buffers, nor headers. The body keeps the answer.
	o.response.Header, o.response.Request, f.takeover = nil, nil, nil
	f.request = &http.Request{Method: f.request.Method}
	go s.watch(o.left)
	go s.pass(answer, func() { t.proxy.traffic.end(f) })
	return true
}

// idle is a stream whose connection has been taken over.
type idle struct {
	conn    net.Conn
	body    io.ReadCloser
	buffers httputil.BufferPool
	filter  Filter // nil where the body passes as it is
	end     func() // of the filter
	log     *slog.Logger
}

// follow has a filter, if there is one, write to the connection. It is false where that does not pass the stream on.
func (s *idle) follow(filter Filter) (follows bool) {
	if filter == nil {
		return true
	}
	s.filter = filter
	s.end, follows = filter.Follow(&chunkWriter{stream: s})
	return follows
}

// chunkWriter is what a filter writes to: each part is a chunk.
type chunkWriter struct{ stream *idle }

// Header implements http.ResponseWriter. The headers have been written.
func (c *chunkWriter) Header() http.Header { return http.Header{} }

// WriteHeader implements http.ResponseWriter.
func (c *chunkWriter) WriteHeader(int) {}

// SetWriteDeadline is for http.ResponseController.
func (c *chunkWriter) SetWriteDeadline(t time.Time) error { return c.stream.conn.SetWriteDeadline(t) }

// Write implements http.ResponseWriter.
func (c *chunkWriter) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil // a chunk of none would end the stream
	}
	parts := net.Buffers{append(strconv.AppendInt(nil, int64(len(p)), 16), "\r\n"...), p, []byte("\r\n")}
	if _, err := parts.WriteTo(c.stream.conn); err != nil {
		return 0, err
	}
	return len(p), nil
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
	if s.end != nil {
		defer s.end()
	}
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
			if broken := s.write(buffer, n); broken != nil {
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

// write writes what was read to a buffer, in which there is room for a chunk's ends.
func (s *idle) write(buffer []byte, n int) error {
	if s.filter == nil {
		_, err := s.conn.Write(framed(buffer, n))
		return err
	}
	// In a goroutine that ends: what filters needs a deep stack, and a stream that is silent afterwards would keep it.
	written := make(chan error, 1)
	go func() { written <- s.filtered(buffer[beforeChunk : beforeChunk+n]) }()
	return <-written
}

// filtered writes through the filter. A panic ends the stream alone, as it does in a handler.
func (s *idle) filtered(p []byte) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("a filter of a stream panicked", "error", fault, "stack", string(debug.Stack()))
			err = http.ErrAbortHandler
		}
	}()
	_, err = s.filter.Write(p)
	return err
}

// framed is a chunk, of which the data are in the buffer.
func framed(buffer []byte, n int) []byte {
	var digits [beforeChunk]byte
	length := append(strconv.AppendInt(digits[:0], int64(n), 16), "\r\n"...)
	start := beforeChunk - len(length)
	copy(buffer[start:], length)
	return append(buffer[start:beforeChunk+n], "\r\n"...)
}

package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"sync/atomic"
)

// A call is written, and the head of its answer read, in the goroutine that has the call: http.Transport hands both to
// goroutines of the connection, and each hand-over is a wake. Both parsers are net/http's, and what a call may see is
// what it sees there (FuzzDirect holds the two against each other).

// direct is an upstream that makes calls in their goroutines, where gather could read them. The rest is
// http.Transport's.
type direct struct {
	*http.Transport
	wires *wires
}

// RoundTrip implements http.RoundTripper.
func (d *direct) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet {
		return d.wires.single(request)
	}
	if _, ready := request.Body.(*readBody); ready {
		return d.wires.RoundTrip(request)
	}
	return d.Transport.RoundTrip(request)
}

// RoundTrip makes a call whose body has been read. It sends it once: what http.Transport sends a second time, a request
// without a body, is none of these. A connection that waited and takes nothing of it any more is replaced by a new one,
// as http.Transport does.
func (w *wires) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if c := w.get(request.URL.Host); c != nil {
		response, err := w.call(c, request)
		var unsent *unsentError
		if !errors.As(err, &unsent) {
			return response, err
		}
		if _, err := request.Body.(*readBody).Seek(0, io.SeekStart); err != nil { //nolint:forcetypeassert // see direct
			return nil, err
		}
	}
	conn, err := w.dial(ctx, "tcp", request.URL.Host)
	if err != nil {
		return nil, err
	}
	return w.call(newWire(conn, request.URL.Host, callBuffer), request)
}

// single makes a request without a body on a connection of its own, which ends with the answer's body. A
// stream that is open for hours keeps no goroutine and no more than streamBuffer so, where http.Transport keeps two
// goroutines and 8 KiB for the next request on the connection.
func (w *wires) single(request *http.Request) (*http.Response, error) {
	conn, err := w.dial(request.Context(), "tcp", request.URL.Host)
	if err != nil {
		return nil, err
	}
	return new(wires).call(newWire(conn, request.URL.Host, streamBuffer), request)
}

// call makes a call on a connection.
func (w *wires) call(c *wire, request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	end := context.AfterFunc(ctx, c.hangUp)
	response, err := c.ask(request)
	if err != nil {
		end()
		_ = c.Close() //nolint:errcheck // the other error is the cause
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	w.follow(response, c, end)
	return response, nil
}

// messages are buffers of those that are sent.
var messages = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// ask sends a request in one piece and reads the head of its final answer.
func (c *wire) ask(request *http.Request) (*http.Response, error) {
	message := messages.Get().(*bytes.Buffer) //nolint:forcetypeassert // New above
	message.Reset()
	if err := request.Write(message); err != nil {
		return nil, err
	}
	if err := c.send(message.Bytes()); err != nil {
		return nil, err
	}
	if !c.sending {
		messages.Put(message)
	}
	if body, ok := request.Body.(*readBody); ok {
		body.Reset(nil) // it has been sent, and the answer may take for long
	}
	return c.readHead(request)
}

// readHead reads the head of the final answer, and passes over the others (RFC 9110, section 15.2).
func (c *wire) readHead(request *http.Request) (*http.Response, error) {
	c.headLeft = MaxHeader
	if _, err := c.reader.Peek(1); err != nil {
		return nil, err
	}
	for {
		response, err := http.ReadResponse(c.reader, request)
		switch {
		case err != nil && c.headLeft <= 0:
			return nil, errLongHead
		case err != nil:
			return nil, err
		case response.StatusCode >= http.StatusOK || response.StatusCode == http.StatusSwitchingProtocols ||
			response.StatusCode < http.StatusContinue:
			c.headLeft = math.MaxInt64
			return response, nil
		}
	}
}

// follow has the next call follow on the connection, once the body of the answer has been read.
func (w *wires) follow(response *http.Response, c *wire, end func() bool) {
	body := &wireBody{ReadCloser: response.Body, wires: w, wire: c, end: end, ctx: response.Request.Context()}
	body.keep = !response.Close && response.StatusCode >= http.StatusOK && !c.sending && c.raw != nil
	if response.Body == http.NoBody {
		body.finish(true)
		return
	}
	response.Body = body
}

// wireBody is the body of an answer. Once it is at its end the connection is another call's.
type wireBody struct {
	io.ReadCloser
	wires *wires
	wire  *wire
	end   func() bool
	ctx   context.Context //nolint:containedctx // one call's
	keep  bool
	over  atomic.Bool
}

// Read implements io.Reader. Where the call was cancelled, its error is why.
func (b *wireBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil {
		return n, nil
	}
	if errors.Is(err, io.EOF) {
		b.finish(true)
		return n, err
	}
	b.finish(false)
	if cause := context.Cause(b.ctx); cause != nil {
		err = cause
	}
	return n, err
}

// Close leaves the rest unread: it may take hours to come.
func (b *wireBody) Close() error {
	b.finish(false)
	return nil
}

func (b *wireBody) finish(whole bool) {
	if !b.over.CompareAndSwap(false, true) {
		return
	}
	// Where it is too late to take back the end of the call, it may still come to the connection.
	if b.end() && whole && b.keep && b.wire.reader.Buffered() == 0 {
		b.wires.put(b.wire)
		return
	}
	_ = b.wire.Close() //nolint:errcheck // nothing is left to do about it
}

package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
)

// A server of the HTTP+SSE transport is sent each message with a POST of its own. The transport says nothing about when
// it answers that: some servers do so at once, others when the tool is done, whose answer comes on the stream before.
// So what comes on the stream counts, and of the answer to the POST only an error that comes first.

// tellTime is how long such a server may take for what waits for no answer. Tests change it.
var tellTime = dialTime

// errUnsure: the server was sent a message and did not say whether it took it.
var errUnsure = errors.New("the server did not say that it took the message")

// goneError is why a message is not taken where none will be: nobody listens any more, or the server has forgotten
// whose stream it is that it may still hold open. What else is said to be wrong with a message may be wrong with that
// alone.
type goneError struct{ error }

// Unwrap is for errors.As.
func (e goneError) Unwrap() error { return e.error }

// posted is a message on its way to the server.
type posted struct {
	ctx    context.Context //nolint:containedctx // the POST's
	cancel context.CancelFunc
	// begun says that there was a connection for it; written is closed when all of it was sent.
	begun   atomic.Bool
	written chan struct{}
	once    sync.Once
	// told has the server's word, once.
	told chan error
}

// Send implements Conn.
func (e *events) Send(ctx context.Context, message []byte, waits *Waiting) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := e.post(message)
	late, sent := dialTime, p.written
	if waits == nil {
		late, sent = tellTime, nil
	}
	patience := time.NewTimer(late)
	defer patience.Stop()
	var err error
	select {
	case err := <-p.told:
		return err
	case <-sent:
		go e.follow(p, waits)
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-patience.C:
		err = context.DeadlineExceeded
	}
	select {
	case <-p.written: // it has the message, and is busy
		time.AfterFunc(dialTime, p.cancel)
		return nil
	default:
	}
	if p.cancel(); p.begun.Load() {
		return errUnsure
	}
	return err
}

// follow listens to what a server says about the message of a call after it was sent. It is given some time to end its
// answer once the call is over.
func (e *events) follow(p *posted, waits *Waiting) {
	select {
	case err := <-p.told:
		if err != nil && e.ctx.Err() == nil { // else the call ends with the connection
			waits.Refused(err)
		}
	case <-waits.Over:
	}
	select {
	case <-waits.Over:
	case <-p.ctx.Done():
		return
	}
	end := time.AfterFunc(dialTime, p.cancel)
	<-p.ctx.Done()
	end.Stop()
}

// post sends a message. It ends with the connection.
func (e *events) post(message []byte) *posted {
	p := &posted{written: make(chan struct{}), told: make(chan error, 1)}
	p.ctx, p.cancel = context.WithCancel(httptrace.WithClientTrace(e.ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { p.begun.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				p.once.Do(func() { close(p.written) })
			}
		},
	}))
	go func() {
		defer p.cancel()
		request, err := http.NewRequestWithContext(p.ctx, http.MethodPost, e.endpoint.String(), bytes.NewReader(message))
		if err != nil {
			p.told <- err
			return
		}
		request.Header.Set("Content-Type", media.JSON)
		media.Unencoded(request.Header)
		response, err := e.client.Do(request)
		word := p.word(response, err)
		if gone, is := errors.AsType[goneError](word); is {
			e.fail(gone)
		}
		if p.told <- word; err == nil {
			_, _ = io.CopyN(io.Discard, response.Body, 4<<10) //nolint:errcheck // it only says that it was taken
			_ = response.Body.Close()                         //nolint:errcheck // it was only read
		}
	}()
	return p
}

// word is what a server says about a message, nil if it has taken it.
func (p *posted) word(response *http.Response, err error) error {
	switch {
	case err != nil && p.begun.Load():
		return errUnsure
	case errors.Is(err, syscall.ECONNREFUSED):
		return goneError{unaddressed(err)}
	case err != nil:
		return unaddressed(err)
	case response.StatusCode >= http.StatusInternalServerError:
		return fmt.Errorf("%w (HTTP %d)", errUnsure, response.StatusCode)
	}
	if to, redirects := media.Redirects(response); redirects {
		return fmt.Errorf("the server redirects a message %s (HTTP %d), which is not followed", to, response.StatusCode)
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return nil
	}
	refused := fmt.Errorf("the server answered a message with HTTP %d", response.StatusCode)
	if response.StatusCode == http.StatusNotFound || response.StatusCode == http.StatusGone {
		return goneError{refused}
	}
	return refused
}

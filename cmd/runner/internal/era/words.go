package era

import (
	"errors"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// words are a text of a backend's, and the messages that it has. err says why there are none: only of an answer that is
// no stream, on which what is no message is for nobody.
type words struct {
	text     jsontext.Value
	messages []jsonrpc.Message
	err      error
}

func wordsOf(text []byte) (said words) {
	said.text = text
	said.messages, _, said.err = jsonrpc.ParseAnswer(text)
	return said
}

// Header implements http.ResponseWriter.
func (x *exchange) Header() http.Header { return x.header }

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusContinue && status < http.StatusOK {
		return
	}
	x.begin.Do(func() {
		x.status, x.answered = status, x.header.Clone()
		if media.Type(x.header) == media.Events {
			x.events = &sse.Reader{Limit: maxAnswer, Event: x.event}
		}
		close(x.began)
	})
}

// Write implements io.Writer.
func (x *exchange) Write(p []byte) (int, error) {
	x.WriteHeader(http.StatusOK)
	size := x.whole.Len() + len(p)
	if x.events != nil {
		size = x.events.Held() + len(p)
	}
	if err := x.room.grow(x.ctx, size, expected(x.header, x.events != nil, size)); err != nil {
		x.err = err
		return 0, err
	}
	switch {
	case x.events != nil:
		n, err := x.events.Write(p)
		if x.err = err; errors.Is(err, sse.ErrTooLong) {
			x.err = errTooLong
		}
		return n, err
	case x.whole.Len()+len(p) > maxAnswer:
		x.err = errTooLong
		return 0, x.err
	}
	return x.whole.Write(p)
}

// Flush implements http.Flusher.
func (x *exchange) Flush() {}

// event hands on what may be a message. What is none is passed over: a heartbeat, or what a server says of its own.
func (x *exchange) event(e sse.Event) error {
	x.rest.note(e)
	text := e.Message()
	if text == nil {
		return nil
	}
	if len(e.Text) <= sse.Kept {
		text = slices.Clone(text)
	}
	if said := wordsOf(text); said.err == nil {
		x.rest.replied = x.rest.replied || slices.ContainsFunc(said.messages, jsonrpc.Message.Response)
		return x.give(said)
	}
	return nil
}

// give hands words on when they are asked for.
func (x *exchange) give(said words) error {
	if len(said.text) == 0 {
		return nil
	}
	x.room.shrink(len(said.text))
	select {
	case x.words <- said:
		return nil
	case <-x.ctx.Done():
		return x.ctx.Err()
	}
}

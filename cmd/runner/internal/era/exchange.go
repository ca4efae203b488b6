package era

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// maxAnswer is the longest message of a backend that is translated, in bytes.
const maxAnswer = 16 << 20

// Why an answer is not there as a whole.
var (
	errTooLong = errors.New("the backend's answer is longer than the 16 MiB that are translated")
	errBroken  = errors.New("the backend broke its answer off")
)

// exchange is one request of ours to the backend and what it answers: an http.ResponseWriter, of whose body the
// messages are read one by one.
type exchange struct {
	ctx    context.Context //nolint:containedctx // one request's
	cancel context.CancelFunc

	began    chan struct{} // closed with the first byte of the answer, or without one
	status   int
	answered http.Header
	// words are closed at the end of the answer; err, if not nil, tells then why.
	words chan words
	err   error

	// unsent is why nothing of the request has been sent, nil where something may have been.
	unsent error

	room   room
	begin  sync.Once
	header http.Header
	events *sse.Reader  // of an event stream
	rest   resumption   // of that
	whole  bytes.Buffer // of any other answer
}

// start sends a request of ours with the client's own headers. It returns at once: a goroutine of the exchange has the
// request meet the stages behind the translator (send), where it is a flight of its own, and whoever started it reads
// the words. It ends with ctx, not with the client.
func (t *Translator) start(
	ctx context.Context, r *http.Request, method string, body *pipeline.Body, header http.Header,
) *exchange {
	call := pipeline.Of(r.Context())
	// The values are the client's connection's; the end of the client is told by ctx alone.
	ctx, cancel := context.WithCancel(joined{ctx, r.Context()})
	x := &exchange{
		ctx: ctx, began: make(chan struct{}), words: make(chan words), header: http.Header{},
		room: room{memory: call.Memory, who: call.Payer()},
	}
	x.cancel = func() {
		cancel()
		x.room.leave()
	}
	out := r.Clone(ctx)
	out.Method, out.Body, out.ContentLength, out.TransferEncoding, out.Trailer = method, http.NoBody, 0, nil, nil
	if body != nil {
		out.Body, out.ContentLength = body, body.Size()
	}
	// What the client says about its connection holds for that alone: ReverseProxy would take away what we add below.
	for _, names := range out.Header["Connection"] {
		for name := range strings.SplitSeq(names, ",") {
			out.Header.Del(strings.TrimSpace(name))
		}
	}
	for name := range out.Header {
		if strings.HasPrefix(name, "Mcp-") || ofOneRequest[name] {
			delete(out.Header, name)
		}
	}
	out.Header.Set("Accept", media.JSON+", "+media.Events)
	media.Unencoded(out.Header)
	if body != nil {
		out.Header.Set("Content-Type", media.JSON)
	}
	maps.Copy(out.Header, header)
	go x.run(t.send, out, t.config.Log)
	return x
}

// joined has the time of one context and the values of another.
type joined struct {
	context.Context                 //nolint:containedctx // as it says
	values          context.Context //nolint:containedctx // as it says
}

// Value implements context.Context.
func (j joined) Value(key any) any {
	if v := j.Context.Value(key); v != nil {
		return v
	}
	return j.values.Value(key)
}

// ofOneRequest are headers of the client's request that say nothing about ours.
var ofOneRequest = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Connection": true, "Content-Encoding": true, "Content-Length": true,
	"Content-Type": true,
	"Expect":       true, "Keep-Alive": true, "Last-Event-Id": true, "Proxy-Connection": true, "Te": true, "Trailer": true,
	"Transfer-Encoding": true, "Upgrade": true,
}

func (x *exchange) run(send http.Handler, r *http.Request, logger *slog.Logger) {
	defer close(x.words)
	defer x.WriteHeader(http.StatusOK) // an answer without a body
	x.serve(send, x, r, logger)
	x.resume(send, r, logger)
	if x.events == nil && x.err == nil && x.whole.Len() > 0 {
		x.err = x.give(wordsOf(media.Text(x.whole.Bytes())))
	}
}

// serve has a request answered into w. What ends it too early is in err.
func (x *exchange) serve(send http.Handler, w http.ResponseWriter, r *http.Request, logger *slog.Logger) {
	defer func() {
		// ReverseProxy panics with this where the backend breaks off.
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // a panic's value
				// it ends the request alone, as in a handler
				logger.Error("a translated request panicked", "error", p, "stack", string(debug.Stack()))
			}
			x.err = cmp.Or(x.err, errBroken)
		}
	}()
	send.ServeHTTP(w, r)
}

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

// Unsent implements proxy.Unsent.
func (x *exchange) Unsent(err error) { x.unsent = err }

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

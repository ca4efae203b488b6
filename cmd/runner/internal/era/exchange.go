package era

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
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

	room   room
	begin  sync.Once
	header http.Header
	events *sse.Reader  // of an event stream
	rest   resumption   // of that
	whole  bytes.Buffer // of any other answer
}

// exchange sends a request of ours with the client's own headers. It ends with ctx, not with the client.
func (t *Translator) exchange(
	ctx context.Context, r *http.Request, method string, body *pipeline.Body, header http.Header,
) *exchange {
	call := pipeline.Of(r.Context())
	// The values are the client's connection's; the end of the client is told by ctx alone.
	ctx, cancel := context.WithCancel(joined{ctx, r.Context()})
	x := &exchange{
		ctx: ctx, began: make(chan struct{}), words: make(chan words), header: http.Header{},
		room: room{memory: call.Memory(), who: call.Payer()},
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

// reply is the answer to a request that has one.
type reply struct {
	status  int
	header  http.Header
	message jsonrpc.Message
	said    words  // those that have the message, or none
	id      string // of the session that the answer names
}

// ask sends a request and waits for its answer, whatever else the backend says before. A status without a message is an
// answer.
func (t *Translator) ask(ctx context.Context, r *http.Request, body *pipeline.Body, header http.Header) (reply, error) {
	x := t.exchange(ctx, r, http.MethodPost, body, header)
	defer x.cancel()
	select {
	case <-x.began:
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	a := reply{status: x.status, header: x.answered, id: x.answered.Get(protocol.HeaderSession)}
	for a.said = range heard(ctx, t, nil, x.words) {
		if a.said.err != nil {
			return a, nil
		}
		for _, a.message = range a.said.messages {
			if a.message.Response() {
				return a, nil
			}
			if a.message.Call() {
				t.answerAlone(ctx, r, a, header)
			}
		}
	}
	if ctx.Err() != nil {
		return reply{}, ctx.Err()
	}
	return a, x.err
}

// answerAlone answers a question of the backend's that comes with a request of ours, or on a session's stream, with the
// given headers: there is no client to be asked.
func (t *Translator) answerAlone(ctx context.Context, r *http.Request, asked reply, header http.Header) {
	answer := jsonrpc.Fail(0, protocol.CodeInvalidRequest, "the client cannot be asked now").Response(asked.message.ID)
	if asked.message.Method == "ping" {
		answer = jsonrpc.Result(asked.message.ID, jsontext.Value("{}"))
	}
	if asked.id != "" { // the session begins: it is not in the headers of initialize
		header = header.Clone()
		if header == nil {
			header = http.Header{}
		}
		header.Set(protocol.HeaderSession, asked.id)
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	t.say(ctx, r, pipeline.Made(answer, nil), header)
}

// say sends a message that has no answer, and waits for its end. It passes over what the backend says to it, which may
// be another question. Where it does not arrive, nobody is to be told: what it is about tells how it ends.
func (t *Translator) say(ctx context.Context, r *http.Request, message *pipeline.Body, header http.Header) {
	x := t.exchange(ctx, r, http.MethodPost, message, header)
	defer x.cancel()
	for range heard(ctx, t, nil, x.words) {
	}
}

// refusedError is an answer that is no result.
type refusedError struct {
	reply
}

func (e *refusedError) Error() string {
	if e.message.Error != nil {
		return fmt.Sprintf("the backend answers HTTP %d with %s", e.status, e.message.Error)
	}
	return fmt.Sprintf("the backend answers HTTP %d", e.status)
}

package era

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// reply is the answer to a request that has one.
type reply struct {
	status  int
	header  http.Header
	message jsonrpc.Message
	said    words  // those that have the message, or none
	id      string // of the session that the answer names
	unsent  error  // why nobody has got the request, nil where somebody may have
}

// ask sends a request and waits for its answer, whatever else the backend says before. A status without a message is an
// answer.
func (t *Translator) ask(ctx context.Context, r *http.Request, body *pipeline.Body, header http.Header) (reply, error) {
	x := t.start(ctx, r, http.MethodPost, body, header)
	defer x.cancel()
	select {
	case <-x.began:
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	a := reply{status: x.status, header: x.answered, id: x.answered.Get(protocol.HeaderSession), unsent: x.unsent}
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
	x := t.start(ctx, r, http.MethodPost, message, header)
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

package era

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A legacy server asks its client while a call is on its way; a modern client is told with the call's result what is
// needed, and sends the call again with the answers (MCP specification 2026-07-28, basic/patterns/mrtr). In between the
// call waits here: the answers have to come to the same proxy.

// inputKey is the name of the one question that a call waits with.
const inputKey = "input"

// maxPending is how many calls wait for answers at once.
const maxPending = 256

// mayAsk are the methods whose result may ask the client (schema of revision 2026-07-28: InputRequiredResult is one of
// CallToolResultResponse, GetPromptResultResponse and ReadResourceResultResponse). A client takes that of a list for an
// empty list.
var mayAsk = []string{protocol.MethodCallTool, "prompts/get", "resources/read"}

const tooManyQuestions = "TooManyQuestions: the server has asked in the middle of this call, and too many calls wait " +
	"for answers of " +
	"their clients, of all callers or of this one; this call may have run"

// waiting is a call that waits, under the state that its client sends back.
type waiting struct {
	state    string
	call     *call
	question jsonrpc.Message
	digest   [sha256.Size]byte // of the call, which has to come again
	end      *time.Timer
}

// park keeps a call, and returns the state by which it is found again; "" if there is no room.
func (t *Translator) park(q *waiting) string {
	caller := q.call.held.caller
	leave, err := t.pending.Room(context.Background(), caller)
	if err != nil {
		return ""
	}
	q.state = rand.Text()
	q.end = time.AfterFunc(expire, func() {
		if t.unpark(q.state, q.digest, q.call.profile.caller) == q {
			t.abandon(q.call)
		}
	})
	t.pending.Put(q.state, q, caller, leave)
	return q.state
}

// unpark returns the call that waits under a state, nil if there is none, or if it is another call or another caller's.
func (t *Translator) unpark(state string, digest, caller [sha256.Size]byte) *waiting {
	q, ok := t.pending.Take(state,
		func(q *waiting) bool { return q.digest == digest && q.call.profile.caller == caller })
	if ok {
		q.end.Stop()
	}
	return q
}

// Waiting is how many calls wait for another request of their client.
func (t *Translator) Waiting() int { return t.pending.Len() }

// Waits reports whether a call waits under a state.
func (t *Translator) Waits(state string) bool { return t.pending.Get(state) != nil }

// digest is what makes a call the same as another.
func (c *call) digest() [sha256.Size]byte {
	return sha256.Sum256([]byte(c.method +
		canonical(encoded(without(c.params, "_meta", "inputResponses", "requestState")))))
}

// giveUp ends the calls that wait with a session: a server may end the session only after its questions.
func (t *Translator) giveUp(h *held) {
	var all []*waiting
	t.pending.Each(func(q *waiting) {
		if q.call.held == h {
			all = append(all, q)
		}
	})
	for _, q := range all {
		if t.unpark(q.state, q.digest, q.call.profile.caller) == q {
			t.abandon(q.call)
		}
	}
}

// asked answers a request of the backend's to its client, or has the client answer it. It reports whether the call goes
// on in another request.
func (t *Translator) asked(out *output, c *call, m jsonrpc.Message) (last bool) {
	if m.Method == "ping" {
		t.tell(c, jsonrpc.Result(m.ID, jsontext.Value("{}")))
		return false
	}
	needed := needs(m)
	if needed == nil {
		t.tell(c, jsonrpc.Fail(0, protocol.CodeMethodNotFound, "the client does not know the method %s", m.Method).
			Response(m.ID))
		return false
	}
	if !slices.Contains(mayAsk, c.method) {
		// What a server asks when a session begins comes with whatever is on its way, since a server over stdio does not say
		// why it asks.
		t.tell(c, jsonrpc.Fail(0, protocol.CodeInvalidRequest, "the client cannot be asked in an answer to %s", c.method).
			Response(m.ID))
		return false
	}
	if !declares(c.meta[protocol.MetaCapabilities], needed) {
		t.tell(c, jsonrpc.Fail(0, protocol.CodeInvalidRequest, "the client cannot answer %s", m.Method).Response(m.ID))
		t.abandon(c)
		out.fail(c.id, missing(needed))
		return true
	}
	q, id := &waiting{call: c, question: m, digest: c.digest()}, c.id
	// They come again with the answer; until then the call holds nothing of its request.
	c.id, c.params, c.meta, c.origin = nil, nil, nil, t.bare(c.origin)
	state := t.park(q)
	if state == "" {
		t.tell(c, jsonrpc.Fail(0, protocol.CodeInternal, "too many calls wait for their clients").Response(m.ID))
		t.abandon(c)
		// Not busy: the backend has begun the call, and a client that is told to try again later would have it run twice.
		out.fail(id, jsonrpc.Fail(http.StatusInternalServerError, protocol.CodeInternal, tooManyQuestions))
		return true
	}
	out.end(http.StatusOK, jsonrpc.Result(id, encoded(inputRequired(m.Method, m.Params, state))))
	return true
}

// inputRequired is the result that asks a modern client something.
func inputRequired(method string, params jsontext.Value, state string) map[string]any {
	if params == nil {
		params = jsontext.Value("{}") // the Go SDK 1.8 reads no question without
	}
	question := map[string]any{"method": method, "params": params}
	result := map[string]any{"resultType": "input_required", "inputRequests": map[string]any{inputKey: question}}
	if state != "" {
		result["requestState"] = state
	}
	return result
}

// needs is what a client must be able to do to answer, nil for a request that it cannot have.
func needs(m jsonrpc.Message) map[string]any {
	switch m.Method {
	case "roots/list":
		return map[string]any{"roots": map[string]any{}}
	case "sampling/createMessage":
		return map[string]any{"sampling": map[string]any{}}
	case "elicitation/create":
		if jsonrpc.TextAt(m.Params, "mode") == "url" {
			return urlMode
		}
		return map[string]any{"elicitation": map[string]any{}}
	}
	return nil
}

var urlMode = map[string]any{"elicitation": map[string]any{"url": map[string]any{}}}

// declares reports whether capabilities have what is needed.
func declares(capabilities jsontext.Value, needed map[string]any) bool {
	has := jsonrpc.Members(capabilities)
	for name, inner := range needed {
		if has[name] == nil || has[name].Kind() != '{' || !declares(has[name], inner.(map[string]any)) { //nolint:forcetypeassert // needs above
			return false
		}
	}
	return true
}

func missing(needed map[string]any) *jsonrpc.Fault {
	f := jsonrpc.Fail(http.StatusBadRequest, protocol.CodeMissingCapability,
		"MissingRequiredClientCapability: the server asks its client for more than the request declares")
	f.Data = map[string]any{"requiredCapabilities": needed}
	return f
}

// tell sends an answer of the client's to the backend.
func (t *Translator) tell(c *call, message []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	t.say(ctx, c.origin, pipeline.Made(message, nil), c.held.session.header())
}

// resume goes on with a call that has asked its client something.
func (t *Translator) resume(out *output, r *http.Request, c *call) {
	state, err := c.params.Text("requestState")
	q := t.unpark(state, c.digest(), c.profile.caller)
	if err != nil || q == nil {
		out.fail(c.id, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams,
			"requestState is none of a call that waits here: it has expired, or another proxy holds it; send the call again "+
				"without it"))
		return
	}
	// The old call in the name of the new request.
	old := q.call
	old.id, old.params, old.meta, old.origin = c.id, c.params, c.meta, c.origin
	answer := jsonrpc.At(c.params["inputResponses"], inputKey)
	if answer == nil || answer.Kind() != '{' {
		if t.asked(out, old, q.question) {
			return
		}
	}
	// What the server asks next may come as soon as it has the answer.
	h, leave := t.join(r.Context(), old)
	defer leave()
	t.tell(old, jsonrpc.Result(q.question.ID, answer))
	t.relayModern(out, r, h, words{})
}

// visitURL has the client visit what a server of revision 2025-11-25 wants visited before it takes a call (error
// -32042), and send the call again. It reports whether that is what the error says.
func (t *Translator) visitURL(out *output, c *call, e jsontext.Value) bool {
	var said struct {
		Code int `json:"code"`
		Data struct {
			Elicitations []jsontext.Value `json:"elicitations"`
		} `json:"data"`
	}
	if !slices.Contains(mayAsk, c.method) || json.Unmarshal(e, &said, jsonrpc.Lenient) != nil ||
		said.Code != protocol.CodeURLRequired || len(said.Data.Elicitations) == 0 {
		return false
	}
	if !declares(c.meta[protocol.MetaCapabilities], urlMode) {
		out.fail(c.id, missing(urlMode))
		return true
	}
	out.end(http.StatusOK, jsonrpc.Result(c.id,
		encoded(inputRequired("elicitation/create", said.Data.Elicitations[0], ""))))
	return true
}

package era

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// output is the answer to a client: one JSON message, or a stream of events once there is more than the last to say:
// the first call of event or comment begins it (sse.Writer). That the client has left is told by its context.
type output struct{ stream sse.Writer }

func answerTo(w http.ResponseWriter) *output {
	return &output{sse.Writer{ResponseWriter: w, Time: sendTime}}
}

// event sends a message that is not the last.
func (o *output) event(message []byte) {
	_ = o.stream.Message("", message) //nolint:errcheck // its context tells that the client has left
}

// comment keeps a connection alive on which nothing is said. Errors with a status of their own have come by then: a
// stream has none.
func (o *output) comment() {
	_ = o.stream.Comment() //nolint:errcheck // its context tells that the client has left
}

// sendTime is how long a client may take to read an answer that takes room until it is sent.
func sendTime(size int) time.Duration {
	if size <= budget.Long {
		return 0
	}
	return 15*time.Second + time.Duration(size>>20)*time.Second
}

// end sends the last message.
func (o *output) end(status int, message []byte) {
	if o.stream.Begun {
		o.event(message)
		return
	}
	defer o.stream.Hurry(len(message))()
	jsonrpc.Write(o.stream.ResponseWriter, status, message)
}

func (o *output) fail(id jsontext.Value, f *jsonrpc.Fault) {
	f.Head(o.stream.Header())
	o.end(f.Status, f.Response(id))
}

// cut answers a call that the proxy ends, whose context has a *jsonrpc.Fault for its cause. A client that has left
// hears nothing.
func (o *output) cut(ctx context.Context, id jsontext.Value) {
	if why, ok := errors.AsType[*jsonrpc.Fault](context.Cause(ctx)); ok {
		o.fail(id, why)
		_ = http.NewResponseController(o.stream.ResponseWriter).Flush() //nolint:errcheck // the backend may yet have to be told
	}
}

// busy tells a client to try again later. Nothing has run.
func (o *output) busy(id jsontext.Value, message string) {
	o.fail(id, &jsonrpc.Fault{
		Status: http.StatusServiceUnavailable, Code: protocol.CodeInternal, Message: message, Retry: 1,
	})
}

// ReasonNotMCP is the reason in the data of an error that says that the backend's answer is none.
const ReasonNotMCP = "NotMCP"

// relayed passes on an answer that is no result: the backend's, or the proxy's own where there is none.
func (o *output) relayed(id jsontext.Value, a reply) {
	if values := a.header.Values("Retry-After"); len(values) > 0 && !o.stream.Begun {
		o.stream.Header()["Retry-After"] = values
	}
	switch {
	case a.message.Error != nil:
		o.fail(id, modernError(a.status, a.message.Error))
	case a.status >= http.StatusBadRequest:
		o.fail(id, jsonrpc.Fail(a.status, protocol.CodeInternal, "the backend answers HTTP %d", a.status))
	default:
		o.fail(id, jsonrpc.Fail(http.StatusBadGateway, protocol.CodeInternal,
			"the backend's answer is not one to this request").
			Because(ReasonNotMCP, fmt.Sprintf("HTTP %d, %s", a.status, cmp.Or(media.Type(a.header), "of no type"))))
	}
}

// unread answers a call whose answer is no JSON-RPC: with the status of HTTP where that tells of an error, as one of a
// gateway.
func (o *output) unread(id jsontext.Value, x *exchange) {
	if x.status >= http.StatusBadRequest {
		o.relayed(id, reply{status: x.status, header: x.answered})
		return
	}
	o.fail(id, unreadable())
}

// unanswered answers a call whose exchange has ended without an answer to it.
func (o *output) unanswered(id jsontext.Value, x *exchange) {
	if x.err != nil {
		o.fail(id, jsonrpc.Fail(http.StatusBadGateway, protocol.CodeInternal, "%v; the call may have run", x.err))
		return
	}
	o.relayed(id, reply{status: x.status, header: x.answered})
}

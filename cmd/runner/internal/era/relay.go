package era

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// output is the answer to a client: one JSON message, or a stream of them once there is more than the last to say.
type output struct {
	w         http.ResponseWriter
	streaming bool
}

func (o *output) begin() {
	if o.streaming {
		return
	}
	o.streaming = true
	header := o.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
	o.w.WriteHeader(http.StatusOK)
}

// event sends a message that is not the last.
func (o *output) event(message []byte) {
	o.begin()
	if len(message) <= budget.Long || bytes.ContainsAny(message, "\r\n") {
		o.write(sse.Message(message))
		return
	}
	o.write([]byte(sse.Before), message, []byte(sse.After))
}

// comment keeps a connection alive on which nothing is said. Errors with a status of their own have come by then: a
// stream has none.
func (o *output) comment() {
	o.begin()
	o.write([]byte(sse.Alive))
}

func (o *output) write(parts ...[]byte) {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	defer o.hurry(size)()
	for _, part := range parts {
		if _, err := o.w.Write(part); err != nil {
			return // that the client has left is told by its context
		}
	}
	o.flush()
}

// hurry bounds the time in which a client reads what takes room until it is sent. done takes the bound back.
func (o *output) hurry(size int) (done func()) {
	if size <= budget.Long {
		return func() {}
	}
	control := http.NewResponseController(o.w)
	_ = control.SetWriteDeadline(time.Now().Add(sendTime + time.Duration(size>>20)*time.Second)) //nolint:errcheck // only recorders have none
	return func() { _ = control.SetWriteDeadline(time.Time{}) }                                  //nolint:errcheck // as above
}

// sendTime is how long a client may take to read an answer that takes room, and a second more for each MiB.
const sendTime = 15 * time.Second

func (o *output) flush() {
	_ = http.NewResponseController(o.w).Flush() //nolint:errcheck // as above
}

// end sends the last message.
func (o *output) end(status int, message []byte) {
	if o.streaming {
		o.event(message)
		return
	}
	defer o.hurry(len(message))()
	jsonrpc.Write(o.w, status, message)
}

func (o *output) fail(id jsontext.Value, f *jsonrpc.Fault) { o.end(f.Status, f.Response(id)) }

// cut answers a call that the proxy ends, whose context has a *jsonrpc.Fault for its cause. A client that has left
// hears nothing.
func (o *output) cut(ctx context.Context, id jsontext.Value) {
	if why, ok := errors.AsType[*jsonrpc.Fault](context.Cause(ctx)); ok {
		o.fail(id, why)
		o.flush() // the backend may yet have to be told
	}
}

// busy tells a client to try again later. Nothing has run.
func (o *output) busy(id jsontext.Value, message string) {
	o.w.Header().Set("Retry-After", "1")
	o.fail(id, jsonrpc.Fail(http.StatusServiceUnavailable, protocol.CodeInternal, "%s", message))
}

// relayed passes on an answer that is no result: the backend's, or the proxy's own where there is none.
func (o *output) relayed(id jsontext.Value, a reply) {
	if values := a.header.Values("Retry-After"); len(values) > 0 && !o.streaming {
		o.w.Header()["Retry-After"] = values
	}
	switch {
	case a.message.Error != nil:
		o.fail(id, modernError(a.status, a.message.Error))
	case a.status >= http.StatusBadRequest:
		o.fail(id, jsonrpc.Fail(a.status, protocol.CodeInternal, "the backend answers HTTP %d", a.status))
	default:
		o.fail(id, jsonrpc.Fail(http.StatusBadGateway, protocol.CodeInternal,
			"the backend's answer is not one to this request"))
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

// relay passes on what the backend says about a call, until it is answered, it asks its client something, or the client
// leaves. first are those words that have been read already.
func (t *Translator) relay(out *output, r *http.Request, h *hearing, first words) {
	c, over := h.call, false
	if first.text != nil && t.saidIn(out, c, first) {
		return
	}
	for said := range heardBeside(r.Context(), t, out, c.exchange.words, h.said, func(m jsonrpc.Message) bool {
		over = t.said(out, c, m)
		return over
	}) {
		if t.saidIn(out, c, said) {
			return
		}
	}
	switch {
	case over:
	case r.Context().Err() != nil:
		out.cut(r.Context(), c.id)
		t.abandon(c)
	default:
		t.done(c)
		out.unanswered(c.id, c.exchange)
	}
}

// saidIn passes on words of the backend's, and reports whether they have the last message.
func (t *Translator) saidIn(out *output, c *call, said words) (last bool) {
	if said.err != nil {
		t.abandon(c)
		out.unread(c.id, c.exchange)
		return true
	}
	return slices.ContainsFunc(said.messages, func(m jsonrpc.Message) bool { return t.said(out, c, m) })
}

// heard is what comes over a channel until it is closed, or ctx ends. In between the client is told that its answer is
// on its way.
func heard[T any](ctx context.Context, t *Translator, out *output, from <-chan T) iter.Seq[T] {
	return heardBeside(ctx, t, out, from, nil, nil)
}

// heardBeside is heard, and has said told what comes over another channel, until said reports that it was the last.
func heardBeside[T any](
	ctx context.Context, t *Translator, out *output, from <-chan T, beside <-chan jsonrpc.Message,
	said func(jsonrpc.Message) (last bool),
) iter.Seq[T] {
	return func(yield func(T) bool) {
		alive := time.NewTicker(t.config.KeepAlive)
		defer alive.Stop()
		for {
			select {
			case <-alive.C:
				out.comment()
			case one, more := <-from:
				if !more || !yield(one) {
					return
				}
			case m := <-beside:
				if said(m) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// done gives back what a call had.
func (t *Translator) done(c *call) {
	c.exchange.cancel()
	t.sessions.put(c.held)
}

// said passes a message of the backend's on, and reports whether it was the last.
func (t *Translator) said(out *output, c *call, m jsonrpc.Message) (last bool) {
	switch {
	case m.Result != nil && answers(m, c.sent):
		defer t.done(c) // what the answer takes is the exchange's until it is sent
		out.end(http.StatusOK, response(c.id,
			joinedMembers(modernResult(c.method, jsonrpc.Members(m.Result), c.held.session.server()))))
		return true
	case m.Error != nil && answers(m, c.sent):
		defer t.done(c)
		if !t.visitURL(out, c, m.Error) {
			out.relayed(c.id, reply{status: c.exchange.status, header: c.exchange.answered, message: m})
		}
		return true
	case m.Response():
		return false
	case m.Identified():
		return t.asked(out, c, m)
	}
	if t.listeners.tell(c.profile, m) {
		return false
	}
	if params, ok := c.notified(m); ok {
		out.event(notification(m.Method, params))
	}
	return false
}

// levels are those of logging, the least first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// notified are the parameters of a notification for the client. On the stream of a request the modern era has only
// those that relate to it, and of log messages only what the request asked for.
func (c *call) notified(m jsonrpc.Message) (jsonrpc.Object, bool) {
	params := jsonrpc.Members(m.Params)
	switch m.Method {
	case "notifications/progress":
		token := c.meta[protocol.MetaProgress]
		if token == nil || !c.progresses(m.Params) {
			return nil, false
		}
		return with(params, jsonrpc.Object{protocol.MetaProgress: token}), true
	case "notifications/message":
		var level string
		if c.profile.level == "" || json.Unmarshal(orNull(params["level"]), &level) != nil {
			return nil, false
		}
		return params, slices.Index(levels, level) >= slices.Index(levels, c.profile.level)
	}
	return nil, false
}

package era

import (
	"context"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// outcome is how the relay of a call has ended.
type outcome int

const (
	gotAnswer    outcome = iota
	gotNone              // the backend's answer, without one to the call
	stoppedEarly         // the backend's answer may go on
)

// relay has each message of the backend's said, until one was the last, or the client leaves. Where none was the client
// is told why. first are those words that have been read already, and beside has messages from elsewhere.
func (t *Translator) relay(
	ctx context.Context, out *output, id jsontext.Value, x *exchange, first words, beside <-chan jsonrpc.Message,
	said func(jsonrpc.Message) (last bool),
) outcome {
	over, unread := false, false
	last := func(m jsonrpc.Message) bool {
		over = said(m)
		return over
	}
	lastOf := func(all words) bool {
		unread = all.err != nil
		return unread || slices.ContainsFunc(all.messages, last)
	}
	if first.text == nil || !lastOf(first) {
		for all := range heardBeside(ctx, t, out, x.words, beside, last) {
			if lastOf(all) {
				break
			}
		}
	}
	switch {
	case over:
		return gotAnswer
	case unread:
		out.unread(id, x)
		return stoppedEarly
	case ctx.Err() != nil:
		out.cut(ctx, id)
		return stoppedEarly
	}
	out.unanswered(id, x)
	return gotNone
}

// relayModern passes on what a legacy backend says about a call, until it is answered, or asks its client something.
func (t *Translator) relayModern(out *output, r *http.Request, h *hearing, first words) {
	c := h.call
	switch t.relay(r.Context(), out, c.id, c.exchange, first, h.said,
		func(m jsonrpc.Message) bool { return t.said(out, c, m) }) {
	case gotAnswer:
	case gotNone:
		t.done(c)
	case stoppedEarly:
		t.abandon(c)
	}
}

// heard is what comes over a channel until it is closed, or ctx ends. In between the client, if there is one, is told
// that its answer is on its way.
func heard[T any](ctx context.Context, t *Translator, out *output, from <-chan T) iter.Seq[T] {
	return heardBeside(ctx, t, out, from, nil, nil)
}

// heardBeside is heard, and has said told what comes over another channel, until said reports that it was the last.
func heardBeside[T any](
	ctx context.Context, t *Translator, out *output, from <-chan T, beside <-chan jsonrpc.Message,
	said func(jsonrpc.Message) (last bool),
) iter.Seq[T] {
	return func(yield func(T) bool) {
		var alive <-chan time.Time
		if out != nil {
			ticker := time.NewTicker(t.config.KeepAlive)
			defer ticker.Stop()
			alive = ticker.C
		}
		for {
			select {
			case <-alive:
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
		out.end(http.StatusOK, jsonrpc.Result(c.id,
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

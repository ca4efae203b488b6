package era

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/headers"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// translated are the methods of the modern era that a legacy backend has too.
var translated = []string{
	"tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "resources/templates/list",
	"resources/read",
	"completion/complete",
}

// unknown reports whether the modern era lacks a method, or the translator does not serve it.
func unknown(method string) bool {
	return method != protocol.MethodDiscover && method != protocol.MethodListen && !slices.Contains(translated, method)
}

// call is one call of a modern client on its way.
type call struct {
	id      jsontext.Value // the client's
	method  string
	params  jsonrpc.Object
	meta    jsonrpc.Object
	profile profile
	origin  *http.Request // by which it is sent

	held     *held
	exchange *exchange
	sent     int64 // the id that the backend knows
}

// serveModern serves a client of the modern era from a legacy backend.
func (t *Translator) serveModern(w http.ResponseWriter, r *http.Request, m jsonrpc.Message) {
	out := answerTo(w)
	if !m.Identified() {
		// The era has no notifications of clients over HTTP; whoever sends one expects no more.
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if refused := headers.Valid(r.Header, m, unknown, []string{protocol.Modern, protocol.Legacy}); refused != nil {
		out.fail(m.ID, refused)
		return
	}
	params := jsonrpc.Members(m.Params)
	meta := jsonrpc.Members(params["_meta"])
	c := &call{id: m.ID, method: m.Method, params: params, meta: meta, profile: t.profile(r, meta), origin: r}
	switch {
	case c.profile.size()+t.kept(r) > maxProfile:
		out.fail(c.id, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams,
			"clientInfo, clientCapabilities and logLevel in _meta, and the query and the API keys, are longer than 16 KiB"))
	case m.Method == protocol.MethodDiscover:
		t.discover(out, r, c)
	case m.Method == protocol.MethodListen:
		t.listen(out, r, c)
	case m.Method == protocol.MethodCallTool && !t.repeated(out, r, c):
	case params["requestState"] != nil:
		t.resume(out, r, c)
	default:
		t.call(out, r, c)
	}
}

// repeated reports whether the headers Mcp-Param-* of a call of a tool repeat its arguments. If they do not it answers
// the call.
func (t *Translator) repeated(out *output, r *http.Request, c *call) bool {
	h, err := t.sessions.get(r.Context(), r, c.profile)
	if err != nil {
		t.refuse(out, r, c, err)
		return false
	}
	defer t.sessions.put(h)
	name, _ := c.params.Text("name") //nolint:errcheck // it is that of a header
	err = h.session.tools.Check(r.Context(), r.Header, name, c.params["arguments"],
		func(ctx context.Context, cursor jsontext.Value) (jsontext.Value, error) {
			return result(t.ask(ctx, c.origin, request(t.newID(), protocol.MethodListTools, page(cursor)), h.session.header()))
		})
	if r.Context().Err() != nil {
		out.cut(r.Context(), c.id)
		return false
	}
	if err != nil {
		out.fail(c.id, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeHeaderMismatch, "HeaderMismatch: %v", err))
	}
	return err == nil
}

func (t *Translator) profile(r *http.Request, meta jsonrpc.Object) profile {
	level, err := meta.Text(protocol.MetaLevel)
	if err != nil {
		level = ""
	}
	caller := sha256.Sum256([]byte(t.config.Caller(r)))
	return profile{
		caller: caller, client: canonical(meta[protocol.MetaClient]),
		capabilities: canonical(meta[protocol.MetaCapabilities]), level: level,
	}
}

func canonical(v jsontext.Value) string {
	v = v.Clone()
	if v == nil || v.Canonicalize() != nil {
		return ""
	}
	return string(v)
}

// discover answers from what the backend said when a session began that it still knows.
func (t *Translator) discover(out *output, r *http.Request, c *call) {
	h, err := t.current(r, c.profile)
	if err != nil {
		t.refuse(out, r, c, err)
		return
	}
	defer t.sessions.put(h)
	result := jsonrpc.Object{
		"supportedVersions": encoded([]string{protocol.Modern, h.session.version}),
		"capabilities":      modernCapabilities(h.session.hello["capabilities"]),
	}
	if words := h.session.hello["instructions"]; words != nil {
		result["instructions"] = words
	}
	out.end(http.StatusOK, jsonrpc.Result(c.id, encoded(modernResult(c.method, result, h.session.server()))))
}

// current returns the session for a profile, which the caller has to give back. It begins a new one where the backend
// refuses a ping in the one that is held, and where the backend has no sessions, which cannot tell that another server
// is there since.
func (t *Translator) current(r *http.Request, p profile) (*held, error) {
	before := t.sessions.table.Get(p) != nil
	h, err := t.sessions.get(r.Context(), r, p)
	if err != nil || !before {
		return h, err
	}
	if h.session.id != "" {
		ctx, cancel := context.WithTimeout(r.Context(), probeTime)
		defer cancel()
		answer, err := t.ask(ctx, r, request(t.newID(), "ping", jsonrpc.Object{}), h.session.header())
		switch {
		case t.config.Own(r) && r.Context().Err() == nil && err == nil && answer.status < http.StatusBadRequest &&
			!answer.message.Response():
			// The runner asks for that answer. Clients go on: their next call tells.
			t.sessions.put(h)
			return nil, &refusedError{answer}
		case err != nil || answer.status < http.StatusBadRequest:
			return h, nil
		case inconclusive(answer.status):
			t.sessions.put(h)
			return nil, &refusedError{answer}
		}
	}
	t.sessions.drop(p, h)
	t.sessions.put(h)
	return t.sessions.get(r.Context(), r, p)
}

// call sends a call over a session, and once more over a new one if the backend does not know the session: then it has
// not run.
func (t *Translator) call(out *output, r *http.Request, c *call) {
	for attempt := 1; ; attempt++ {
		h, err := t.sessions.get(r.Context(), r, c.profile)
		if err != nil {
			t.refuse(out, r, c, err)
			return
		}
		c.held, c.sent = h, t.newID()
		if !t.sent(out, r, c, attempt) {
			return
		}
		c.exchange.cancel()
		t.sessions.drop(c.profile, h)
		t.sessions.put(h)
		if attempt > 1 {
			out.fail(c.id, jsonrpc.Fail(http.StatusBadGateway, protocol.CodeInternal,
				"the backend does not know the session that it began a moment ago (HTTP 404)"))
			return
		}
	}
}

// sent sends a call over its session, and passes on what comes of it. It reports whether the backend does not know the
// session: then nobody has been told anything.
func (t *Translator) sent(out *output, r *http.Request, c *call, attempt int) (lost bool) {
	hears, leave := t.join(r.Context(), c)
	defer leave()
	// A call that asks its client something goes on when the client has been answered: it ends by itself.
	c.exchange = t.start(context.Background(), c.origin, http.MethodPost, request(c.sent, c.method, c.legacyParams()),
		c.held.session.header())
	over := false
	for range heardBeside(r.Context(), t, out, c.exchange.began, hears.said, func(m jsonrpc.Message) bool {
		over = t.said(out, c, m)
		return over
	}) {
	}
	switch {
	case over:
		return false
	case r.Context().Err() != nil:
		out.cut(r.Context(), c.id)
		t.abandon(c)
		return false
	}
	lost, first := t.lost(r.Context(), c, attempt)
	if !lost {
		t.relayModern(out, r, hears, first)
	}
	return lost
}

// lost reports whether the backend has refused a call because it does not know the session any more, and returns what
// of its answer has been read. HTTP 404 says so (MCP specification 2025-11-25, basic/transports, session management).
// Servers that were written after the examples of the TypeScript SDK say 400, as they do for much else: there a ping
// tells. If the session has it refused with the same error, the error is the session's, and not the call's.
func (t *Translator) lost(ctx context.Context, c *call, attempt int) (lost bool, first words) {
	x, s := c.exchange, c.held.session
	switch {
	case s.id == "":
		return false, first
	case x.status == http.StatusNotFound:
		return true, first
	case x.status < http.StatusBadRequest || inconclusive(x.status) || attempt > 1:
		return false, first
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	select {
	case first = <-x.words:
	case <-ctx.Done():
		return false, first
	}
	answer, err := t.ask(ctx, c.origin, request(t.newID(), "ping", jsonrpc.Object{}), s.header())
	return err == nil && answer.status == x.status && sameRefusal(first, answer.said), first
}

// sameRefusal reports whether two texts refuse two requests with the same words.
func sameRefusal(a, b words) bool {
	if len(a.messages) == 0 || len(b.messages) == 0 {
		return string(a.text) == string(b.text)
	}
	one, other := a.messages[0], b.messages[0]
	return one.Result == nil && other.Result == nil && canonical(one.Error) == canonical(other.Error)
}

// legacyParams are a call's parameters as a legacy backend knows them. Its progress token is ours: two clients of one
// session may have the same.
func (c *call) legacyParams() jsonrpc.Object {
	params := without(c.params, "_meta", "inputResponses", "requestState")
	meta := without(c.meta, protocol.MetaVersion, protocol.MetaClient, protocol.MetaCapabilities, protocol.MetaLevel)
	if meta[protocol.MetaProgress] != nil {
		meta[protocol.MetaProgress] = encoded(c.sent)
	}
	if len(meta) > 0 {
		params["_meta"] = encoded(meta)
	}
	return params
}

// abandon ends a call for which nobody waits. In the legacy era that has to be said
// (MCP specification 2025-11-25, basic/utilities/cancellation). It is said once the request is over, which may wait for
// a connection until now: a server that hears of the cancellation first ignores it, and runs the call.
func (t *Translator) abandon(c *call) {
	defer t.sessions.put(c.held)
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	c.exchange.cancel()
	for range heard(ctx, t, nil, c.exchange.words) {
	}
	t.say(ctx, c.origin, pipeline.Made(notification("notifications/cancelled", jsonrpc.Object{
		"requestId": encoded(c.sent), "reason": encoded("the client has left, or is told that the proxy ends"),
	}), nil), c.held.session.header())
}

// refuse answers a call for which there is no session.
func (t *Translator) refuse(out *output, r *http.Request, c *call, err error) {
	var refused *refusedError
	switch {
	case r.Context().Err() != nil:
		out.cut(r.Context(), c.id)
	case errors.Is(err, errSessions):
		out.busy(c.id, "TooManySessions: "+err.Error())
	case errors.As(err, &refused):
		if !inconclusive(refused.status) {
			t.forget() // it is not the legacy backend that it was
		}
		out.relayed(c.id, refused.reply)
	default:
		out.fail(c.id, jsonrpc.Fail(http.StatusBadGateway, protocol.CodeInternal, "the backend does not begin a session: %v",
			err))
	}
}

// expire ends what no client has come back for.
const expire = 5 * time.Minute

// Package cedar lets a call of MCP through if Cedar policies permit it, and
// takes out of lists what the caller may not use. Whatever it cannot read, it
// refuses. Read New first.
package cedar

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/sync/semaphore"

	"github.com/freehold-dev/freehold/cmd/runner/internal/headers"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// Config is how calls are judged.
type Config struct {
	Policies *authz.Policies
	// Refuse answers a request that is not passed on to next.
	Refuse func(w http.ResponseWriter, r *http.Request, next http.Handler, refusal Refusal)
	// Audit receives a line for each decision; nil for none.
	Audit *slog.Logger
}

// Reason is why a request is not passed on.
type Reason int

// The reasons.
const (
	// NotPermitted: the policies do not permit the call.
	NotPermitted Reason = iota
	// Unclear: the arguments of the call can be read in several ways, or are too many to be judged.
	Unclear
	// NotReadable: the body is no message of MCP that can be judged.
	NotReadable
	// HeaderMismatch: headers and body name different calls (MCP specification
	// 2026-07-28, error -32020).
	HeaderMismatch
	// NotFilterable: the backend's answer to a list cannot be read.
	NotFilterable
	// NotFound: revision 2026-07-28, which the request names, does not have the method. There a server that does not have
	// one answers -32601 with HTTP 404 (basic/transports/streamable-http, protocol version header).
	NotFound
)

// Refusal is a request that is not passed on.
type Refusal struct {
	Reason Reason
	// ID of the message; nil if it is not known or was one of several.
	ID jsontext.Value
	// Message says what is refused, why, and what to do about it. It is short, since each call of a batch is answered with
	// it.
	Message string
}

// New is the stage that judges what goes to the next handler.
func New(config Config) pipeline.Stage {
	return func(next http.Handler) http.Handler {
		return &judge{
			config: config, next: next,
			lists: share.New(largeAnswers, share.Half(largeAnswers)), sends: semaphore.NewWeighted(largeSends),
			callers: share.New(largeAnswers+largeSends, largeEach),
		}
	}
}

type judge struct {
	config Config
	next   http.Handler
	// lists has room for answers that are filtered, sends for those that are sent.
	lists *share.Places
	sends *semaphore.Weighted
	// callers bounds the large answers of one caller, filtered or sent.
	callers *share.Places
}

// smallBody is the longest answer to a list, in bytes, that waits for no other.
const smallBody = 64 << 10

// ServeHTTP implements http.Handler.
func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		j.post(w, r)
	case http.MethodGet:
		// A stream that is resumed replays answers to lists.
		j.filtered(w, r, listing{})
	default:
		j.next.ServeHTTP(w, r)
	}
}

func (j *judge) post(w http.ResponseWriter, r *http.Request) {
	if err := readable(r.Header); err != nil {
		j.audit(r, decided{detail: "headers tell of another body"})
		j.config.Refuse(w, r, j.next, Refusal{Reason: NotReadable, Message: err.Error()})
		return
	}
	call := pipeline.Of(r.Context())
	messages, batch, malformed, err := call.Read(w, r)
	switch {
	case err != nil:
		if _, long := errors.AsType[*http.MaxBytesError](err); long {
			j.audit(r, decided{detail: "the body is too long"})
		}
		return
	case malformed != nil:
		j.audit(r, decided{detail: "the body is no message"})
		j.config.Refuse(w, r, j.next, Refusal{Reason: NotReadable, Message: malformed.Error()})
		return
	}
	refusal, list, err := j.verdict(r, messages, batch)
	switch {
	case err != nil:
		call.Fail(w, r, err)
		return
	case refusal != nil:
		j.config.Refuse(w, r, j.next, *refusal)
		return
	}
	if list.method != "" {
		j.filtered(w, r, list)
		return
	}
	j.next.ServeHTTP(w, r)
}

// listing is a request whose answer holds a list: of a batch the last, without its id. The zero value is that of a
// stream which is resumed.
type listing struct {
	method string
	id     jsontext.Value
}

// verdict returns why messages are refused, nil if they are not, and what asks for a list. The error is that of a
// caller who does not wait.
func (j *judge) verdict(
	r *http.Request, messages []jsonrpc.Message, batch bool,
) (refusal *Refusal, list listing, err error) {
	done, err := pipeline.Of(r.Context()).Body.Turn(r.Context())
	if err != nil {
		return nil, listing{}, err
	}
	defer done()
	for _, m := range messages {
		if err := r.Context().Err(); err != nil {
			return nil, listing{}, err // nobody waits for the rest
		}
		refusal, lists := j.judge(r, m, batch)
		if refusal != nil {
			return refusal, listing{}, nil
		}
		if lists {
			list = listing{method: m.Method}
		}
		if lists && !batch {
			list.id = m.ID.Clone() // the body is let go before
		}
	}
	return nil, list, nil
}

// judge returns why a message is refused, nil if it is not, and whether its
// answer is a list.
func (j *judge) judge(r *http.Request, m jsonrpc.Message, batch bool) (*Refusal, bool) {
	d := decided{method: m.Method, began: time.Now()}
	refuse := func(reason Reason, why, message string) (*Refusal, bool) {
		d.detail = why
		j.audit(r, d)
		refusal := &Refusal{Reason: reason, ID: m.ID, Message: message}
		if batch {
			refusal.ID = nil
		}
		return refusal, false
	}
	if m.Response() {
		if err := answers(r.Header); err != nil {
			return refuse(NotReadable, "an answer to nothing", err.Error())
		}
		return nil, false
	}
	rule, known := rules[m.Method]
	if (!known || rule.legacy) && jsonrpc.Modern(r.Header, m) {
		return refuse(NotFound, "an unknown method",
			"revision "+protocol.Modern+" does not have the method "+authz.Shown(m.Method))
	}
	if !known {
		return refuse(NotPermitted, "an unknown method",
			"no policy can permit the method "+authz.Shown(m.Method)+", which this proxy does not know")
	}
	var calls []authz.Call
	if rule.calls != nil {
		var err error
		if calls, err = rule.calls(orEmpty(m.Params)); err != nil {
			return refuse(NotReadable, "the parameters cannot be read", m.Method+": "+err.Error())
		}
	}
	name := ""
	if len(calls) > 0 {
		name = calls[0].ID
	}
	if err := headers.Agree(r.Header, m.Method, name, true); err != nil {
		return refuse(HeaderMismatch, "headers name another call", err.Error())
	}
	caller := callerOf(r)
	for _, call := range calls {
		decision := j.config.Policies.Decide(caller, call)
		// A list that nothing permits is a list of what its caller may use.
		if rule.lists {
			decision.Allowed = len(decision.Policies) == 0 || decision.Allowed
		}
		d.name, d.Decision = call.ID, decision
		if decision.Unclear != "" {
			return refuse(Unclear, "the arguments can be read in several ways", m.Method+": "+decision.Unclear)
		}
		if !decision.Allowed {
			return refuse(NotPermitted, "", because(caller, call, decision))
		}
		j.audit(r, d)
	}
	return nil, rule.lists
}

// callerOf is whom policies know as the sender of a request.
func callerOf(r *http.Request) authz.Caller {
	if caller := pipeline.Of(r.Context()).Caller(); caller.Subject != "" {
		return caller
	}
	return authz.Caller{Subject: authz.Anonymous}
}

func orEmpty(params jsontext.Value) jsontext.Value {
	if params == nil {
		return jsontext.Value("{}")
	}
	return params
}

func because(caller authz.Caller, call authz.Call, d authz.Decision) string {
	what := `Client::"` + authz.Shown(caller.Subject) + `" may not ` + strings.ReplaceAll(call.Action, "_", " ") + ` "` +
		authz.Shown(call.ID) + `": `
	why := "no policy permits it"
	if len(d.Policies) > 0 {
		why = "forbidden by policy " + strings.Join(d.Policies, ", ")
	}
	return what + why + ". To repeat the call does not help: the server's owner can permit it in spec.authzConfig, or " +
		"in the MCPAuthzConfig that spec.authzConfigRef names"
}

// filtered passes a request on whose answers may hold lists, for which it asked with
// list. The backend must not compress them.
func (j *judge) filtered(w http.ResponseWriter, r *http.Request, list listing) {
	media.Unencoded(r.Header)
	a := &answer{
		ResponseWriter: w, judge: j, ctx: r.Context(), caller: callerOf(r), call: pipeline.Of(r.Context()),
		listing: list,
	}
	// ReverseProxy panics where the backend breaks off.
	defer a.part()
	j.next.ServeHTTP(a, r)
	a.end()
}

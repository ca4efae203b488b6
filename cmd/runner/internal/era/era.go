// Package era lets clients of one era of MCP use a backend of the other (MCP specification 2026-07-28,
// basic/versioning). The legacy era, up to revision 2025-11-25, begins with initialize and has sessions; in the modern
// era, from revision 2026-07-28 on, each request stands for itself.
//
// Read Translator.ServeHTTP first; docs/maintainers/call.md follows a call of each era.
//
// Policies stand in front of this package: they judge what the client sent, and filter what the client gets. A call is
// sent to the backend a second time only where the first answer says that it was not taken (HTTP 404 for a session,
// HeaderMismatch, a revision that a pod does not speak).
package era

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/headers"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/kept"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// smallBody is the longest body of a subscription, in bytes, which may stay for long.
const smallBody = 64 << 10

// DefaultKeepAlive is shorter than what load balancers wait for the next byte of an answer.
const DefaultKeepAlive = 15 * time.Second

// BridgePatience is how long a bridge may take for an answer, which starts its server first. It is longer than the
// bridge itself waits, as its clients do.
const BridgePatience = 65 * time.Second

// Config is how requests are translated.
type Config struct {
	// Caller tells callers apart: two requests share a session with the backend only if it is the same for both. It covers
	// every header and the query by which the backend may let somebody in.
	Caller func(*http.Request) string
	// Credential reports whether a header of this name is one by which the backend may let somebody in: no other goes out
	// with the question which eras the backend speaks. Nil is none.
	Credential func(name string) bool
	// KeepAlive is how often a stream says that it is there while it has nothing to say: DefaultKeepAlive if zero.
	KeepAlive time.Duration
	// Content names what all pods of the backend run, or is Mixed. What one content speaks is not known of the next. Nil
	// is always the same.
	Content func() string
	// Own reports whether a request is the process's own: for one of those it is not asked anew which eras the backend
	// speaks, which would begin a session at a backend that nobody uses. Nil is never.
	Own func(*http.Request) bool
	// ProbeTime is how long the backend may take to tell which eras it speaks: ten seconds if zero.
	ProbeTime time.Duration
	// Running are the calls that legacy clients may cancel. Nil has the translator keep its own.
	Running *Running
	// Log receives what was found of the backend.
	Log *slog.Logger
}

// Translator stands in front of a backend. Make it with New.
type Translator struct {
	config Config
	next   http.Handler // requests as they are, to where the backend answers
	send   http.Handler // requests of our own (start), which go on at the same stage as those

	state     atomic.Pointer[found]
	questions *share.Places // of those which eras the backend speaks: one of a payer at a time
	denials   denials
	listens   *share.Places
	listeners listeners
	sessions  heldSessions
	pending   *kept.Table[string, *waiting]
	ids       atomic.Int64
	headers   headers.Tools // of a modern backend
}

// New makes a translator. A request that needs no translation goes to next as it is. The translator's own requests go
// to send, which must not read their context's values of the client's connection.
func New(config Config, next, send http.Handler) *Translator {
	config.KeepAlive = cmp.Or(config.KeepAlive, DefaultKeepAlive)
	config.Running = cmp.Or(config.Running, new(Running))
	if config.Content == nil {
		config.Content = func() string { return "" }
	}
	if config.Own == nil {
		config.Own = func(*http.Request) bool { return false }
	}
	if config.Credential == nil {
		config.Credential = func(string) bool { return false }
	}
	t := &Translator{
		config: config, send: send,
		listens: share.New(maxListens, share.Half(maxListens)), questions: share.New(maxQuestions, 1),
	}
	t.next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, t.at(r)) })
	t.sessions.translator = t
	t.sessions.table = kept.New[profile](maxSessions, kept.Use[*held]{Idle: (*held).idle, End: t.sessions.end})
	t.pending = kept.New[string](maxPending, kept.Use[*waiting]{
		Idle: func(*waiting) (time.Time, bool) { return time.Time{}, false }, // none makes room for another
	})
	return t
}

// ServeHTTP implements http.Handler.
func (t *Translator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	speaks, content := t.state.Load(), t.config.Content()
	if speaks != nil && speaks.both() && speaks.current(time.Now(), content) && speaks.allSpeak(content) &&
		t.config.Running.count.Load() == 0 {
		t.next.ServeHTTP(w, r)
		return
	}
	switch {
	case r.Method == http.MethodPost && (r.Header.Get(protocol.HeaderSession) == "" || jsonrpc.NamesModern(r.Header)):
		t.post(w, r)
	case speaks.of(content) && !speaks.legacy && (r.Method == http.MethodGet || r.Method == http.MethodDelete):
		// Sessions and streams of their own are what this backend does not have.
		w.Header().Set("Allow", http.MethodPost)
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		t.next.ServeHTTP(w, r)
	}
}

// post passes a message on, or translates it.
func (t *Translator) post(w http.ResponseWriter, r *http.Request) {
	call := pipeline.Of(r.Context())
	messages, batch, malformed, err := call.Read(w, r)
	if err != nil {
		return
	}
	if malformed != nil || batch || messages[0].Method == "" {
		t.next.ServeHTTP(w, r) // the backend's to refuse, in its own way
		return
	}
	m := messages[0]
	if m.Method == protocol.MethodListen && call.Body.Size() > smallBody {
		answerTo(w).fail(m.ID, jsonrpc.Fail(http.StatusRequestEntityTooLarge, protocol.CodeInvalidParams,
			"subscriptions/listen is longer than 64 KiB: send several with fewer resources"))
		return
	}
	modern := jsonrpc.Modern(r.Header, m)
	if m.Method == methodCancelled && !m.Identified() && !modern &&
		t.config.Running.cancel(t.clientOf(r), jsonrpc.At(m.Params, "requestId")) {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	speaks, err := t.detect(r)
	if nobody, ok := errors.AsType[*nobodyError](err); ok {
		call.Fail(w, r, nobody.error)
		return
	}
	switch {
	case err == nil && modern && speaks.both() && !speaks.allSpeak(t.config.Content()):
		defer call.Body.Keep()() // it may be sent again
		t.passOrTranslate(w, r, m)
	case err != nil || speaks.both():
		t.next.ServeHTTP(w, r)
	case modern && !speaks.modern:
		t.serveModern(w, t.at(r), m)
	case !modern && !speaks.legacy:
		t.serveLegacy(w, t.at(r), m)
	default:
		t.next.ServeHTTP(w, r)
	}
}

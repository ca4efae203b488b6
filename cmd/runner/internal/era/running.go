package era

import (
	"context"
	"crypto/sha256"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A client of the legacy era says that it does not want an answer any more (MCP specification 2025-11-25,
// basic/utilities/cancellation); a server of the modern era takes the end of the request for that (2026-07-28,
// basic/patterns/cancellation).

const methodCancelled = "notifications/cancelled"

// errCancelled ends a call that its client has cancelled, which does not read the answer.
var errCancelled = jsonrpc.Fail(http.StatusOK, protocol.CodeInvalidRequest, "the client has cancelled the call")

// clientID is a client as far as it can be told without a session: its caller, its address, and what it calls itself.
type clientID [sha256.Size]byte

func (t *Translator) clientOf(r *http.Request) clientID {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	text := strconv.Quote(t.config.Caller(r)) + strconv.Quote(host)
	for _, value := range slices.Concat(r.Header["X-Forwarded-For"], r.Header["User-Agent"]) {
		text += strconv.Quote(value)
	}
	return sha256.Sum256([]byte(text))
}

// Running are the calls of legacy clients that are on their way to modern backends. The translators of one server
// share them: a call is cancelled at the content that has it, whichever gets calls by then.
type Running struct {
	mu    sync.Mutex
	calls map[callName][]*cancellable
	count atomic.Int64
}

// callName is the name of a call: a client has one of each id, but two clients may look the same.
type callName struct {
	client clientID
	id     string // as JSON
}

type cancellable struct{ end context.CancelCauseFunc }

// begin notes a call until it is done. Its context ends when its client cancels it.
func (r *Running) begin(ctx context.Context, client clientID, id jsontext.Value) (begun context.Context, done func()) {
	ctx, end := context.WithCancelCause(ctx)
	one, name := &cancellable{end}, callName{client, jsonrpc.IDKey(id)}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[callName][]*cancellable{}
	}
	r.calls[name] = append(r.calls[name], one)
	r.count.Add(1)
	return ctx, func() {
		end(nil)
		r.count.Add(-1)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.calls[name] = slices.DeleteFunc(r.calls[name],
			func(c *cancellable) bool { return c == one }); len(r.calls[name]) == 0 {
			delete(r.calls, name)
		}
	}
}

// cancel ends a call, and reports whether there are calls of its name. Where several have it, nobody can say whose it
// is, and all go on.
func (r *Running) cancel(client clientID, id jsontext.Value) (found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls[callName{client, jsonrpc.IDKey(id)}]
	if len(calls) == 1 {
		calls[0].end(errCancelled)
	}
	return len(calls) > 0
}

// Package pipeline has the Call: one request of a client on its way through the handlers of a proxy. Who calls and what
// is said is found once, by the first handler that needs it, and every other one asks the Call.
//
// Read New, Of and Call.Read first.
package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// Call is one request of a client. Handlers that follow the one which makes it find it with Of.
type Call struct {
	// Fail answers a request that cannot be passed on.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
	// Memory is what all calls of the process divide.
	Memory *budget.Budget
	// Body is what the client says; nil for a request without a body.
	Body *Body
	// Pod is the one of the backend to which a question of the process's own goes; the zero Addr for any.
	Pod netip.Addr

	address string // where the request comes from
	caller  authz.Caller
	account string
}

// New makes the call of a request, whose body it bounds in size and time. Memory is what the body has, and fail answers
// where it cannot be had.
func New(
	fail func(http.ResponseWriter, *http.Request, error), w http.ResponseWriter, r *http.Request, memory *budget.Budget,
) *Call {
	c := &Call{Fail: fail, Memory: memory, address: r.RemoteAddr}
	c.Body = bounded(c, w, r)
	return c
}

type key struct{}

// In is a context with the call.
func (c *Call) In(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, c) }

// Of is the call of a request, which has one.
func Of(ctx context.Context) *Call {
	return ctx.Value(key{}).(*Call) //nolint:forcetypeassert // a handler that is reached without one is misplaced
}

// Read is the messages of the body, as Body.Messages has them. Malformed is why it holds none. Where the body cannot be
// had, of which err is the cause, the request has been answered.
func (c *Call) Read(w http.ResponseWriter, r *http.Request) (
	messages []jsonrpc.Message, batch bool, malformed *budget.Malformed, err error,
) {
	messages, batch, err = c.Body.Messages(r)
	if malformed, is := errors.AsType[*budget.Malformed](err); is {
		return nil, batch, malformed, nil
	}
	if err != nil {
		c.Fail(w, r, err)
	}
	return messages, batch, nil, err
}

// Authenticated says who has sent the call.
func (c *Call) Authenticated(caller authz.Caller) {
	c.caller = caller
	if caller.Issuer != "" {
		sum := sha256.Sum256([]byte(strconv.Quote(caller.Issuer) + strconv.Quote(caller.Subject)))
		c.account = hex.EncodeToString(sum[:16])
	}
}

// Caller is who has sent the call: the zero Caller where nobody has been asked to log in.
func (c *Call) Caller() authz.Caller { return c.caller }

// Account is who has a share of what the process and its backend have: the same text for each call of one caller, and
// another one for another caller, which says nothing else. It is "" where nobody has logged in.
func (c *Call) Account() string { return c.account }

// Payer is for whom the memory of a call counts: who has a share, or where the call comes from.
func (c *Call) Payer() string {
	if c.account != "" {
		return c.account
	}
	return "address " + budget.Address(c.address)
}

// Alone is a context that has who sent the call, and nothing that ends with it.
func (c *Call) Alone() context.Context {
	alone := *c
	alone.Body = nil
	return alone.In(context.Background())
}

// At is a request for a path, for its own where that is empty.
func At(r *http.Request, path string) *http.Request {
	if path == "" || r.URL.Path == path {
		return r
	}
	to := *r.URL
	to.Path = path
	r = r.WithContext(r.Context())
	r.URL = &to
	return r
}

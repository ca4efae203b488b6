// Package pipeline has the Call: one request of a client on its way through the handlers of a proxy.
//
// chain.go puts the handlers in order, call.go has who calls and whom, body.go what is said: each is found once, by the
// first handler that needs it, and every other one asks the Call.
package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// Call is one request of a client. Handlers that follow the one which makes it find it with Of.
type Call struct {
	// Target is the server that it is for.
	Target Target
	// Body is what the client says; nil for a request without a body.
	Body *Body

	memory  *budget.Budget
	address string // where the request comes from
	caller  authz.Caller
	share   string
}

// New makes the call of a request for a target, whose body it bounds in size and time. Memory is what the body has.
func New(to Target, w http.ResponseWriter, r *http.Request, memory *budget.Budget) *Call {
	c := &Call{Target: to, memory: memory, address: r.RemoteAddr}
	c.Body = bounded(c, w, r)
	return c
}

type key struct{}

// In is a context with the call.
func (c *Call) In(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, c) }

// Of is the call of a request. A request that is no client's has one of nobody's.
func Of(ctx context.Context) *Call {
	if c, ok := ctx.Value(key{}).(*Call); ok {
		return c
	}
	return new(Call)
}

// Authenticated says who has sent the call.
func (c *Call) Authenticated(caller authz.Caller) {
	c.caller = caller
	if caller.Issuer != "" {
		sum := sha256.Sum256([]byte(strconv.Quote(caller.Issuer) + strconv.Quote(caller.Subject)))
		c.share = hex.EncodeToString(sum[:16])
	}
}

// Caller is who has sent the call: the zero Caller where nobody has been asked to log in.
func (c *Call) Caller() authz.Caller { return c.caller }

// Share is who has a share of what the process and its backend have: the same text for each call of one caller, and
// another one for another caller, which says nothing else. It is "" where nobody has logged in.
func (c *Call) Share() string { return c.share }

// Payer is for whom the memory of a call counts: who has a share, or where the call comes from.
func (c *Call) Payer() string {
	if c.share != "" {
		return c.share
	}
	return "address " + budget.Address(c.address)
}

// Memory is what all calls of the process divide.
func (c *Call) Memory() *budget.Budget {
	if c.memory == nil { // nobody's
		c.memory = budget.New(budget.Default)
	}
	return c.memory
}

// Alone is a context that has who sent the call, and whom, and nothing else of it.
func (c *Call) Alone() context.Context {
	return (&Call{Target: c.Target, memory: c.memory, address: c.address, caller: c.caller, share: c.share}).
		In(context.Background())
}

package bridge

import (
	"context"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

const methodCancelled = "notifications/cancelled"

// cancel ends the calls of owner with the client's id, which does not want their answers
// any more, and tells the server. It is one call, unless the client has several of one id.
func (p *peer) cancel(ctx context.Context, owner any, id, params []byte) {
	p.mu.Lock()
	var found []*call
	for key, c := range p.calls {
		// https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/cancellation#behavior-requirements
		if c.owner == owner && c.method != "initialize" && jsonrpc.SameID(c.id, id) {
			found = append(found, p.remove(key))
		}
	}
	p.mu.Unlock()
	for _, c := range found {
		told := params
		if c.ours { // nothing else of the client's goes along: it could name another's call
			told = cancelled(c, jsonrpc.At(params, "reason"))
		}
		_ = p.tell(ctx, jsonrpc.Message{Method: methodCancelled, Params: told}.Text()) //nolint:errcheck // it is over either way
		if c.to != nil {
			c.to.settle()
		}
	}
}

// lose ends a call whose client does not read. It does not wait until the server has been
// told: that may read only after what it writes was read.
func (p *peer) lose(c *call) {
	c.to.end()
	if p.take(c.wire) == nil {
		return
	}
	c.to.settle()
	go func() {
		told := jsonrpc.Message{Method: methodCancelled, Params: cancelled(c, []byte(`"the client does not read"`))}
		_ = p.tell(context.Background(), told.Text()) //nolint:errcheck // it is over either way
	}()
}

// cancelled are the parameters by which the server knows which call is cancelled.
func cancelled(c *call, reason []byte) []byte {
	return jsonrpc.Object{"requestId": c.wire, "reason": reason}.Joined()
}

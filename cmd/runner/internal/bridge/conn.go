package bridge

import (
	"context"

	"github.com/freehold-dev/freehold/cmd/runner/internal/stdio"
)

// Conn is a connection to the server: a child, or a stream of events.
type Conn interface {
	// Send sends one message of one line. That of a call, which waits, is sent once it is on its way, any other once
	// it is taken.
	Send(ctx context.Context, message []byte, waits *Waiting) error
	// Receive is the next message or batch, valid until the next call. It returns
	// *stdio.TooLong for one that is too long, and any other error where none follows.
	Receive() ([]byte, error)
	// Why says how the connection ended. It waits until it has.
	Why() string
	// End ends it, at once and without waiting.
	End()
}

// Child is a connection to a child, which takes a message by reading it.
func Child(p *stdio.Process) Conn { return process{p} }

type process struct{ *stdio.Process }

// Send implements Conn.
func (p process) Send(ctx context.Context, message []byte, _ *Waiting) error {
	return p.Process.Send(ctx, message)
}

// Waiting is a call that waits for its answer.
type Waiting struct {
	// Over is closed when it does not wait any more.
	Over chan struct{}
	// Refused is called, once at most, if its message is not taken after it was on its way.
	Refused func(error)
}

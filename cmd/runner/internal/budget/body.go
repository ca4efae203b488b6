package budget

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

const (
	// patience is how long a body waits for others.
	patience = 5 * time.Second
	// CodeBodyRefused is the code of the JSON-RPC error that answers a body over MaxBody (HTTP 413), one that takes longer
	// than a minute to arrive (HTTP 408), and one that cannot be read (HTTP 400).
	CodeBodyRefused = -32016
)

// ErrTooLong answers a body over MaxBody.
var ErrTooLong = jsonrpc.Fail(http.StatusRequestEntityTooLarge, CodeBodyRefused,
	"BodyRefused: the request body is larger than %d bytes", MaxBody)

// ErrBusy is what a caller is told for whose body there is no room. Nothing has run.
var ErrBusy = &jsonrpc.Fault{
	Status: http.StatusServiceUnavailable, Code: protocol.CodeInternal, Retry: 1,
	Message: "TooManyLongBodies: too many long bodies are on their way, of all callers or of this one",
}

// Read reads the body of a request as a whole, of which length bytes are announced, or -1 if it is not known how many.
// It counts for who has sent it, and has its room until leave is called. It returns ErrBusy, and the errors of the
// body.
func (b *Budget) Read(
	ctx context.Context, who string, body io.Reader, length int64,
) (data []byte, leave func(), err error) {
	if length >= 0 && length <= Least {
		data, err = readTo(body, make([]byte, 0, length+1), MaxBody+1)
		return data, func() {}, err
	}
	var taken []*share.Lease
	leave = func() {
		for _, each := range taken {
			each.Leave()
		}
	}
	defer func() {
		if err != nil {
			leave()
		}
	}()
	room := func(n int64) (*share.Lease, error) {
		one, err := b.wait(ctx, who, n)
		if err == nil {
			taken = append(taken, one)
		}
		return one, err
	}
	if length >= 0 {
		if _, err := room(min(length, MaxBody)); err != nil {
			return nil, leave, err
		}
		// A byte more, so that the end is found without another buffer.
		data, err = readTo(body, make([]byte, 0, min(length, MaxBody)+1), MaxBody+1)
		return data, leave, err
	}
	// A client that announces no length sends little, mostly: there is room for four times what has come, and in the end
	// for that alone.
	data, err = readTo(body, nil, Least+1)
	has, most := int64(0), int64(4*Least)
	for err == nil && int64(len(data)) > max(has, Least) && has < MaxBody {
		more, full := room(most - has)
		if full != nil {
			return nil, leave, full
		}
		data, err = readTo(body, data, most+1)
		more.Shrink(int64(len(data)) - has)
		has, most = most, min(4*most, MaxBody)
	}
	return data, leave, err
}

// readTo reads on until the end, or until there are so many bytes.
func readTo(body io.Reader, data []byte, until int64) ([]byte, error) {
	for int64(len(data)) < until {
		if len(data) == cap(data) {
			data = slices.Grow(data, 512)
		}
		n, err := body.Read(data[len(data):min(int64(cap(data)), until)])
		data = data[:len(data)+n]
		if errors.Is(err, io.EOF) {
			return data, nil
		}
		if err != nil {
			return data, err
		}
	}
	return data, nil
}

// wait waits for room for a body, not for ever.
func (b *Budget) wait(ctx context.Context, who string, n int64) (room *share.Lease, err error) {
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	room, err = b.Bodies.Lease(short, who, n)
	if err != nil && ctx.Err() == nil {
		err = ErrBusy
	}
	return room, err
}

// Turn waits until a body of that size may be taken apart, which takes many times its length: of long ones there is one
// at a time of each caller, and two of all. done ends the turn.
func (b *Budget) Turn(ctx context.Context, who string, size int) (done func(), err error) {
	if size <= Long {
		return func() {}, nil
	}
	return b.turns.Wait(ctx, who, 1)
}

// Parse takes a body apart of whose values there are not too many. What cannot be read is a *Malformed.
func Parse(body []byte) (messages []jsonrpc.Message, batch bool, err error) {
	if err = jsonrpc.Bounded(body); err == nil {
		messages, batch, err = jsonrpc.Parse(body)
	}
	if err != nil {
		return nil, batch, &Malformed{err}
	}
	return messages, batch, nil
}

// Malformed is why a body is no message.
type Malformed struct{ error }

// Unwrap is why.
func (m *Malformed) Unwrap() error { return m.error }

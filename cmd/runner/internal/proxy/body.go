package proxy

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

const (
	// MaxBody is the largest request body in bytes, the same as the MCP Go
	// SDK's default, so that proxy and backend refuse the same requests.
	MaxBody = 4 << 20
	// MaxRequestHeader is how long the headers of a request may be, in bytes.
	MaxRequestHeader = 16 << 10
	// MaxHeader is how long the headers of an answer may be, in bytes.
	MaxHeader = 64 << 10
	// bodyTime is how long a client may take to send it.
	bodyTime = time.Minute
	// remembered is how much of a body is kept until it has come, to find the
	// call's id if the proxy has to end its stream. Of more than longestDirect the id alone is kept then.
	remembered = 64 << 10
)

// callBody is a request body with a limit of size and of time. It remembers
// itself unless it is too long.
type callBody struct {
	io.ReadCloser
	deadline func(time.Time) error
	client   context.Context //nolint:containedctx // one request's; ends when it has been answered, or the client leaves
	length   int64           // as the client announced it, -1 if it did not
	room     func() (leave func(), err error)

	mu    sync.Mutex // the transport reads while the response is read
	seen  []byte
	leave func() // gives the room of what is kept back; nil where it has none
	lost  bool   // there was no room
	id    jsonrpc.Message
	whole bool
	ended bool // it was read to its end
	late  bool // the client did not send it in time
	cut   bool // it cannot be read: a part is malformed, or missing
}

// limited replaces the request's body. Requests without one get nil.
func (p *Proxy) limited(w http.ResponseWriter, r *http.Request) *callBody {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	b := &callBody{
		ReadCloser: http.MaxBytesReader(w, r.Body, MaxBody),
		deadline:   http.NewResponseController(w).SetReadDeadline,
		client:     r.Context(),
		length:     r.ContentLength,
		room: func() (func(), error) {
			return p.config.Memory.Bodies.Take(p.config.Payer(r), remembered)
		},
	}
	b.setDeadline(time.Now().Add(bodyTime))
	r.Body = b
	return b
}

// setDeadline limits reads of the connection. It must be taken back when the
// body is read: the server goes on reading, to see the client leave, and would
// take an expired deadline for that.
func (b *callBody) setDeadline(t time.Time) {
	// Only recorders in tests have no deadlines.
	_ = b.deadline(t) //nolint:errcheck // see above
}

func (b *callBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		// The backend has begun to answer before it had the whole body, and the server has taken the rest. For an error the
		// transport would cut the answer (https://go.dev/issue/40747), and an end would pass for that of the whole body.
		<-b.client.Done()
		return n, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remember(p[:n])
	if errors.Is(err, io.EOF) {
		b.ended = true
		b.whole = b.length < remembered && len(b.seen) < remembered && !b.lost
		b.shrink()
		b.setDeadline(time.Time{})
	}
	b.late = b.late || errors.Is(err, os.ErrDeadlineExceeded)
	b.cut = b.cut || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// remember keeps what was read, in one piece of the right size if that is known
// beforehand.
func (b *callBody) remember(p []byte) {
	if b.length >= remembered || len(p) == 0 || b.lost {
		return
	}
	if b.leave == nil && max(b.length, int64(len(b.seen)+len(p))) > longestDirect {
		var err error
		if b.leave, err = b.room(); err != nil {
			b.seen, b.lost = nil, true
			return
		}
	}
	if b.seen == nil {
		b.seen = make([]byte, 0, max(int(b.length), len(p)))
	}
	b.seen = append(b.seen, p[:min(len(p), remembered-len(b.seen))]...)
}

// shrink keeps of what takes room the call's id. The lock is held.
func (b *callBody) shrink() {
	if b.leave == nil {
		return
	}
	if c, ok := b.read(); ok {
		b.id = jsonrpc.Message{ID: c.ID.Clone(), Method: strings.Clone(c.Method)}
	}
	b.seen = nil
	b.giveBack()
}

func (b *callBody) giveBack() {
	if b.leave != nil {
		b.leave()
		b.leave = nil
	}
}

// end lets go of what is kept.
func (b *callBody) end() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen, b.lost = nil, true
	b.giveBack()
}

// stop ends the wait for a client that is still sending the body.
func (b *callBody) stop() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.setDeadline(past)
	}
}

// wrong is what is wrong with what the client has sent, nil for nothing.
func (b *callBody) wrong() *jsonrpc.Fault {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.late:
		return jsonrpc.Fail(http.StatusRequestTimeout, CodeBodyRefused, "BodyRefused: the request body took longer than %s",
			bodyTime)
	case b.cut:
		return jsonrpc.Fail(http.StatusBadRequest, CodeBodyRefused,
			"BodyRefused: the request body cannot be read: send it whole, framed as its headers say")
	}
	return nil
}

// call decodes the remembered body. ok is false for what is not one request
// with an id: notifications, responses, batches, and bodies that were too long
// to be remembered.
func (b *callBody) call() (c jsonrpc.Message, ok bool) {
	if b == nil {
		return c, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.id.Method != "" {
		return b.id, true
	}
	return b.read()
}

// read decodes what is kept. The lock is held.
func (b *callBody) read() (c jsonrpc.Message, ok bool) {
	if !b.whole {
		return c, false
	}
	messages, batch, err := jsonrpc.Parse(b.seen)
	if err != nil || batch {
		return c, false
	}
	return messages[0], messages[0].Call()
}

package pipeline

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

const (
	// bodyTime is how long a client may take to send a body.
	bodyTime = time.Minute
	// Short is the longest body, in bytes, that is kept while it passes. Of a longer one id and method are.
	Short = 16 << 10
)

// Body is the body of a request: it passes, or, where a handler asks for its messages, is read as a whole and taken
// apart, once. What was read as a whole is what the next reader gets. It is kept until that has read it, and counts for
// the caller as long.
type Body struct {
	call     *Call         // nil for what the proxy says itself
	from     io.ReadCloser // the client; nil for what the proxy says itself
	deadline func(time.Time) error
	client   context.Context //nolint:containedctx // one request's; ends when it has been answered, or the client leaves
	length   int64           // as the client announced it, -1 if it did not

	mu    sync.Mutex    // the transport reads while the response is read
	text  []byte        // what is kept
	skim  *jsonrpc.Skim // of a body that passes and is too long to be kept; nil for any other
	leave func()        // gives the room of what is kept back; nil where it has none
	whole bool          // text is all of it, of which at bytes have been read
	at    int
	keeps int // how many have asked to keep it
	state state
	ended bool // nothing is kept, nor named

	parsed   bool
	messages []jsonrpc.Message
	batch    bool
	err      error
	named    jsonrpc.Message // id and method of the call, once they were asked for, or nothing else is kept
	touched  bool            // somebody has read of it while it passes, or has closed it
}

// state is how far a body has come.
type state int

const (
	arriving state = iota
	arrived
	late // the client did not send it in time
	cut  // it cannot be read: a part is malformed, or missing
)

// bounded replaces the body of a request. One without a body gets nil.
func bounded(c *Call, w http.ResponseWriter, r *http.Request) *Body {
	if r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0 {
		return nil
	}
	b := &Body{
		call:     c,
		from:     http.MaxBytesReader(w, r.Body, budget.MaxBody),
		deadline: http.NewResponseController(w).SetReadDeadline,
		client:   r.Context(),
		length:   r.ContentLength,
	}
	b.setDeadline(time.Now().Add(bodyTime))
	r.Body = b
	return b
}

// Made is what the proxy says itself: a message with an id, or nil for one without.
func Made(text []byte, id jsontext.Value) *Body {
	return &Body{
		text: text, whole: true, state: arrived, parsed: true, length: int64(len(text)), named: jsonrpc.Message{ID: id},
	}
}

// setDeadline limits reads of the connection. It must be taken back when the body is read: the server goes on reading,
// to see the client leave, and would take an expired deadline for that.
func (b *Body) setDeadline(t time.Time) {
	// Only recorders in tests have no deadlines.
	_ = b.deadline(t) //nolint:errcheck // see above
}

// Messages reads the body as a whole, and takes it apart. The request, which is passed on, says how long it is then. It
// returns budget.ErrBusy, a *budget.Malformed for what is no message, and the errors of the body.
func (b *Body) Messages(r *http.Request) (messages []jsonrpc.Message, batch bool, err error) {
	if b == nil {
		_, batch, err = budget.Parse(nil)
		return nil, batch, err
	}
	if !b.parsed {
		b.parsed = true
		b.messages, b.batch, b.err = b.parse(r.Context())
	}
	if b.whole {
		r.ContentLength, r.TransferEncoding = b.length, nil
	}
	return b.messages, b.batch, b.err
}

func (b *Body) parse(ctx context.Context) (messages []jsonrpc.Message, batch bool, err error) {
	if !b.whole {
		text, leave, err := b.call.Memory.Read(ctx, b.call.Payer(), (*incoming)(b), b.length)
		if err != nil {
			return nil, false, err
		}
		b.mu.Lock()
		b.text, b.length, b.leave, b.whole = text, int64(len(text)), leave, true
		b.mu.Unlock()
	}
	done, err := b.Turn(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	return budget.Parse(b.text)
}

// Return gives back a body of at most Short bytes of which its reader has sent nothing: the next reader gets it.
func (b *Body) Return(text []byte) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text, b.length, b.whole, b.at = text, int64(len(text)), true, 0
	b.parsed, b.ended = false, false
}

// Turn waits until it is the turn of a body that was read as a whole, as budget.Turn has it.
func (b *Body) Turn(ctx context.Context) (done func(), err error) {
	return b.call.Memory.Turn(ctx, b.call.Payer(), int(b.length))
}

// Size is how long a body is that was read as a whole.
func (b *Body) Size() int64 { return b.length }

// Keep has messages of the body, and the room of the body, outlast its next reader, until done is called.
func (b *Body) Keep() (done func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keeps++
	return sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.keeps--; b.at == len(b.text) {
			b.dropText()
		}
	})
}

// Take is a body that was read as a whole, for who sends it at once. It is false for any other.
func (b *Body) Take() (text []byte, whole bool) {
	if b == nil {
		return nil, false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.whole || b.at > 0 {
		return nil, false
	}
	text, b.at = b.text, len(b.text)
	b.dropText()
	return text, true
}

// dropText keeps id and method alone. The lock is held.
func (b *Body) dropText() {
	if b.keeps > 0 {
		return
	}
	named := b.nameOf()
	b.named = jsonrpc.Message{ID: named.ID.Clone(), Method: named.Method}
	b.text, b.messages, b.at = nil, nil, 0
	b.giveBack()
}

func (b *Body) giveBack() {
	if b.leave != nil {
		b.leave()
		b.leave = nil
	}
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	b.mu.Lock()
	if b.whole {
		defer b.mu.Unlock()
		n := copy(p, b.text[b.at:])
		if b.at += n; b.at == len(b.text) {
			b.dropText()
		}
		if n == 0 {
			return 0, io.EOF
		}
		return n, nil
	}
	b.touched = true
	b.mu.Unlock()
	n, err := b.receive(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remember(p[:n])
	return n, err
}

// Close implements io.Closer.
func (b *Body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.whole {
		b.at = len(b.text)
		b.dropText()
		return nil
	}
	b.touched = true
	return b.from.Close()
}

// incoming is a body as it comes.
type incoming Body

// Read implements io.Reader.
func (i *incoming) Read(p []byte) (int, error) { return (*Body)(i).receive(p) }

// receive reads what the client sends.
func (b *Body) receive(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if errors.Is(err, http.ErrBodyReadAfterClose) {
		// The backend has begun to answer before it had the whole body, and the server has taken the rest. For an error the
		// transport would cut the answer (https://go.dev/issue/40747), and an end would pass for that of the whole body.
		<-b.client.Done()
		return n, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		b.state = arrived
		b.setDeadline(time.Time{})
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.state = late
	case b.state != late:
		b.state = cut
	}
	return n, err
}

// remember keeps what passes, in one piece of the right size if that is known beforehand.
func (b *Body) remember(p []byte) {
	switch {
	case b.ended || len(p) == 0:
	case b.skim != nil:
		b.skim.Read(p)
	case max(b.length, int64(len(b.text)+len(p))) > Short:
		b.skim = new(jsonrpc.Skim)
		b.skim.Read(b.text)
		b.skim.Read(p)
		b.text = nil
	default:
		if b.text == nil {
			b.text = make([]byte, 0, max(int(b.length), len(p)))
		}
		b.text = append(b.text, p...)
	}
}

// End lets go of all that is kept.
func (b *Body) End() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text, b.skim, b.messages, b.at, b.named, b.ended = nil, nil, nil, 0, jsonrpc.Message{}, true
	b.giveBack()
}

// Stop ends the wait for a client that is still sending the body.
func (b *Body) Stop() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != arrived {
		b.setDeadline(time.Unix(1, 0))
	}
}

// Fault is what is wrong with a body, of which err is the error, nil for nothing.
func (b *Body) Fault(err error) *jsonrpc.Fault {
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return budget.ErrTooLong
	case errors.Is(err, budget.ErrBusy):
		return budget.ErrBusy
	case b == nil:
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state {
	case late:
		return jsonrpc.Fail(http.StatusRequestTimeout, budget.CodeBodyRefused,
			"BodyRefused: the request body took longer than %s",
			bodyTime)
	case cut:
		return jsonrpc.Fail(http.StatusBadRequest, budget.CodeBodyRefused,
			"BodyRefused: the request body cannot be read: send it whole, framed as its headers say")
	default:
		return nil
	}
}

// ID is the id of the call, as Call has it.
func (b *Body) ID() jsontext.Value { return b.Call().ID }

// Call is id and method of the call. The id is nil for what is not one request with an id: notifications, responses,
// batches, and bodies that have not come.
func (b *Body) Call() jsonrpc.Message {
	if b == nil {
		return jsonrpc.Message{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nameOf()
}

// Unread reports whether nobody has begun to read the body.
func (b *Body) Unread() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.touched && !b.whole
}

// nameOf is Call, for which a body that passes is parsed once. The lock is held.
func (b *Body) nameOf() jsonrpc.Message {
	if b.named.ID != nil || b.ended {
		return b.named
	}
	messages, batch, err := b.messages, b.batch, b.err
	switch {
	case b.parsed:
	case b.state != arrived:
		return jsonrpc.Message{}
	case b.skim != nil:
		messages, batch, err = []jsonrpc.Message{b.skim.Message()}, false, nil
	default:
		messages, batch, err = jsonrpc.Parse(b.text)
	}
	if err == nil && !batch && len(messages) > 0 && messages[0].Call() {
		b.named = jsonrpc.Message{ID: messages[0].ID, Method: messages[0].Method}
	}
	return b.named
}

package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/kept"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// Bounds of one bridge.
const (
	// DefaultSessions is how many sessions have a server of their own at a time.
	DefaultSessions = 100
	// maxShared is how many sessions share one.
	maxShared = 10000
	// IdleTime is how long a session lasts that has nothing open, and LeftTime how long after its client has closed the
	// stream that it held open, and asked nothing since: many clients leave without another word.
	IdleTime = 30 * time.Minute
	LeftTime = 5 * time.Minute
	// endTime is how long a newcomer waits for a place that comes free: longer than a process may take to end, which takes
	// as much memory meanwhile as before.
	endTime = 6 * time.Second
	// maxKept is how many streams of all clients are kept after they were written, half of them of one caller.
	maxKept = 64
	// makeRoom is how long a session must have had nothing open to end for a new one.
	makeRoom = time.Minute
	// maxInFlight is how many bytes of bodies are in memory at a time.
	maxInFlight = 64 << 20
	// leastTaken is how many of them a body takes at a time: each time costs memory, too,
	// and a client may send byte by byte.
	leastTaken = 4 << 10
	// bodyTime is how long a client may take to send one.
	bodyTime = time.Minute
	// sweepPause is how often idle sessions are looked for.
	sweepPause = 15 * time.Second
)

// Config says what is bridged and how.
type Config struct {
	// Server is what is behind.
	Server Server
	// Shared has all sessions use one server; else each has its own.
	Shared bool
	// Sessions is how many sessions have a server of their own at a time;
	// DefaultSessions if zero.
	Sessions int
	// Idle is how long a session lasts that has nothing open; IdleTime and LeftTime if zero.
	Idle time.Duration
	// Log receives what the bridge itself has to say.
	Log *slog.Logger
	// Memory is what long bodies are read in; nil is that of the default limit.
	Memory *budget.Budget
}

// Bridge is an http.Handler. Make it with New, end it with Close.
type Bridge struct {
	config  Config
	starter *starter
	modern  *modern

	sessions *kept.Table[string, *session]
	closing  sync.Once
	stop     chan struct{}

	sharing  sync.Mutex // guards the two below
	shared   *shared
	starting *starting     // nil while no shared server starts
	inFlight *share.Places // a byte of a body each
	unread   *share.Places // a byte of an event each
	// finished are streams that are kept after they were written, of each what is kept for one that resumes it. A client
	// whose connection is dead has the end of its stream by resuming it, and it knows that later than the bridge has
	// written it.
	finished *kept.Table[*stream, *stream]
}

// New makes a bridge, which starts no server yet.
func New(config Config) *Bridge {
	if config.Sessions == 0 {
		config.Sessions = DefaultSessions
	}
	if config.Shared {
		config.Sessions = maxShared
	}
	if config.Memory == nil {
		config.Memory = budget.New(budget.Default)
	}
	starter := &starter{server: config.Server, log: config.Log}
	b := &Bridge{
		config: config, starter: starter,
		sessions: kept.New[string](config.Sessions, kept.Use[*session]{
			Found: (*session).comes, Idle: (*session).idle, Least: makeRoom, End: (*session).end, Wait: endTime,
		}),
		finished: kept.New[*stream](maxKept, kept.Use[*stream]{
			Idle: func(s *stream) (time.Time, bool) { return s.kept, true },
			End:  func(s *stream) <-chan struct{} { s.free(); return nil },
		}),
		stop:     make(chan struct{}),
		inFlight: share.New(maxInFlight, share.Half(maxInFlight)),
		unread:   share.New(maxUnread, share.Half(maxUnread)),
	}
	b.modern = newModern(starter, b.keep)
	go b.sweep()
	return b
}

// Start starts a server, which shows that it can be. It returns once the server has
// said something or waited long, and an error for one that ends before it has.
func (b *Bridge) Start(ctx context.Context) error {
	if silent, err := b.modern.start(ctx); err != nil || !silent {
		return err
	}
	// It may have ended because it was asked for an era that it does not know.
	for {
		_, f := b.share(ctx)
		switch {
		case f == nil:
			return nil
		case f.Code == CodeServerEnded, errors.Is(f, errUnstartable):
			return f
		case f.Code != CodeBusy:
			return nil // calls tell
		}
		select {
		case <-time.After(firstPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// Close ends all servers and refuses what comes. Streams end, too.
func (b *Bridge) Close() {
	b.closing.Do(func() {
		close(b.stop)
		b.sessions.Close()
		b.starter.close()
	})
}

// Wait waits until all servers have ended, at most for a time.
func (b *Bridge) Wait(most time.Duration) {
	late := time.After(most)
	for _, p := range b.starter.running() {
		select {
		case <-p.done:
		case <-late:
			return
		}
	}
}

// Drain ends what clients hold open though nothing is asked, so that they come back
// elsewhere: standing streams, and subscriptions with the result that ends them
// (https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions).
func (b *Bridge) Drain() {
	for _, p := range b.starter.running() {
		p.complete(protocol.MethodListen)
	}
	b.sessions.Each(func(s *session) { s.standing.end() })
}

// allowed are the methods that an endpoint takes.
const allowed = "GET, POST, DELETE"

// ServeHTTP answers one request, whatever its path: that is the proxy's to judge.
func (b *Bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if jsonrpc.NamesModern(r.Header) && r.Method != http.MethodPost {
		// https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#streamable-http
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "revision "+protocol.Modern+" takes POST only", http.StatusMethodNotAllowed)
		return
	}
	switch r.Method {
	case http.MethodPost:
		b.post(w, r)
	case http.MethodGet:
		b.get(w, r)
	case http.MethodDelete:
		b.delete(w, r)
	case http.MethodPut:
		b.putOld(w, r)
	default:
		w.Header().Set("Allow", allowed)
		http.Error(w, "an MCP endpoint takes POST, GET and DELETE", http.StatusMethodNotAllowed)
	}
}

// post reads the messages of a POST and tells by them whose they are.
func (b *Bridge) post(w http.ResponseWriter, r *http.Request) {
	messages, batch, leave, f := b.messages(w, r)
	defer leave()
	if f != nil {
		writeFault(w, f, nil)
		return
	}
	session := r.Header.Get(protocol.HeaderSession)
	switch {
	case slices.ContainsFunc(messages, func(m jsonrpc.Message) bool { return jsonrpc.Modern(r.Header, m) }):
		b.postModern(w, r, messages, batch)
	case r.URL.Query().Get(protocol.QuerySession) != "":
		b.postOld(w, r, messages)
	case session != "":
		b.postSession(w, r, session, messages, batch)
	case len(messages) == 1 && messages[0].Method == "initialize" && messages[0].Call():
		b.initialize(w, r, messages)
	default:
		writeFault(w, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest, "no %s: send initialize first",
			protocol.HeaderSession), messages[0].ID)
	}
}

// messages are what a request says. The bytes of its body are in flight until leave is called.
func (b *Bridge) messages(
	w http.ResponseWriter, r *http.Request,
) (messages []jsonrpc.Message, batch bool, leave func(), f *jsonrpc.Fault) {
	body, leave, f := b.body(w, r)
	if f != nil {
		return nil, false, leave, f
	}
	done, err := b.config.Memory.Turn(r.Context(), r.Header.Get(protocol.HeaderCaller), len(body))
	if err == nil {
		defer done()
		messages, batch, err = budget.Parse(body)
	}
	if err != nil {
		f = jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest, "%s", err)
	}
	return messages, batch, leave, f
}

// body reads the body of a request. Its bytes are in flight until leave is called.
func (b *Bridge) body(w http.ResponseWriter, r *http.Request) (body []byte, leave func(), f *jsonrpc.Fault) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTime)) //nolint:errcheck // only recorders in tests have none
	from := &counted{
		from: http.MaxBytesReader(w, r.Body, budget.MaxBody), all: b.inFlight,
		caller: r.Header.Get(protocol.HeaderCaller),
	}
	body, err := io.ReadAll(from)
	if err != nil {
		// What is left of the body is not waited for, or its client keeps the answer from itself.
		w.Header().Set("Connection", "close")
		_ = control.SetReadDeadline(time.Now()) //nolint:errcheck // only recorders in tests have none
	} else {
		_ = control.SetReadDeadline(time.Time{}) //nolint:errcheck // only recorders in tests have none
	}
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, errFull):
		f = busy("%s", err)
	case errors.As(err, &tooLong):
		f = budget.ErrTooLong
	case err != nil:
		f = jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest, "the request body cannot be read")
	}
	return body, from.leave, f
}

var errFull = fmt.Errorf("more than %d bytes are in flight, or %d of this caller", maxInFlight, share.Half(maxInFlight))

// counted counts what is read among all that is in flight as it comes, since a client
// may send slowly.
type counted struct {
	from   io.Reader
	all    *share.Places
	caller string
	// spare is how many of the bytes that are taken are not yet read.
	spare int64
	taken []func()
}

// Read implements io.Reader. It returns errFull where too much is in flight.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if c.spare -= int64(n); c.spare < 0 {
		more := max(-c.spare, leastTaken)
		leave, full := c.all.Take(c.caller, more)
		if full != nil {
			return n, errFull
		}
		c.spare += more
		c.taken = append(c.taken, leave)
	}
	return n, err
}

func (c *counted) leave() {
	for _, leave := range c.taken {
		leave()
	}
}

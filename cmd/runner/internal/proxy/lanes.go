package proxy

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// Lanes are the contents of a target's backend: they are replaced as a whole.
type Lanes struct {
	// Active gets what has no session, and what begins one.
	Active *Upstream
	// Others have the sessions that began there. Else only the process itself calls them.
	Others []*Upstream
	// Stated says that the server's status names these, and that there are no others.
	Stated bool
}

// all are none before the first is known.
func (l *Lanes) all() []*Upstream {
	if l.Active == nil {
		return nil
	}
	return append([]*Upstream{l.Active}, l.Others...)
}

// of is the lane of content, nil where that is none of these.
func (l *Lanes) of(content [8]byte) *Upstream {
	for _, u := range l.all() {
		if session.Content(u.Hash) == content {
			return u
		}
	}
	return nil
}

// leadsTo reports whether one of the lanes is in the same place as another upstream, whatever content is there.
func (l *Lanes) leadsTo(to *Upstream) bool {
	return slices.ContainsFunc(l.all(), func(u *Upstream) bool { return u.way == to.way })
}

// switching is where a target's calls go.
type switching struct {
	mu     sync.Mutex
	asking singleflight.Group
	// asked and pause are when the server was read for calls that found nobody, and how long it is not read again.
	asked time.Time
	pause time.Duration
	// used has what clients have of contents, by their hash, also of those that come again.
	used map[string]*use
	// left are contents whose place has gone.
	left map[[8]byte]bool
}

// mostUsed is of how many contents more is known than that of those which take calls.
const mostUsed = 16

// Switch has the calls of a target go by other lanes from now on. Calls that are on their way end where they are.
func (p *Proxy) Switch(path string, lanes Lanes) { p.targets[path].switchTo(&lanes) }

// Calls reports whether a content is among those of the target at a path.
func (p *Proxy) Calls(path, hash string) bool {
	return p.targets[path].lanes.Load().of(session.Content(hash)) != nil
}

func (t *target) switchTo(lanes *Lanes) {
	s := &t.switching
	s.mu.Lock()
	defer s.mu.Unlock()
	before := t.lanes.Load()
	if s.used == nil || len(s.used) > mostUsed {
		s.used, s.left = map[string]*use{}, map[[8]byte]bool{}
		for _, u := range before.all() {
			s.used[u.Hash] = u.use
		}
	}
	for _, u := range lanes.all() {
		u.use = cmp.Or(u.use, s.used[u.Hash], new(use))
		s.used[u.Hash] = u.use
		delete(s.left, session.Content(u.Hash))
		if u.stages == nil {
			t.prepare(u)
		}
		u.holds.Store(u)
	}
	for _, u := range before.all() {
		if !lanes.leadsTo(u) {
			if lanes.of(session.Content(u.Hash)) == nil {
				s.left[session.Content(u.Hash)] = true
			}
			defer func() { go u.close() }() // its calls find the others first
		}
	}
	t.lanes.Store(lanes)
	if before.Active != nil && before.Active.way != lanes.Active.way {
		s.pause = 0
		// It has been ready for long enough to get the calls: what finds nobody there waits, as for a pod that is replaced,
		// until every node has heard of it.
		lanes.Active.dialer.Present.Store(true)
	}
}

// hasLeft reports whether content is known to have gone with its place.
func (s *switching) hasLeft(content [8]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left[content]
}

// lastCalls is how long calls that are on their way to a place which has gone may take: its pods end them earlier.
const lastCalls = 10 * time.Minute

// close ends what is kept for later calls, once no calls come any more, and those that are on their way have ended.
func (u *Upstream) close() {
	for end := time.Now().Add(lastCalls); u.use.calls.Load() > 0 && time.Now().Before(end); {
		time.Sleep(closePause)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	u.endSessions(ctx)
	u.young().CloseIdleConnections()
}

// closePause is how often it is looked whether calls have ended.
const closePause = 100 * time.Millisecond

// endSessions ends those that a translator holds.
func (w *way) endSessions(ctx context.Context) {
	if w.translator != nil {
		w.translator.Close(ctx)
	}
}

// lane passes a call on to its lane: that of its session, else the active one. A call that begins and finds nobody
// there goes on to the content that has taken over: nothing of it has been sent. Own are questions of the process for
// its own content, which go there if that is one of the lanes.
func (t *target) lane(own bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, answered := t.laneOf(w, r, own)
		if answered {
			return
		}
		f := flightOf(r.Context())
		f.uses(to.use)
		if ids, _ := sessionIDs(r, false); t.config.Look == nil || f.inside || len(ids) > 0 {
			to.serve(w, r)
			return
		}
		held := pipeline.Hold(w, func(status int) bool { return status >= http.StatusBadGateway && !f.sent.Load() })
		defer held.Release()
		to.serve(held, r)
		text, failed := held.Text()
		if !failed || f.sent.Load() || !nobody(text) {
			return
		}
		next := t.successor(r.Context(), to)
		if next == nil {
			return
		}
		held.TakeBack()
		f.again()
		f.uses(next.use)
		next.serve(held, r)
	})
}

// serve has a request go on at an upstream, whose path may be another one than the target's.
func (u *Upstream) serve(w http.ResponseWriter, r *http.Request) {
	if u.Path != "" && u.Path != r.URL.Path {
		url := *r.URL
		url.Path = u.Path
		r = r.WithContext(r.Context())
		r.URL = &url
	}
	u.stages.ServeHTTP(w, r)
}

// nobody reports whether an answer of the proxy's says that a backend did not answer.
func nobody(answer []byte) bool {
	messages, _, err := jsonrpc.ParseAnswer(answer)
	if err != nil || len(messages) != 1 {
		return false
	}
	code := string(jsonrpc.At(messages[0].Error, "code"))
	return code == strconv.Itoa(CodeBackendUnreachable) || code == strconv.Itoa(CodeBackendStarting)
}

// errNoLane is what a client is told before it is known where calls go.
var errNoLane = func() *jsonrpc.Fault {
	f := jsonrpc.Fail(http.StatusServiceUnavailable, CodeBackendStarting,
		"BackendStarting: the proxy has not read yet to which content of the backend calls go").
		Because(v1alpha1.ReasonNotAsked, "the proxy has not read the server's status yet")
	f.Retry = 2
	return f
}()

// laneOf is the lane of a call. Where there is none the call has been answered.
func (t *target) laneOf(w http.ResponseWriter, r *http.Request, own bool) (to *Upstream, answered bool) {
	lanes := t.lanes.Load()
	if lanes.Active == nil {
		Answer(w, errNoLane, nil)
		return nil, true
	}
	if len(lanes.Others) == 0 {
		return lanes.Active, false
	}
	if own {
		if to = lanes.of(session.Content(t.config.Own)); to != nil {
			return to, false
		}
	}
	ids, _ := sessionIDs(r, false)
	if len(ids) == 0 {
		return t.waitsAt(lanes, w, r)
	}
	if len(ids) == 1 && t.config.Keys != nil {
		if s, err := t.config.Keys.Open(callerOf(r), ids[0]); err == nil { // the stage route tells what is wrong with others
			to = lanes.of(s.Content)
		}
	}
	return cmp.Or(to, lanes.Active), false
}

// waitsAt is the lane whose translator has a call that its client goes on with, else the active one.
func (t *target) waitsAt(lanes *Lanes, w http.ResponseWriter, r *http.Request) (to *Upstream, answered bool) {
	for _, other := range lanes.Others {
		if r.Method != http.MethodPost || other.translator == nil || other.translator.Waiting() == 0 {
			continue
		}
		messages, batch, malformed, err := pipeline.Of(r.Context()).Read(w, r)
		if err != nil {
			return nil, true
		}
		if malformed != nil || batch {
			break
		}
		if other.translator.Waits(jsonrpc.TextAt(messages[0].Params, "requestState")) {
			return other, false
		}
	}
	return lanes.Active, false
}

const (
	// lookPause is how long the server is not read again for calls that find nobody: twice as long each time, up to
	// mostPause, until calls go elsewhere. lookTime is how long a read may take.
	lookPause = 2 * time.Second
	mostPause = time.Minute
	lookTime  = 2 * time.Second
)

// look has what the server's status says read from the API server: what was seen of it may be old. It does so once for
// all calls. Where a session's pod is not found it waits for its turn, which comes after lookPause at most: whether the
// session is gone is to be known, and not guessed.
func (t *target) look(ctx context.Context, waits bool) {
	if t.config.Look == nil {
		return
	}
	s := &t.switching
	done := s.asking.DoChan(strconv.FormatBool(waits), func() (any, error) {
		if s.turn(waits) {
			ctx, cancel := context.WithTimeout(context.Background(), lookTime)
			defer cancel()
			t.config.Look(ctx)
		}
		return nil, nil //nolint:nilnil // what was read has been told
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// turn reports whether the server may be read now. Waits has it wait until it may.
func (s *switching) turn(waits bool) bool {
	for {
		s.mu.Lock()
		pause := s.pause
		if waits {
			pause = min(pause, lookPause)
		}
		left := pause - time.Since(s.asked)
		if left <= 0 {
			s.asked = time.Now()
			if !waits {
				pause *= 2
			}
			s.pause = min(max(lookPause, pause), mostPause)
		}
		s.mu.Unlock()
		if left <= 0 || !waits {
			return left <= 0
		}
		time.Sleep(left)
	}
}

// successor is where calls go in place of an upstream where nobody is, nil if that is not known to have one.
func (t *target) successor(ctx context.Context, of *Upstream) *Upstream {
	if t.lanes.Load().Active.way == of.way {
		t.look(ctx, false)
	}
	if active := t.lanes.Load().Active; active.way != of.way {
		return active
	}
	return nil
}

// retired reports whether an upstream where nobody is has gone with its sessions.
func (t *target) retired(ctx context.Context, u *Upstream) bool {
	if lanes := t.lanes.Load(); lanes.leadsTo(u) {
		t.look(ctx, lanes.Active.way != u.way)
	}
	lanes := t.lanes.Load()
	return lanes.Stated && !lanes.leadsTo(u)
}

// routed carries each request to the upstream of its route.
type routed struct{}

// RoundTrip implements http.RoundTripper. What nobody was there to take may be sent again.
func (routed) RoundTrip(request *http.Request) (*http.Response, error) {
	f := flightOf(request.Context())
	response, err := f.route.to.RoundTrip(request)
	if err == nil || !unsent(err) {
		f.reached()
		return response, err
	}
	if body, read := request.Body.(*readBody); read && !f.internal {
		text := make([]byte, body.Size())
		if _, err := body.ReadAt(text, 0); err == nil && len(text) > 0 {
			f.body.Return(text)
		}
	}
	return response, err
}

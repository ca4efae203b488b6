package proxy

import (
	"cmp"
	"context"
	"net/http"
	"net/netip"
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

// Upstreams are the contents of a target's backend: they are replaced as a whole.
type Upstreams struct {
	// Active gets what has no session, and what begins one.
	Active *Upstream
	// Others have the sessions that began there. Else only the process itself calls them.
	Others []*Upstream
	// Stated says that the server's status names these, and that there are no others.
	Stated bool
}

// all are none before the first is known.
func (l *Upstreams) all() []*Upstream {
	if l.Active == nil {
		return nil
	}
	return append([]*Upstream{l.Active}, l.Others...)
}

// of is the upstream of content, nil where that is none of these.
func (l *Upstreams) of(content [8]byte) *Upstream {
	for _, u := range l.all() {
		if session.Content(u.Hash) == content {
			return u
		}
	}
	return nil
}

// leadsTo reports whether one of them is on the lane of another upstream, whatever content is there.
func (l *Upstreams) leadsTo(to *Upstream) bool {
	return slices.ContainsFunc(l.all(), func(u *Upstream) bool { return u.lane == to.lane })
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
	// unnamed are contents of sessions that the status does not name: true where their lane has gone, and no pod of theirs
	// can be left.
	unnamed map[[8]byte]bool
}

// mostUsed is of how many contents more is known than that of those which take calls.
const mostUsed = 16

// Switch has the calls of a target go by other upstreams from now on. Calls that are on their way end where they are.
func (p *Proxy) Switch(path string, upstreams Upstreams) { p.targets[path].switchTo(&upstreams) }

// Calls reports whether a content is among those of the target at a path.
func (p *Proxy) Calls(path, hash string) bool {
	return p.targets[path].upstreams.Load().of(session.Content(hash)) != nil
}

func (t *target) switchTo(upstreams *Upstreams) {
	s := &t.switching
	s.mu.Lock()
	defer s.mu.Unlock()
	before := t.upstreams.Load()
	if s.used == nil || len(s.used) > mostUsed {
		s.used, s.unnamed = map[string]*use{}, map[[8]byte]bool{}
		for _, u := range before.all() {
			s.used[u.Hash] = u.use
		}
	}
	for _, u := range upstreams.all() {
		if u.use == nil { // calls read it already of one that was there
			u.use = cmp.Or(s.used[u.Hash], new(use))
		}
		s.used[u.Hash] = u.use
		delete(s.unnamed, session.Content(u.Hash))
		if u.stages == nil {
			u.standard = t.proxy.process.StandardClient
			u.stages = t.behindPick(u).To(t.forward)
		}
		u.holds.Store(u)
	}
	for _, u := range before.all() {
		if !upstreams.leadsTo(u) {
			if upstreams.of(session.Content(u.Hash)) == nil {
				s.unnamed[session.Content(u.Hash)] = true
			}
			defer func() { go u.close() }() // its calls find the others first
		}
	}
	if before.Active != nil && before.Active.lane != upstreams.Active.lane {
		s.pause = 0
		for _, u := range append(before.all(), upstreams.all()...) { // whoever asks may ask another one since
			u.use.down.Store(nil)
			if u.pods != nil {
				u.pods.leaveOut(nil)
			}
		}
		// It has been ready for long enough to get the calls: what finds nobody there waits, as for a pod that is replaced,
		// until every node has heard of it.
		upstreams.Active.dialer.Present.Store(true)
	}
	t.upstreams.Store(upstreams)
	if before.Active != nil && before.Active.lane != upstreams.Active.lane {
		from := before.Active.lane
		t.proxy.traffic.move(from, func() bool { return t.upstreams.Load().Active.lane != from })
	}
}

// noteUnnamed notes that a status which was read live does not name content.
func (s *switching) noteUnnamed(content [8]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, already := s.unnamed[content]; !already {
		s.unnamed[content] = false
	}
}

// isUnnamed reports whether the status is known not to name content, and whether that has gone with its lane.
func (s *switching) isUnnamed(content [8]byte) (unnamed, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone, unnamed = s.unnamed[content]
	return unnamed, gone
}

// lastCalls is how long calls that are on their way on a lane that has gone may take: its pods end them earlier.
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
func (l *lane) endSessions(ctx context.Context) {
	if l.translator != nil {
		l.translator.Close(ctx)
	}
}

// pick passes a call on to its upstream: that of its session, else the active one. A call that begins and finds nobody
// there goes on to the content that has taken over: nothing of it has been sent. Own are questions of the process for
// its own content, which go there if that is one of the upstreams.
func (t *target) pick(own bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to, answered := t.pickUpstream(w, r, own)
		if answered {
			return
		}
		f := flightOf(r.Context())
		ids, _ := sessionIDs(r, false)
		resumes := r.Header.Get("Last-Event-Id") != "" // the answer to a call, which may be there alone
		sessionless := len(ids) == 0 && !f.inside && f.answersNoCall() && !resumes
		if sessionless {
			to = t.sessionlessUpstream(f, to)
		}
		f.setUpstream(to)
		refused, done := t.refuseDown(w, r, to)
		defer done()
		if refused {
			return
		}
		if t.config.Refresh == nil || f.inside || len(ids) > 0 {
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
		t.proxy.traffic.setSessionlessLane(f, nil) // a look at the status may have calls move
		next := t.successor(r.Context(), to)
		if next == nil {
			return
		}
		if sessionless {
			next = t.sessionlessUpstream(f, next)
		}
		held.TakeBack()
		f.setUpstream(next)
		next.serve(held, r)
	})
}

// setUpstream has a flight be on its way to an upstream, and nothing known of another one.
func (f *flight) setUpstream(to *Upstream) {
	f.route, f.began, f.leads = route{to: to}, netip.AddrPort{}, ""
	f.uses(to.use)
}

// sessionlessUpstream is the upstream of a stream that has no session, which ends when calls go elsewhere: also where
// they do by now.
func (t *target) sessionlessUpstream(f *flight, to *Upstream) *Upstream {
	for {
		t.proxy.traffic.setSessionlessLane(f, to.lane)
		active := t.upstreams.Load().Active
		if active.lane == to.lane {
			return to
		}
		to = active
	}
}

// serve has a request go on at an upstream, whose path may be another one than the target's.
func (u *Upstream) serve(w http.ResponseWriter, r *http.Request) {
	u.stages.ServeHTTP(w, pipeline.At(r, u.Path))
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

// errNoUpstream is what a client is told before it is known where calls go.
var errNoUpstream = func() *jsonrpc.Fault {
	f := jsonrpc.Fail(http.StatusServiceUnavailable, CodeBackendStarting,
		"BackendStarting: the proxy has not read yet to which content of the backend calls go").
		Because(v1alpha1.ReasonNotAsked, "the proxy has not read the server's status yet")
	f.Retry = 2
	return f
}()

// pickUpstream is the upstream of a call. Where there is none the call has been answered.
func (t *target) pickUpstream(w http.ResponseWriter, r *http.Request, own bool) (to *Upstream, answered bool) {
	upstreams := t.upstreams.Load()
	if upstreams.Active == nil {
		Answer(w, errNoUpstream, nil)
		return nil, true
	}
	if own {
		if to = upstreams.of(session.Content(t.config.Own)); to != nil {
			return to, false
		}
	}
	switch ids, _ := sessionIDs(r, false); {
	case len(ids) == 0 && len(upstreams.Others) > 0:
		return t.waitsAt(upstreams, w, r)
	case len(ids) == 1 && t.config.Keys != nil:
		f := flightOf(r.Context())
		if s, err := t.openSession(r, ids[0]); err == nil { // the stage route tells what is wrong with others
			to, f.unread = t.upstreamOf(r.Context(), upstreams, s.Content)
		}
	}
	return cmp.Or(to, t.upstreams.Load().Active), false
}

// upstreamOf is that of a session's content, nil where there is none. Content of which nothing is known is looked for
// once: another proxy may have been told of a switch, and have begun sessions there, while the watch of this one is
// broken. Unread says that the status could not be read.
func (t *target) upstreamOf(ctx context.Context, saw *Upstreams, content [8]byte) (to *Upstream, unread bool) {
	if to = saw.of(content); to != nil || !saw.Stated || t.config.Refresh == nil {
		return to, false
	}
	if unnamed, _ := t.switching.isUnnamed(content); unnamed {
		return nil, false
	}
	read := t.refresh(ctx, saw, saw.Active.Alone) // else the session may be at a pod that is replaced, and is not held up
	if to = t.upstreams.Load().of(content); to == nil && read {
		t.switching.noteUnnamed(content)
	}
	return to, to == nil && !read
}

// waitsAt is the upstream whose translator has a call that its client goes on with, else the active one.
func (t *target) waitsAt(upstreams *Upstreams, w http.ResponseWriter, r *http.Request) (to *Upstream, answered bool) {
	for _, other := range upstreams.Others {
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
	return t.upstreams.Load().Active, false // to read a body takes time
}

const (
	// refreshPause is how long the server is not read again for calls that find nobody: twice as long each time, up to
	// mostPause, until calls go elsewhere. refreshTime is how long a read may take.
	refreshPause = 2 * time.Second
	mostPause    = time.Minute
	refreshTime  = 2 * time.Second
)

// refresh has what the server's status says read from the API server: what the caller saw of it may be old. It does so
// once for all calls that saw the same. Where a session's pod is not found it waits for its turn, after refreshPause at
// most: whether the session is gone is to be known, and not guessed. It reports whether the status has been read.
func (t *target) refresh(ctx context.Context, saw *Upstreams, waits bool) (read bool) {
	if t.config.Refresh == nil {
		return false
	}
	s := &t.switching
	done := s.asking.DoChan(strconv.FormatBool(waits), func() (any, error) {
		if t.upstreams.Load() == saw && s.turn(waits) {
			ctx, cancel := context.WithTimeout(context.Background(), refreshTime)
			defer cancel()
			return t.config.Refresh(ctx), nil
		}
		return false, nil
	})
	select {
	case looked := <-done:
		return looked.Val == true
	case <-ctx.Done():
		return false
	}
}

// turn reports whether the server may be read now. Waits has it wait until it may.
func (s *switching) turn(waits bool) bool {
	for {
		s.mu.Lock()
		pause := s.pause
		if waits {
			pause = min(pause, refreshPause)
		}
		left := pause - time.Since(s.asked)
		if left <= 0 {
			s.asked = time.Now()
			if !waits {
				pause *= 2
			}
			s.pause = min(max(refreshPause, pause), mostPause)
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
	if upstreams := t.upstreams.Load(); upstreams.Active.lane == of.lane {
		t.refresh(ctx, upstreams, false)
	}
	if active := t.upstreams.Load().Active; active.lane != of.lane {
		return active
	}
	return nil
}

// retired reports whether an upstream where nobody is has gone with its sessions.
func (t *target) retired(ctx context.Context, u *Upstream) bool {
	if upstreams := t.upstreams.Load(); upstreams.leadsTo(u) {
		t.refresh(ctx, upstreams, upstreams.Active.lane != u.lane)
	}
	upstreams := t.upstreams.Load()
	return upstreams.Stated && !upstreams.leadsTo(u)
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

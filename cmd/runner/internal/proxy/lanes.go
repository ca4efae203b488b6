package proxy

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

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

func (l *Lanes) all() []*Upstream { return append(l.Others[:len(l.Others):len(l.Others)], l.Active) }

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
	asked   time.Time
	pause   time.Duration
	visited map[string]*visits
}

// Switch has the calls of a target go by other lanes from now on. Calls that are on their way end where they are.
func (p *Proxy) Switch(path string, lanes Lanes) { p.targets[path].switchTo(&lanes) }

func (t *target) switchTo(lanes *Lanes) {
	s := &t.switching
	s.mu.Lock()
	defer s.mu.Unlock()
	before, visited := t.lanes.Load(), map[string]*visits{}
	for _, u := range lanes.all() {
		if u.sessions == nil {
			u.sessions = cmp.Or(s.visited[u.Hash], new(visits))
		}
		visited[u.Hash] = u.sessions
		if u.stages == nil {
			t.prepare(u)
		}
		u.holds.Store(u)
	}
	s.visited = visited
	t.lanes.Store(lanes)
	if before == nil {
		return
	}
	if before.Active.way != lanes.Active.way {
		s.pause = 0
	}
	for _, u := range before.all() {
		if !lanes.leadsTo(u) {
			go u.close()
		}
	}
}

// close ends what is kept for later calls, once no calls come any more.
func (u *Upstream) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	u.endSessions(ctx)
	u.young().CloseIdleConnections()
}

// endSessions ends those that a translator holds.
func (w *way) endSessions(ctx context.Context) {
	if w.translator != nil {
		w.translator.Close(ctx)
	}
}

// lane passes a call on to its lane: that of its session, else the active one. Own are questions of the process for
// its own content, which go there if that is one of the lanes.
func (t *target) lane(own bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lanes := t.lanes.Load()
		to := lanes.Active
		if len(lanes.Others) > 0 {
			to = t.laneOf(lanes, r, own)
		}
		if to.Path != "" && to.Path != r.URL.Path {
			url := *r.URL
			url.Path = to.Path
			r = r.WithContext(r.Context())
			r.URL = &url
		}
		to.stages.ServeHTTP(w, r)
	})
}

func (t *target) laneOf(lanes *Lanes, r *http.Request, own bool) *Upstream {
	if ids, _ := sessionIDs(r, false); len(ids) == 1 && t.config.Keys != nil {
		if s, err := t.config.Keys.Open(callerOf(r), ids[0]); err == nil { // the stage route tells what is wrong with others
			if to := lanes.of(s.Content); to != nil {
				return to
			}
		}
	}
	if own {
		if to := lanes.of(session.Content(t.config.Upstream.Hash)); to != nil {
			return to
		}
	}
	return lanes.Active
}

const (
	// lookPause is how long the server is not read again for calls that find nobody: twice as long each time, up to
	// mostPause, until calls go elsewhere. lookTime is how long a read may take.
	lookPause = 2 * time.Second
	mostPause = time.Minute
	lookTime  = 2 * time.Second
)

// look has what the server's status says read from the API server: what was seen of it may be old. It does so once for
// all calls.
func (t *target) look(ctx context.Context) {
	s := &t.switching
	if t.config.Look == nil {
		return
	}
	done := s.asking.DoChan("", func() (any, error) {
		s.mu.Lock()
		early := time.Since(s.asked) < s.pause
		if !early {
			s.asked, s.pause = time.Now(), min(max(lookPause, 2*s.pause), mostPause)
		}
		s.mu.Unlock()
		if early {
			return nil, nil //nolint:nilnil // what was read then has been told
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookTime)
		defer cancel()
		t.config.Look(ctx)
		return nil, nil //nolint:nilnil // as above
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// successor is where calls go in place of an upstream where nobody is, nil if that is not known to have one.
func (t *target) successor(ctx context.Context, of *Upstream) *Upstream {
	if t.lanes.Load().Active.way == of.way {
		t.look(ctx)
	}
	if active := t.lanes.Load().Active; active.way != of.way {
		return active
	}
	return nil
}

// retired reports whether an upstream where nobody is has gone with its sessions.
func (t *target) retired(ctx context.Context, u *Upstream) bool {
	if t.lanes.Load().leadsTo(u) {
		t.look(ctx)
	}
	lanes := t.lanes.Load()
	return lanes.Stated && !lanes.leadsTo(u)
}

// carried carries each request to the upstream of its route. What begins anew and finds nobody there goes to its
// successor.
type carried struct{ *target }

// RoundTrip implements http.RoundTripper.
func (t carried) RoundTrip(request *http.Request) (*http.Response, error) {
	f := flightOf(request.Context())
	if f.route.own != "" || f.internal || f.inside { // what the process asks is of this content
		return f.route.to.RoundTrip(request)
	}
	body := hold(request)
	defer body.release()
	response, err := f.route.to.RoundTrip(request)
	if err == nil || !unsent(err) {
		return response, err
	}
	next := t.successor(request.Context(), f.route.to)
	if next == nil {
		return response, err
	}
	if path := f.route.to.Path; next.Path != "" && (path == "" || path == request.URL.Path) {
		request.URL.Path = next.Path
	}
	f.route.to = next
	address(request, next)
	body.again()
	return next.RoundTrip(request)
}

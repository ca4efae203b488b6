package proxy

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"
)

// visits tells when a session of some content was last used by its client.
type visits struct {
	open atomic.Int64 // requests and streams that are on their way
	last atomic.Int64 // the end of the last one, in seconds since 1970; 0 for none
}

// visit notes that the request is of a session, until it ends. What the process asks itself is not.
func (f *flight) visit(to *Upstream) {
	if f.internal || f.inside || f.visits != nil || to.sessions == nil {
		return
	}
	f.visits = to.sessions
	f.visits.open.Add(1)
}

// leave notes the end of a request.
func (v *visits) leave() {
	if v != nil {
		v.last.Store(time.Now().Unix())
		v.open.Add(-1)
	}
}

// at is when a session was last used.
func (v *visits) at(now time.Time) (at time.Time, ever bool) {
	if v.open.Load() > 0 {
		return now, true
	}
	last := v.last.Load()
	return time.Unix(last, 0), last > 0
}

// routing is what a proxy tells of where the calls of a target go.
type routing struct {
	// Active is the content that gets calls, nil where the server's status does not say it.
	Active *routed `json:"active,omitempty"`
	// Sessions has by the hash of a content when this proxy last saw a session of it.
	Sessions map[string]string `json:"sessions"`
}

type routed struct {
	Slot int32  `json:"slot"`
	Hash string `json:"hash"`
}

// Routing tells where the calls of the target at a path go, as JSON.
func (p *Proxy) Routing(path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		lanes, now := p.targets[path].lanes.Load(), time.Now()
		told := routing{Sessions: map[string]string{}}
		if lanes.Stated {
			told.Active = &routed{lanes.Active.Slot, lanes.Active.Hash}
		}
		for _, u := range lanes.all() {
			if at, ever := u.sessions.at(now); ever {
				told.Sessions[u.Hash] = at.UTC().Format(time.RFC3339)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(told) //nolint:errcheck // who left asks again
	})
}

package proxy

import (
	"encoding/json"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// use is what clients have of a content.
type use struct {
	calls    atomic.Int64 // requests on their way that are to be answered
	sessions atomic.Int64 // requests and streams of sessions that are on their way
	last     atomic.Int64 // the end of the last one of a session, in seconds since 1970; 0 for none
	answered atomic.Int64 // when the backend last answered a call, in nanoseconds since 1970; 0 for never
	busy     atomic.Int64 // of calls, those of who has connected
	// down is what calls are told while the backend is known not to answer, nil while it is not, and tried says that one
	// of them has gone there all the same.
	down  atomic.Pointer[jsonrpc.Fault]
	tried atomic.Bool
}

// uses says to which content a client's request goes, until it ends or goes to another one. What the process asks
// itself is not counted, nor what a translator sends for a request that is.
func (f *flight) uses(u *use) {
	if f.inside || f.internal {
		return
	}
	f.leaveUse()
	if f.use, f.counted = u, !f.answersNoCall(); f.counted {
		u.calls.Add(1)
	}
	if f.busy = f.counted && !f.mayConnect(); f.busy {
		u.busy.Add(1)
	}
}

// mayConnect reports whether a request may be that of a client which connects.
func (f *flight) mayConnect() bool {
	header := f.request.Header
	return header.Get(protocol.HeaderSession) == "" &&
		(jsonrpc.MayInitialize(header) || header.Get(protocol.HeaderMethod) == protocol.MethodDiscover)
}

// visit notes that the request is of a session, until it ends.
func (f *flight) visit() {
	if f.use != nil && f.visits.CompareAndSwap(false, true) {
		f.use.sessions.Add(1)
	}
}

// leaveUse notes the end of a request at its content.
func (f *flight) leaveUse() {
	if f.use == nil {
		return
	}
	if f.visits.Swap(false) {
		f.use.last.Store(time.Now().Unix())
		f.use.sessions.Add(-1)
	}
	if f.counted {
		f.use.calls.Add(-1)
	}
	if f.busy {
		f.use.busy.Add(-1)
	}
	f.use = nil
}

// heard notes that a client's call has been answered, where that is so.
func (f *flight) heard() {
	if f.use != nil && f.replied.Load() {
		f.use.answered.Store(time.Now().UnixNano())
		f.use.down.Store(nil)
		if pod := f.pod(); pod.IsValid() && f.route.to.pods != nil {
			f.route.to.pods.noteAnswer(pod.Addr())
		}
	}
}

// told is the use of an upstream's content.
func (u *Upstream) told(now time.Time) runconfig.ContentUse {
	// What is on its way is read first: what ends meanwhile has been seen just now. A call may wait for its client before
	// it is answered, and is called anew before it waits no more.
	var waiting int64
	if u.translator != nil {
		waiting = int64(u.translator.Waiting())
	}
	open := u.use.sessions.Load()
	told := runconfig.ContentUse{Slot: u.Slot, Hash: u.Hash, InFlight: u.use.calls.Load() + waiting}
	if u.translator != nil && told.InFlight == 0 {
		told.InFlight = int64(u.translator.Waiting())
	}
	if last := u.use.last.Load(); last > 0 {
		told.SessionSeen = time.Unix(last, 0).UTC()
	}
	if open > 0 {
		told.SessionSeen = now.UTC().Truncate(time.Second)
	}
	return told
}

// Routing tells where the calls of the target at a path go: a runconfig.Routing.
func (p *Proxy) Routing(path string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		t, now := p.targets[path], time.Now()
		upstreams := t.upstreams.Load()
		told := runconfig.Routing{
			ServerUID: t.config.ServerUID, Since: p.started.UTC().Truncate(time.Second), Contents: []runconfig.ContentUse{},
		}
		if upstreams.Stated {
			a := upstreams.Active
			told.Active = &runconfig.RoutedContent{Slot: a.Slot, Hash: a.Hash, Generation: a.Generation}
		}
		for _, u := range upstreams.all() {
			told.Contents = append(told.Contents, u.told(now))
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(told) //nolint:errcheck // who left asks again
	})
}

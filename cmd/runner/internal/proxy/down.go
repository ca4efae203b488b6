package proxy

import (
	"net/http"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
)

// retryDown is what a client that connects is told to wait, in seconds.
const retryDown = 10

// Down tells why the backend is known not to answer, that of the last look at Pods; an empty reason takes that back, as
// a call does that is answered.
func (a *Asked) Down(reason, detail string) {
	to := a.seen.Load()
	if to == nil {
		return
	}
	if reason == "" {
		to.use.down.Store(nil)
		return
	}
	f := jsonrpc.Fail(http.StatusServiceUnavailable, CodeBackendUnreachable, "%s: %s", reason, detail).
		Because(reason, detail)
	f.Retry = retryDown
	to.use.down.Store(f)
}

// IsBusy reports whether a client's call is on its way there: one that takes calls one by one may answer nobody else
// meanwhile. Who connects is none.
func (a *Asked) IsBusy() bool {
	to := a.seen.Load()
	return to != nil && to.use.busy.Load() > 0
}

// refuseDown answers a call whose backend is known not to answer: who connects, and all other calls but one at a time,
// until done. That one may be the first that is answered again.
func (t *target) refuseDown(w http.ResponseWriter, r *http.Request, to *Upstream) (refused bool, done func()) {
	done = func() {}
	f, down := flightOf(r.Context()), to.use.down.Load()
	if down == nil || f.inside || r.Method != http.MethodPost || f.listening() {
		return false, done
	}
	messages, _, malformed, err := pipeline.Of(r.Context()).Read(w, r)
	switch {
	case err != nil:
		return true, done
	case malformed != nil || !messages[0].Call():
		return false, done
	case !messages[0].Connects() && to.use.tried.CompareAndSwap(false, true):
		return false, func() { to.use.tried.Store(false) }
	}
	Answer(w, down, nil)
	return true, done
}

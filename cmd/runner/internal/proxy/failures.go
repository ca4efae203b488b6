package proxy

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// Unsent is implemented by the writer of a translator's own request that has to know why nothing of it was sent.
type Unsent interface{ Unsent(err error) }

// fail answers a call that got no response from the backend.
func (t *target) fail(w http.ResponseWriter, r *http.Request, err error) {
	flight := flightOf(r.Context())
	flight.says(false)
	if f := t.why(flight, err); f != nil {
		if asks, is := w.(Unsent); is && unsent(err) {
			asks.Unsent(err)
		}
		if flight.internal && flight.leads != "" {
			w.Header().Set("Location", flight.leads)
		}
		Answer(w, f, nil)
	}
}

// why is what the client is told of a call that failed, nil where nobody is there to read it.
func (t *target) why(flight *flight, err error) *jsonrpc.Fault {
	var unsealed *unsealed
	var notTaken *notTaken
	var keyless session.ErrNoKey
	switch wrong := flight.body.Fault(err); {
	case flight.drained():
		return errDraining
	case flight.moved():
		return errMoved
	case flight.deserted():
		return nil // the backend is not to blame
	case wrong != nil:
		return wrong
	case errors.As(err, &unsealed):
		return noKey(unsealed.error)
	case errors.As(err, &keyless):
		// Every call goes to another proxy, or to this one in the same way.
		return nothingWithoutKey(ReasonNoSessions, keyless)
	case errors.As(err, &notTaken):
		reason := ReasonKeyNotTaken
		if t.config.Keys.Shows() == nil {
			reason = ReasonNoSessions
		}
		return nothingWithoutKey(reason, notTaken.error)
	case flight.lost(err), flight.route.own != "" && unsent(err) && t.retired(flight.ctx, flight.route.to):
		return errSessionGone
	}
	to := cmp.Or(flight.route.to, t.upstreams.Load().Active)
	if to == nil {
		return errNoUpstream
	}
	if to.pods != nil && to.pods.isOneOfSeveral(flight.route.only) {
		return noAnswer(to, err) // the others are no worse for it
	}
	return t.unreached(to, err)
}

func nothingWithoutKey(reason string, err error) *jsonrpc.Fault {
	return jsonrpc.Fail(http.StatusServiceUnavailable, CodeNoSessions, "NoSessions: nothing is served without a key: %v",
		err).Because(reason, err.Error())
}

// unreached is what the client is told of an upstream that gives no answer, of which note is taken.
func (t *target) unreached(to *Upstream, err error) *jsonrpc.Fault {
	// One that starts is asked by the runner, which tells why it does not answer.
	if _, refused := errors.AsType[*remote.Refusal](err); !refused && to.answered.Load() &&
		to.unreachable.CompareAndSwap(false, true) {
		t.config.Log.Warn("the backend does not answer", "backend", to.Host(), "error", err)
	}
	return noAnswer(to, err)
}

// noAnswer is the same where nothing is noted.
func noAnswer(to *Upstream, err error) *jsonrpc.Fault {
	if refusal, refused := errors.AsType[*remote.Refusal](err); refused {
		return jsonrpc.Fail(http.StatusBadGateway, CodeBackendUnreachable, "%v", refusal).
			Because(refusal.Reason, refusal.Message)
	}
	host, reason, why := to.Host(), v1alpha1.ReasonNotAnswering, remote.Why(err)
	if errors.Is(err, errNoPods) {
		reason, why = v1alpha1.ReasonNotAsked, errNoPods.Error()
	}
	if to.remote == nil {
		host = to.url.Hostname() // the port of its Service is none that its author wrote
	}
	if !to.answered.Load() {
		f := jsonrpc.Fail(http.StatusServiceUnavailable, CodeBackendStarting,
			"BackendStarting: the backend %s has not answered yet: %s", host, why).Because(reason, why)
		f.Retry = 2
		return f
	}
	return jsonrpc.Fail(http.StatusBadGateway, CodeBackendUnreachable,
		"BackendUnreachable: no answer from the backend %s: %s", host, why).Because(reason, why)
}

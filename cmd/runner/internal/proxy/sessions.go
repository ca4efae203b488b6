package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// rolloutTime is for how long ids are taken that a proxy gave which was told of other content, where the server's
// status does not say which contents there are: while one rolls out, proxies of both serve, and pods of both.
const rolloutTime = 10 * time.Minute

// route is where a request has to go.
type route struct {
	// to is where calls go at this moment: it may be replaced before the answer has ended.
	to *Upstream
	// named is the client's session id, own the backend's; empty for none.
	named, own string
	// pod keeps the session, and is called there; the zero AddrPort leaves the choice to the transport, or is for a
	// server elsewhere.
	pod netip.AddrPort
	// only is the pod to which a question of the process's own goes that has no session; the zero Addr for any.
	only netip.Addr
	// begins says that the request may begin a session: any pod would do. opens says that
	// this is one of the transport HTTP+SSE, and sse that the query names such a session.
	begins, opensSSE, sse bool
	// brief says that the pod was not among the known ones, but that a proxy knew it so
	// lately that this one's resolver need not have heard of it.
	brief bool
}

// route sends each request on to where its session is. It comes after who calls has been found out.
func (t *target) route(on *lane) pipeline.Stage {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f := flightOf(r.Context())
			var fault *jsonrpc.Fault
			f.route, fault = t.findRoute(r, on.holds.Load(), f.internal)
			if fault == errSessionGone && f.unread {
				fault = errUnread
			}
			if fault != nil {
				Answer(w, fault, nil)
				return
			}
			if f.route.own != "" {
				f.visit()
			}
			next.ServeHTTP(w, r)
		})
	}
}

// findRoute finds where a request has to go. Requests of revision 2026-07-28 have no
// session: like all that the backend's Service spreads, they go to any pod.
func (t *target) findRoute(r *http.Request, to *Upstream, internal bool) (found route, fault *jsonrpc.Fault) {
	if found.to, found.only = to, pipeline.Of(r.Context()).Pod; t.config.Keys == nil {
		return found, nil
	}
	ids, sse := sessionIDs(r, internal)
	found.sse = sse
	switch {
	case len(ids) == 0:
		found.opensSSE = to.pods != nil && opensSSE(r)
		found.begins = found.opensSSE || r.Method == http.MethodPost && jsonrpc.MayInitialize(r.Header)
		return found, nil
	case len(ids) > 1:
		return found, ErrSessionUnknown
	}
	found.named = ids[0]
	s, err := t.openSession(r, ids[0])
	switch {
	case errors.Is(err, session.ErrUnknown):
		return found, ErrSessionUnknown
	case err != nil:
		return found, noKey(err)
	}
	found.own, found.pod = s.ID, s.Pod
	switch {
	case s.Pod.IsValid() != (to.pods != nil):
		return found, ErrSessionUnknown
	case to.peers != nil:
		// Which proxies there are is not known. One that has gone does not answer, and what
		// has its address now has no key.
		found.brief = true
	case to.pods != nil:
		found.brief, fault = t.atPod(r.Context(), to, s)
	case s.Content != session.Content(to.Hash): // it was begun with another server, whose ids are not for this one
		fault = ErrSessionUnknown
	}
	return found, fault
}

// atPod judges whether the pod of a session is still there, and whether that is known for so short that it may be gone.
func (t *target) atPod(ctx context.Context, to *Upstream, s session.Session) (brief bool, fault *jsonrpc.Fault) {
	now := to.now()
	if s.Content != session.Content(to.Hash) && t.outlived(to, s, now) {
		return false, errSessionGone
	}
	has, some, err := to.pods.has(ctx, s.Pod.Addr())
	switch {
	case (err != nil || !has && !some) && t.retired(ctx, to):
		fault = errSessionGone
	case err != nil:
		fault = t.unreached(to, err)
	case !has && some && (now.Sub(s.Issued) > dnsMemory || to.pods.hasLeft(s.Pod.Addr())):
		fault = errSessionGone // a call must not be at a pod when that ends
	case !has && now.Sub(s.Issued) > dnsMemory:
		fault = t.unreached(to, errNoPods)
	}
	return !has, fault
}

// outlived reports whether sessions of other content than an upstream has are over: once no pod of that can be left.
func (t *target) outlived(to *Upstream, s session.Session, now time.Time) bool {
	if _, gone := t.switching.isUnnamed(s.Content); gone {
		return true
	}
	if t.upstreams.Load().Stated {
		return to.Alone
	}
	return now.Sub(s.Issued) > rolloutTime && now.Sub(t.proxy.started) > rolloutTime
}

// openedSession is what the id of a session says, which is opened once for a request.
type openedSession struct {
	session.Session
	id  string
	err error
	is  bool
}

// openSession opens the id of the session that a request names.
func (t *target) openSession(r *http.Request, id string) (session.Session, error) {
	o := &flightOf(r.Context()).opened
	if !o.is || o.id != id {
		*o = openedSession{id: id, is: true}
		o.Session, o.err = t.config.Keys.Open(CallerOf(r), id)
	}
	return o.Session, o.err
}

// sessionIDs are the sessions that a request names, and whether its query does.
func sessionIDs(r *http.Request, internal bool) (ids []string, sse bool) {
	ids, inQuery := r.Header[protocol.HeaderSession], sseIDs(r)
	// A PUT is an answer of Deny's to what was posted there.
	if sse = len(inQuery) > 0; sse && (r.Method == http.MethodPost || r.Method == http.MethodPut) && !internal {
		ids = append(ids[:len(ids):len(ids)], inQuery...)
	}
	return ids, sse
}

var (
	// ErrSessionUnknown answers who names a session that is not known, or another caller's.
	ErrSessionUnknown = jsonrpc.Fail(http.StatusNotFound, CodeSessionNotFound,
		"SessionNotFound: this session is not known, or not yours: send an initialize to begin another")
	// errUnread is for a session of content that this proxy has not heard of, as another one may have.
	errUnread = func() *jsonrpc.Fault {
		f := jsonrpc.Fail(http.StatusServiceUnavailable, CodeBackendStarting,
			"BackendStarting: the proxy could not read whether the content of this session is still served").
			Because(v1alpha1.ReasonNotAsked, "the proxy could not read the server's status")
		f.Retry = 2
		return f
	}()
	errSessionGone = jsonrpc.Fail(http.StatusNotFound, CodeSessionNotFound,
		"SessionNotFound: the backend pod that kept this session is gone: send an initialize to begin another")
)

// CallerOf is whose session it is: a session belongs to who began it, by the name in its token, whatever else another
// token of the same caller says.
func CallerOf(r *http.Request) session.Caller {
	caller := pipeline.Of(r.Context()).Caller()
	return session.Caller{Issuer: caller.Issuer, Subject: caller.Subject}
}

func noKey(err error) *jsonrpc.Fault {
	return jsonrpc.Fail(http.StatusServiceUnavailable, CodeNoSessions,
		"NoSessions: sessions are not served, calls without one are: %v", err).Because(ReasonNoSessions, err.Error())
}

// lost reports whether a request failed because nobody is at its session's pod any
// more: nothing of it was sent.
func (f *flight) lost(err error) bool {
	if f.route.own == "" || !f.route.pod.IsValid() || !undialled(err) {
		return false
	}
	if _, busy := errors.AsType[unshaken](err); busy {
		return false
	}
	return f.route.brief || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH)
}

// unsent reports whether a request failed because nobody was there to take it.
func unsent(err error) bool {
	var dns *net.DNSError
	return undialled(err) || errors.Is(err, errNoPods) || errors.As(err, &dns)
}

// undialled reports whether a request failed before anything of it was sent.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

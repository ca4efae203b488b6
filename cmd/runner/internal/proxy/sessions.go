package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// Sessions is how the sessions of a backend are kept apart and found.
type Sessions struct {
	// Keys seal the ids.
	Keys *session.Keys
	// Pods has the host:port whose addresses are those of the backend's ready pods. It is
	// empty for a server elsewhere, which keeps its sessions itself.
	Pods string
	// PodPort names the port of a pod where that is not the same for all, as while it changes:
	// the resolver knows it by an SRV record. Empty if all listen on the port in Pods.
	PodPort string
	// Standing is the port on which pods of the content listen that the API server has, 0 if
	// it is not known. It goes with PodPort.
	Standing *atomic.Int32
	// Self, if valid, is where this proxy serves its own sessions with a server elsewhere,
	// with the TLS of Keys. The other proxies of the server have such an address too, of
	// the same port.
	Self netip.AddrPort
	// Content is the hash of what the backend's pods are to run, or of where the server
	// elsewhere is.
	Content string
}

// rolloutTime is for how long ids are taken that a proxy gave which was told of other
// content: while one rolls out, proxies of both serve, and pods of both.
const rolloutTime = 10 * time.Minute

// place is where a request has to go.
type place struct {
	// named is the client's session id, own the backend's; empty for none.
	named, own string
	// caller is who sent the request, where that matters.
	caller session.Caller
	// pod keeps the session, or has been chosen for a request that may begin one, and is called there; the
	// zero AddrPort leaves the choice to the backend's Service, or is for a server elsewhere.
	pod netip.AddrPort
	// begins says that the request may begin a session: any pod would do. opens says that
	// this is one of the transport HTTP+SSE, and old that the query names such a session.
	begins, opens, old bool
	// brief says that the pod was not among the known ones, but that a proxy knew it so
	// lately that this one's resolver need not have heard of it.
	brief bool
}

// route sends each request on to where its session is. It comes after who calls has been found out.
func (t *target) route(next http.Handler) http.Handler {
	if t.config.Sessions == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f := flightOf(r.Context())
		if fault := t.place(r, f); fault != nil {
			Answer(w, fault, nil)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// place finds where a request has to go. Requests of revision 2026-07-28 have no
// session: like all that the backend's Service spreads, they go to any pod.
func (t *target) place(r *http.Request, f *flight) *jsonrpc.Fault {
	ids, old := r.Header[protocol.HeaderSession], oldIDs(r)
	f.place.old = len(old) > 0
	if f.place.old && (r.Method == http.MethodPost || r.Method == http.MethodPut) && !f.ours {
		ids = append(ids[:len(ids):len(ids)], old...)
	}
	switch {
	case len(ids) == 0:
		if f.place.opens = t.pods != nil && opensOld(r); f.place.opens ||
			r.Method == http.MethodPost && jsonrpc.MayInitialize(r.Header) {
			f.place.begins, f.place.caller = true, callerOf(r)
		}
		return nil
	case len(ids) > 1:
		return errSessionUnknown
	}
	caller := callerOf(r)
	s, err := t.config.Sessions.Keys.Open(caller, ids[0])
	switch {
	case errors.Is(err, session.ErrUnknown):
		return errSessionUnknown
	case err != nil:
		return noKey(err)
	}
	f.place = place{named: ids[0], own: s.ID, caller: caller, pod: s.Pod, old: f.place.old}
	switch {
	case s.Pod.IsValid() != (t.pods != nil):
		return errSessionUnknown
	case t.config.Sessions.Self.IsValid():
		// Which proxies there are is not known. One that has gone does not answer, and what
		// has its address now has no key.
		f.place.brief = true
		return nil
	case t.pods != nil:
		return t.placeAtPod(r, f, s)
	case s.Content != t.content: // it was begun with another server, whose ids are not for this one
		return errSessionUnknown
	}
	return nil
}

// placeAtPod judges whether the pod of a session is still there.
func (t *target) placeAtPod(r *http.Request, f *flight, s session.Session) *jsonrpc.Fault {
	now := t.pods.now()
	if s.Content != t.content && now.Sub(s.Issued) > rolloutTime && now.Sub(t.proxy.started) > rolloutTime {
		return errSessionGone
	}
	has, some, err := t.pods.has(r.Context(), s.Pod.Addr())
	f.place.brief = !has
	switch {
	case err != nil:
		return t.unreached(err)
	case !has && some && (now.Sub(s.Issued) > dnsMemory || t.pods.left(s.Pod.Addr())):
		return errSessionGone // a call must not be at a pod when that ends
	case !has && now.Sub(s.Issued) > dnsMemory:
		return t.unreached(errNoPods)
	}
	return nil
}

// named replaces the id in the answer to a request. An error fails the request.
func (t *target) named(response *http.Response) error {
	ids := response.Header[protocol.HeaderSession]
	if len(ids) == 0 {
		return nil
	}
	f := flightOf(response.Request.Context())
	switch {
	case f.place.own != "" && ids[0] == f.place.own:
		ids[0] = f.place.named // in place: a new slice would cost each call
		response.Header[protocol.HeaderSession] = ids[:1]
		return nil
	case f.place.own == "" && !f.place.begins, f.place.opens, f.place.old:
		// Revision 2026-07-28 has no sessions, and where this one is is not known.
		delete(response.Header, protocol.HeaderSession)
		return nil
	}
	id, err := t.config.Sessions.Keys.Seal(f.place.caller, session.Session{
		Pod: f.place.pod, ID: ids[0], Issued: t.now(), Content: t.content,
	})
	if err != nil {
		t.endUnsealed(response.Request, ids[0])
		return &unsealed{err}
	}
	response.Header[protocol.HeaderSession] = []string{id}
	return nil
}

// endUnsealed ends a session that began with a request, and whose id no client gets: nobody
// else would. Whether the backend does end it is its own matter
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).
func (t *target) endUnsealed(began *http.Request, id string) {
	if id == "" {
		return
	}
	// Also where the client has left. What begins goes to any pod, and this to where it began.
	ctx := context.WithValue(context.WithoutCancel(began.Context()), flightKey{}, &flight{})
	ctx, cancel := context.WithTimeout(ctx, lastWords)
	defer cancel()
	end := began.Clone(ctx)
	end.Method, end.Body, end.GetBody, end.ContentLength, end.TransferEncoding = http.MethodDelete, nil, nil, 0, nil
	for name := range end.Header {
		if strings.HasPrefix(name, "Content-") || name == "Expect" {
			delete(end.Header, name)
		}
	}
	end.Header[protocol.HeaderSession] = []string{id}
	if response, err := t.backend.RoundTrip(end); err == nil {
		_ = response.Body.Close() //nolint:errcheck // nothing of it is read
	}
}

func (t *target) now() time.Time {
	if t.pods != nil {
		return t.pods.now()
	}
	return time.Now()
}

// unsealed is why an id of the backend's could not be sealed.
type unsealed struct{ error }

var (
	errSessionUnknown = jsonrpc.Fail(http.StatusNotFound, CodeSessionNotFound,
		"SessionNotFound: this session is not known, or not yours: send an initialize to begin another")
	errSessionGone = jsonrpc.Fail(http.StatusNotFound, CodeSessionNotFound,
		"SessionNotFound: the backend pod that kept this session is gone: send an initialize to begin another")
)

// callerOf is whose session it is: a session belongs to who began it, by the name in its token, whatever else another
// token of the same caller says.
func callerOf(r *http.Request) session.Caller {
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
	if f.place.own == "" || !f.place.pod.IsValid() || !undialled(err) {
		return false
	}
	if _, busy := errors.AsType[unshaken](err); busy {
		return false
	}
	return f.place.brief || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH)
}

// undialled reports whether a request failed before anything of it was sent.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

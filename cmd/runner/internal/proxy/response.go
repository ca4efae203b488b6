package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
)

// response looks at the backend's answer before it is passed on.
func (t *target) response(response *http.Response) error {
	f := flightOf(response.Request.Context())
	to := f.route.to
	f.says(!to.Bridged && ofTransport(response.StatusCode))
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols:
		return errors.New("the backend switched protocols unasked")
	case response.StatusCode == http.StatusMisdirectedRequest && len(response.Header[protocol.HeaderProxy]) > 0 &&
		to.mayBeClosed() && t.config.Keys != nil:
		return &notTaken{t.config.Keys.NotTaken()}
	case to.remote != nil:
		if err := to.remote.Judge(response); err != nil {
			return err
		}
	case response.Request.Method == http.MethodPost:
		// Its client would follow it at the proxy's host, where nothing else is served. A GET that leads elsewhere is one
		// without a stream.
		if err := remote.Redirected(response, "the backend",
			"write the path of its MCP endpoint into spec.path"); err != nil {
			f.leads = media.Leads(response)
			return err
		}
	}
	withhold(response.Header)
	if to.unreachable.CompareAndSwap(true, false) {
		t.config.Log.Info("the backend answers again", "backend", to.Host())
	}
	if t.config.Keys != nil {
		if err := t.sealID(response, f); err != nil {
			return err
		}
	}
	if kind := media.Type(response.Header); response.Request.Method == http.MethodPost &&
		response.StatusCode == http.StatusOK && (kind == media.JSON || kind == media.Events && response.ContentLength > 0) {
		f.replied.Store(true)
	}
	if eventStream(response) {
		if f.route.opensSSE {
			response.Body = t.endpointOf(response, f)
		}
		// nginx, and what follows its example, buffers unless told not to.
		response.Header.Set("X-Accel-Buffering", "no")
		response.Body = newStream(response.Body, f)
		f.takeover.take(response)
	}
	return nil
}

// eventStream reports whether response is a stream of server-sent events that
// could be continued by us: neither compressed nor of a stated length.
func eventStream(response *http.Response) bool {
	return media.Type(response.Header) == media.Events && response.ContentLength < 0 && !media.Encoded(response.Header)
}

// withheld are headers of an answer that reach further than the answer: into other requests of the client's to this
// host, its cookies, its caches, or where it logs in. They are whoever's who owns the host, and a backend's image is
// none of them.
var withheld = setOf(
	// The backend gets no token, so its own login can only lead a client astray (MCP specification, security best
	// practices).
	"Www-Authenticate", "Proxy-Authenticate",
	// It gets no cookies either.
	"Set-Cookie",
	// A redirect is followed, or named, by the proxy, and a client would follow it at the proxy's host, or elsewhere.
	"Location", "Refresh",
	"Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Service-Worker-Allowed", "Nel", "Report-To",
	"Reporting-Endpoints",
)

// withhold takes out of an answer what is not the backend's to say.
func withhold(header http.Header) {
	for name := range header {
		if withheld[name] || strings.HasPrefix(name, "Access-Control-") {
			delete(header, name)
		}
	}
}

// sealID seals the id in the answer to a request. An error fails the request.
func (t *target) sealID(response *http.Response, f *flight) error {
	ids := response.Header[protocol.HeaderSession]
	if len(ids) == 0 {
		return nil
	}
	switch {
	case f.route.own != "" && ids[0] == f.route.own:
		ids[0] = f.route.named // in place: a new slice would cost each call
		response.Header[protocol.HeaderSession] = ids[:1]
		return nil
	case f.route.own == "" && !f.route.begins, f.route.opensSSE, f.route.sse:
		// Revision 2026-07-28 has no sessions, and where this one is is not known.
		delete(response.Header, protocol.HeaderSession)
		return nil
	}
	id, err := t.config.Keys.Seal(CallerOf(response.Request), f.route.to.session(f.pod(), ids[0]))
	if err != nil {
		f.route.to.endUnsealed(response.Request, ids[0])
		return &unsealed{err}
	}
	response.Header[protocol.HeaderSession] = []string{id}
	f.visit()
	return nil
}

// endUnsealed ends a session that began with a request, and whose id no client gets: nobody
// else would. Whether the backend does end it is its own matter
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management).
func (u *Upstream) endUnsealed(began *http.Request, id string) {
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
	if response, err := u.RoundTrip(end); err == nil {
		_ = response.Body.Close() //nolint:errcheck // nothing of it is read
	}
}

// unsealed is why an id of the backend's could not be sealed.
type unsealed struct{ error }

// notTaken is why a bridge does not take the proxy for one of its server.
type notTaken struct{ error }

package proxy

import (
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// Clients of the transport HTTP+SSE open a stream, whose first event tells them where to
// POST (https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse).
// A bridge names the session in the query there. It is sealed as the ids of other sessions
// are, so that a POST reaches the pod that has the stream, and nobody else's.

// maxEndpoint is the longest event, in bytes, that is looked at for it.
const maxEndpoint = 8 << 10

// opensSSE reports whether a request may open the stream of such a client: it names no
// session, and its Accept names events, as each client of the transport does.
func opensSSE(r *http.Request) bool {
	_, names := media.Accepts(r.Header.Values("Accept"), media.Events)
	return names && r.Method == http.MethodGet && !jsonrpc.NamesModern(r.Header)
}

// sseIDs are the sessions that the query of a request names, nil for none. They are read
// as the bridge reads them.
func sseIDs(r *http.Request) []string {
	if r.URL.RawQuery == "" {
		return nil
	}
	return r.URL.Query()[protocol.QuerySession]
}

// withSSEID is a query with the backend's own id of the session, without one if that is
// empty.
func withSSEID(from *url.URL, own string) string {
	query := from.Query()
	if query.Del(protocol.QuerySession); own != "" {
		query.Set(protocol.QuerySession, own)
	}
	return query.Encode()
}

// endpoint is the body of a stream that seals the session in the event that names an endpoint. What comes before that
// passes as it is, but for messages: behind one there is none to come.
type endpoint struct {
	io.ReadCloser
	seal func(id string) (string, error)
	// relative has the event name the query alone, since the path is another one for the client.
	relative bool

	reader sse.Reader
	head   []byte // what was read, is whole, and was not handed on
	done   bool   // nothing is looked for any more
	err    error  // of sealing
}

// endpointOf is the body of the answer to a request that may open such a stream.
func (t *target) endpointOf(response *http.Response, f *flight) io.ReadCloser {
	caller := CallerOf(response.Request)
	sealing := newEndpoint(response.Body, func(id string) (string, error) {
		sealed, err := t.config.Keys.Seal(caller, f.route.to.session(f.pod(), id))
		f.visit()
		if err != nil {
			t.config.Log.Debug("a client of the transport HTTP+SSE is not served", "error", err)
		}
		return sealed, err
	})
	sealing.relative = t.config.belowPath() || f.request.URL.Path != f.route.to.Path && f.route.to.Path != ""
	return sealing
}

func newEndpoint(body io.ReadCloser, seal func(id string) (string, error)) *endpoint {
	e := &endpoint{ReadCloser: body, seal: seal}
	e.reader = sse.Reader{Limit: maxEndpoint, Event: e.event}
	return e
}

// Read implements io.Reader. Its errors are those of the body, and of sealing.
func (e *endpoint) Read(p []byte) (int, error) {
	for !e.done && len(e.head) == 0 {
		n, err := e.ReadCloser.Read(p)
		looked, wrong := e.reader.Write(p[:n])
		if e.err != nil {
			return 0, e.err
		}
		if wrong != nil || err != nil { // it is none of a bridge's, or what was looked for has come
			e.done = true
			e.head = append(append(e.head, e.reader.Rest()...), p[looked:n]...)
		}
		if err != nil && len(e.head) == 0 {
			return 0, err // with something read before, it comes again
		}
	}
	if len(e.head) == 0 {
		return e.ReadCloser.Read(p)
	}
	n := copy(p, e.head)
	e.head = e.head[n:]
	return n, nil
}

var errFound = errors.New("there is nothing more to look for")

// event looks at an event.
func (e *endpoint) event(one sse.Event) error {
	text := one.Text
	defer func() { e.head = append(e.head, text...) }()
	if one.Message() != nil {
		return errFound
	}
	if !one.Named(sse.EndpointName) {
		return nil
	}
	to, err := url.Parse(string(one.Data))
	if err != nil || !to.Query().Has(protocol.QuerySession) {
		return errFound
	}
	sealed, err := e.seal(to.Query().Get(protocol.QuerySession))
	if err != nil {
		e.err = err
		return err
	}
	if to.RawQuery = withSSEID(to, sealed); e.relative {
		to = &url.URL{RawQuery: to.RawQuery}
	}
	text = one.WithData([]byte(to.String()))
	return errFound
}

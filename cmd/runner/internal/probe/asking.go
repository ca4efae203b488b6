package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// What one asking of a backend reads, all in all. The image is the user's: JSON
// of a few bytes a value becomes a hundred times that in memory.
const (
	// maxAnswers is in bytes, of all answers and before they are decoded.
	maxAnswers = 2 << 20
	// maxValues is how many JSON values they may hold: a tool with its schema has
	// some fifty.
	maxValues = 100_000
)

var errTooMuch = errors.New("the backend's answers are longer than 2 MiB or hold more than 100,000 values, which is " +
	"more than is read of them")

// asking is a client for one asking of a backend. The client of MCP trusts whom
// it asks: it would follow a redirect to wherever the proxy's network reaches, and
// read an answer without an end into memory.
type asking struct {
	http.Client
	transport *http.Transport
	pod       netip.Addr         // that is asked, the zero Addr for any
	session   *mcp.ClientSession // nil where none came about
	bridged   bool
	// read and values are what was read of all answers.
	read, values atomic.Int64
	// last is the last answer to a message, never nil.
	last atomic.Pointer[reply]
}

// begin begins a session by Dial with a pod, whatever host is asked for. With an error there is none, and last is why.
// Let it end.
func (p *Prober) begin(ctx context.Context, at netip.Addr) (*asking, error) {
	// No Proxy: the backend is a neighbour, whatever the environment says.
	a := &asking{
		pod:       at,
		transport: &http.Transport{MaxResponseHeaderBytes: proxy.MaxHeader, DialContext: p.Dial}, bridged: p.Server.Bridged(),
	}
	a.last.Store(&reply{})
	a.Client = http.Client{
		Transport:     a,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	var err error
	a.session, err = p.connect(ctx, a, "")
	return a, err
}

// end ends the session, and closes the connections.
func (a *asking) end() {
	if a.session != nil {
		_ = a.session.Close() //nolint:errcheck // it was asked all there is
	}
	a.transport.CloseIdleConnections()
}

// full reports whether no more is read of the backend's answers.
func (a *asking) full() bool { return a.read.Load() >= maxAnswers || a.values.Load() >= maxValues }

// explain is why an asking ended with err: the client of MCP does not always
// tell what reading an answer returned.
func (a *asking) explain(err error) error {
	if a.full() {
		return errTooMuch
	}
	return err
}

// RoundTrip bounds the body of the answer, and keeps what it was.
func (a *asking) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPost {
		a.last.Store(&reply{})
	}
	if a.pod.IsValid() {
		request = request.Clone(request.Context())
		request.Header.Set(protocol.HeaderPod, a.pod.String())
	}
	response, err := a.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &bounded{ReadCloser: response.Body, of: a}
	if request.Method == http.MethodPost {
		a.last.Store(replyOf(response, a.bridged))
	}
	return response, nil
}

// bounded is a body of which no more is read than is left of all of them.
type bounded struct {
	io.ReadCloser
	of *asking
}

// Read returns errTooMuch once there is nothing left.
func (b *bounded) Read(p []byte) (int, error) {
	left := maxAnswers - b.of.read.Load()
	if b.of.full() {
		return 0, errTooMuch
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), left)])
	b.of.read.Add(int64(n))
	// Each value but the first of all stands behind one of these.
	for _, mark := range []string{"[", "{", ","} {
		b.of.values.Add(int64(bytes.Count(p[:n], []byte(mark))))
	}
	return n, err
}

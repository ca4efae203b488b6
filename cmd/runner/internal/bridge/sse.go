package bridge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
	"github.com/freehold-dev/freehold/cmd/runner/internal/stdio"
)

// dialTime is how long a server of the HTTP+SSE transport may take to open a stream
// and tell its endpoint, and to read a message.
const dialTime = 15 * time.Second

// Events opens connections to a server of the transport HTTP+SSE at a URL
// (https://modelcontextprotocol.io/specification/2024-11-05/basic/transports#http-with-sse),
// over a transport to a server elsewhere, or that of net/http to the server in the same pod where it is nil.
func Events(at *url.URL, over http.RoundTripper) func() (Conn, error) {
	beside := over == nil
	if beside {
		over = &http.Transport{MaxIdleConnsPerHost: 16, MaxResponseHeaderBytes: 64 << 10}
	}
	client := &http.Client{
		Transport:     over,
		CheckRedirect: sameServer,
	}
	partial := &atomic.Int64{}
	return func() (Conn, error) { return dialEvents(client, at, beside, partial) }
}

// sameServer follows a redirect of a server to another of its paths, as that from /sse to /sse/ that many frameworks
// make. The server is told by its URL, and nothing else in the pod is to be called.
func sameServer(next *http.Request, before []*http.Request) error {
	first := before[0]
	if len(before) > maxRedirects || next.Method != first.Method || next.URL.Scheme != first.URL.Scheme ||
		next.URL.Host != first.URL.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// maxRedirects is how many of them are followed for one request.
const maxRedirects = 3

// maxPartial is how many bytes of events that are not whole yet are in memory at a time,
// of all connections.
const maxPartial = 32 << 20

// events is such a connection.
type events struct {
	client   *http.Client
	named    string // the endpoint, as the server says it; empty before
	endpoint *url.URL
	body     io.ReadCloser
	reader   sse.Reader
	waiting  [][]byte // messages that were not received yet
	buffer   []byte
	ctx      context.Context //nolint:containedctx // the connection's
	cancel   context.CancelFunc
	partial  *atomic.Int64 // what all connections have read of events that are not whole
	mine     int64         // the part of this one

	mu    sync.Mutex
	fault string // for which it is ended, empty for none
	why   string
	ended chan struct{}
	once  sync.Once
}

func dialEvents(client *http.Client, at *url.URL, beside bool, partial *atomic.Int64) (*events, error) {
	ctx, cancel := context.WithCancel(context.Background())
	late := time.AfterFunc(dialTime, cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	request.Header.Set("Accept", media.Events)
	media.Unencoded(request.Header)
	response, err := client.Do(request) //nolint:bodyclose // events closes it
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening the server's stream at %s: %w", at.Path, unaddressed(err))
	}
	e := &events{
		client: client, body: response.Body, ctx: ctx, cancel: cancel, partial: partial,
		buffer: make([]byte, 4<<10), ended: make(chan struct{}),
	}
	e.reader = sse.Reader{Limit: stdio.MaxMessage + 4<<10, Event: e.event}
	if to, redirects := media.Redirects(response); redirects {
		e.End()
		return nil, fmt.Errorf("opening the server's stream at %s: it redirects %s (HTTP %d), which is not followed: write "+
			"the path at which it sends events into spec.path", at.Path, to, response.StatusCode)
	}
	if response.StatusCode != http.StatusOK {
		defer e.End()
		return nil, fmt.Errorf("opening the server's stream at %s: HTTP %d: %s", at.Path, response.StatusCode,
			refusal(response))
	}
	for e.named == "" {
		if err := e.more(); err != nil && e.named == "" {
			e.giveUp()
			return nil, fmt.Errorf("opening the server's stream at %s: it does not name an endpoint: is it of transport sse?",
				at.Path)
		}
	}
	if e.endpoint = endpoint(at, e.named, beside); e.endpoint == nil {
		e.giveUp()
		return nil, fmt.Errorf("opening the server's stream at %s: its endpoint is of another host", at.Path)
	}
	late.Stop()
	return e, nil
}

// maxSaid is how much is read of an answer that is no stream, in bytes.
const maxSaid = 4 << 10

// refusal is what to do about an answer that is no stream of events.
func refusal(response *http.Response) string {
	switch response.StatusCode {
	case http.StatusUnauthorized:
		return "it asks for credentials"
	case http.StatusForbidden:
		said, _ := io.ReadAll(io.LimitReader(response.Body, maxSaid)) //nolint:errcheck // what came is told
		return fmt.Sprintf("%.200q: servers that check Host answer so", bytes.TrimSpace(said))
	}
	return "write the path at which it sends events into spec.path, or transport: streamable-http if it has none"
}

// endpoint is where a server takes messages, nil for a place that it may not name. A server in the same pod may name
// itself as its clients know it; path and query are enough, and nothing else is reached by them.
func endpoint(at *url.URL, named string, beside bool) *url.URL {
	to, err := at.Parse(named)
	if err != nil || to.Opaque != "" {
		return nil
	}
	if beside {
		to.Scheme, to.Host = at.Scheme, at.Host
	}
	if to.Scheme != at.Scheme || to.Host != at.Host {
		return nil
	}
	to.User = nil // net/http would make credentials of it
	return to
}

// unaddressed is an error of net/http without the URL that was asked. Callers read it, and
// the server's id of a session is in the query.
func unaddressed(err error) error {
	if asked, ok := errors.AsType[*url.Error](err); ok {
		return asked.Err
	}
	return err
}

// event takes an event. Before the server has named its endpoint, whatever else it says is for nobody.
func (e *events) event(one sse.Event) error {
	if e.named == "" {
		if one.Named(sse.EndpointName) {
			e.named = string(one.Data)
		}
		return nil
	}
	line := oneLine(bytes.TrimSpace(one.Message()))
	if len(line) == 0 {
		return nil
	}
	if len(one.Text) <= sse.Kept {
		line = bytes.Clone(line)
	}
	e.waiting = append(e.waiting, line)
	return nil
}

// more reads on.
func (e *events) more() error {
	n, err := e.body.Read(e.buffer)
	_, wrong := e.reader.Write(e.buffer[:n])
	if e.holds(int64(e.reader.Held())) > maxPartial {
		wrong = sse.ErrTooLong
	}
	if wrong != nil || err != nil {
		e.holds(0)
	}
	if wrong != nil {
		return wrong
	}
	return err
}

// holds counts what this connection has of an event that is not whole, and returns what
// all have.
func (e *events) holds(n int64) int64 {
	all := e.partial.Add(n - e.mine)
	e.mine = n
	return all
}

// giveUp ends a connection that nobody reads.
func (e *events) giveUp() {
	e.holds(0)
	e.End()
}

// Receive implements Conn.
func (e *events) Receive() ([]byte, error) {
	for len(e.waiting) == 0 {
		switch err := e.more(); {
		case errors.Is(err, sse.ErrTooLong):
			e.over((&stdio.TooLong{}).Error())
			return nil, err
		case err != nil && len(e.waiting) == 0:
			e.over("it ended its stream of events")
			return nil, err
		}
	}
	line := e.waiting[0]
	e.waiting = e.waiting[1:]
	return line, nil
}

// Why implements Conn.
func (e *events) Why() string {
	<-e.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.why
}

// End implements Conn.
func (e *events) End() { e.over("its session ended") }

// fail notes why it is of no more use. Whoever is told of that ends it.
func (e *events) fail(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fault = cmp.Or(e.fault, why.Error())
}

func (e *events) over(why string) {
	e.once.Do(func() {
		e.mu.Lock()
		e.why = cmp.Or(e.fault, why)
		e.mu.Unlock()
		close(e.ended)
		e.cancel()
		_ = e.body.Close() //nolint:errcheck // it was only read
	})
}

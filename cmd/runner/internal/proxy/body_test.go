package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
)

// tardy reads on in the body of a request once the client has the beginning of the answer, as a transport does that
// gets no time in between.
type tardy struct {
	http.RoundTripper
	answered chan struct{}
}

func (d tardy) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Body = &tardyBody{ReadCloser: r.Body, answered: d.answered}
	return d.RoundTripper.RoundTrip(r)
}

type tardyBody struct {
	io.ReadCloser
	answered chan struct{}
	begun    bool
}

func (b *tardyBody) Read(p []byte) (int, error) {
	if b.begun {
		<-b.answered
	}
	b.begun = true
	return b.ReadCloser.Read(p[:1]) // and not with its end
}

// A backend may answer before it has read the body to its end, as soon as it knows the message or refuses it. Then the
// server takes what is left of the body, and nothing of that is a reason to cut the answer.
func TestAnAnswerThatComesBeforeTheEndOfTheBody(t *testing.T) {
	cut := make(chan struct{})
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // else it would wait for the end of the body
		if _, err := r.Body.Read(make([]byte, 1)); err != nil {
			t.Errorf("reading the beginning of the body: %v", err)
		}
		send := events(w)
		send("data: one\n\n")
		select {
		case <-r.Context().Done(): // the proxy has hung up
		case <-cut:
		}
		send("data: two\n\n")
	}))
	end := tardy{b.upstream, make(chan struct{})}
	b.target.forward.Transport = end
	request := b.request(http.MethodPost, "/mcp", "{}", "Content-Type", "application/json")
	request.ContentLength = -1 // in chunks, of which the last says that it is the last
	answer := bufio.NewReader(b.do(request).Body)
	if event := nextEvent(t, answer); event != "data: one\n\n" {
		t.Errorf("the answer begins with %q", event)
	}
	close(end.answered)
	time.AfterFunc(200*time.Millisecond, func() { close(cut) }) // in which the connection would end
	if event := nextEvent(t, answer); event != "data: two\n\n" {
		t.Errorf("the answer goes on with %q", event)
	}
	if rest, err := io.ReadAll(answer); len(rest) > 0 || err != nil {
		t.Errorf("the answer ends with %q, %v", rest, err)
	}
}

func TestBodyThatComesTooLate(t *testing.T) {
	b := front(t, Config{}, "http://127.0.0.1:1")
	r := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
	r.Body, r.ContentLength = io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded)), 1
	w := httptest.NewRecorder()
	flight := b.proxy.traffic.begin(r.Context(), r, pipeline.New(b.target.fail, w, r, budget.New(budget.Default)).Body)
	defer b.proxy.traffic.end(flight)
	_, _ = io.ReadAll(r.Body)
	b.target.fail(w, r.WithContext(flight.ctx), os.ErrDeadlineExceeded)
	wantFault(t, w.Result(), http.StatusRequestTimeout, budget.CodeBodyRefused, "longer than 1m0s")
}

// Of a body that is none the client is told; the backend is not to blame.
func TestABodyThatCannotBeReadIsTheClients(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	_ = text(t, b.call(http.MethodPost, "/mcp", "{}"))
	for name, message := range map[string]string{
		"a chunk without a length":          "zz\r\n",
		"one that is longer than it says":   "2\r\n{} }\r\n0\r\n\r\n",
		"a long one, whose second is wrong": chunk(strings.Repeat("x", 100000)) + "zz\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(patience))
			if _, err := io.WriteString(conn,
				"POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"+message); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			wantFault(t, response, http.StatusBadRequest, budget.CodeBodyRefused, "cannot be read")
			if b.upstream.unreachable.Load() {
				t.Error("the backend is taken for unreachable")
			}
		})
	}
}

// The transport of an attempt at a pod that refuses closes the body. The one of the next attempt reads it still when
// the answer begins.
func TestABodyStaysOpenForTheAttemptThatAnswers(t *testing.T) {
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(w, r.Body)
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	backend.Listener = listener
	backend.Start()
	t.Cleanup(backend.Close)
	to := fixed(t, backend.URL)
	to.pods.lookup = func(context.Context, string) ([]netip.Addr, error) { // the second one is asked first, and refuses
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.0.0.2")}, nil
	}
	body := &late{begun: make(chan struct{})}
	f := newTraffic().flight(t.Context(), httptest.NewRequest(http.MethodPost, "/mcp", nil), nil)
	f.route.begins = true
	request, err := http.NewRequestWithContext(f.ctx, http.MethodPost, backend.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := to.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	close(body.begun)
	if got := text(t, response); got != "late" {
		t.Errorf("it echoes %q", got)
	}
}

// late is a body that comes once the answer has begun.
type late struct {
	begun        chan struct{}
	closed, read atomic.Bool
}

func (l *late) Read(p []byte) (int, error) {
	<-l.begun
	switch {
	case l.closed.Load():
		return 0, errors.New("it was closed")
	case l.read.Swap(true):
		return 0, io.EOF
	}
	return copy(p, "late"), nil
}

func (l *late) Close() error { l.closed.Store(true); return nil }

package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// bench is a proxy on a real listener in front of a backend.
type bench struct {
	t        testing.TB
	proxy    *Proxy
	target   *target
	upstream *Upstream
	server   *http.Server
	url      string
	served   chan error
}

// alone is a proxy in front of one target.
func alone(config Config) *Proxy {
	return New(Process{Log: config.Log}, map[string]Config{"/mcp": config})
}

func serve(t *testing.T, config Config, backend http.Handler) *bench {
	t.Helper()
	upstream := httptest.NewServer(backend)
	t.Cleanup(func() { pipelinetest.Stop(upstream) })
	return front(t, config, upstream.URL)
}

// fixed is a backend at a URL.
func fixed(t testing.TB, at string) *Upstream {
	t.Helper()
	to, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	return Fixed(to)
}

func front(t testing.TB, config Config, upstream string) *bench {
	t.Helper()
	if config.Log = slog.New(slog.DiscardHandler); config.Upstream == nil {
		config.Upstream = fixed(t, upstream)
	}
	// A machine that is busy may take longer to connect than a call is to wait for in a cluster.
	if config.Upstream.remote == nil {
		fallback := config.Upstream.dialer.Fallback
		config.Upstream.dialer = remote.NewDialer(net.Dialer{Timeout: patience}, config.Upstream.Host(), "")
		config.Upstream.dialer.Fallback = fallback
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, proxy: alone(config), url: "http://" + listener.Addr().String(), served: make(chan error, 1)}
	b.target = b.proxy.targets["/mcp"]
	b.upstream = config.Upstream
	b.server = b.proxy.Server()
	go func() { b.served <- b.server.Serve(listener) }()
	t.Cleanup(func() { _ = b.server.Close() })
	return b
}

func (b *bench) request(method, path, body string, headers ...string) *http.Request {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, method, b.url+path, reader)
	if err != nil {
		b.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

func (b *bench) do(request *http.Request) *http.Response {
	b.t.Helper()
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func (b *bench) call(method, path, body string, headers ...string) *http.Response {
	b.t.Helper()
	return b.do(b.request(method, path, body, headers...))
}

func text(t testing.TB, response *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("reading the body after %q: %v", body, err)
	}
	return string(body)
}

// wantFault checks that response is an answer of the proxy's own.
func wantFault(t *testing.T, response *http.Response, status, code int, message string) {
	t.Helper()
	body := text(t, response)
	var got struct {
		JSONRPC string           `json:"jsonrpc"`
		ID      *json.RawMessage `json:"id"`
		Error   struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatalf("status %d with body %q: %v", response.StatusCode, body, err)
	}
	if response.StatusCode != status || got.JSONRPC != "2.0" || got.ID != nil || got.Error.Code != code {
		t.Errorf("got status %d and %s, want status %d and code %d", response.StatusCode, body, status, code)
	}
	if !strings.Contains(got.Error.Message, message) {
		t.Errorf("got message %q, want it to say %q", got.Error.Message, message)
	}
	if contentType := response.Header.Get("Content-Type"); contentType != "application/json" {
		t.Errorf("got content type %q", contentType)
	}
}

// events begins an event stream and returns what writes to it.
func events(w http.ResponseWriter) func(string) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush := func(s string) {
		_, _ = io.WriteString(w, s)
		_ = http.NewResponseController(w).Flush()
	}
	flush("")
	return flush
}

// nextEvent reads up to the next empty line.
func nextEvent(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	var event strings.Builder
	for {
		line, err := r.ReadString('\n')
		event.WriteString(line)
		if err != nil {
			t.Fatalf("reading an event after %q: %v", event.String(), err)
		}
		if line == "\n" {
			return event.String()
		}
	}
}

func wait(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("waited in vain for " + what)
	}
}

// chunk is a part of a body that comes in chunks.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func callerCalled(name string) session.Caller {
	return session.Caller{Issuer: pipelinetest.Caller(name).Issuer, Subject: name}
}

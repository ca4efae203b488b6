package era_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

// backend is a server of the Go SDK that speaks one era or both, and remembers what it was sent.
type backend struct {
	*httptest.Server
	server *mcp.Server

	mu       sync.Mutex
	received []received
	// answer, if not nil, answers in the server's place if it returns true.
	answer func(w http.ResponseWriter, r *http.Request, body []byte) bool
}

type received struct {
	method  string // of HTTP
	session string
	rpc     string
	body    string
	trace   string
}

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result map[string]any  `json:"result"`
	Error  *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
}

type eras int

const (
	legacyOnly eras = iota
	modernOnly
	both
)

func newBackend(t *testing.T, speaks eras) *backend {
	t.Helper()
	b := &backend{server: mcp.NewServer(&mcp.Implementation{Name: "behind", Version: "1"}, &mcp.ServerOptions{
		Instructions:       "be kind",
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})}
	offer(b.server)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return b.server },
		&mcp.StreamableHTTPOptions{Stateless: speaks != legacyOnly, DisableLocalhostProtection: true})
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		m := message{}
		_ = json.Unmarshal(body, &m)
		b.mu.Lock()
		b.received = append(b.received,
			received{r.Method, r.Header.Get("Mcp-Session-Id"), m.Method, string(body), r.Header.Get("Traceparent")})
		answer := b.answer
		b.mu.Unlock()
		if answer != nil && answer(w, r, body) {
			return
		}
		if speaks == modernOnly && r.Header.Get("Mcp-Protocol-Version") != protocol.Modern {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w,
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"send MCP-Protocol-Version: 2026-07-28"}}`)
			return
		}
		handler.ServeHTTP(&onlyModern{w, speaks}, r)
	}))
	t.Cleanup(func() { pipelinetest.Stop(b.Server) })
	return b
}

// onlyModern hides that the SDK's server speaks older revisions as well.
type onlyModern struct {
	http.ResponseWriter
	speaks eras
}

func (o *onlyModern) Write(p []byte) (int, error) {
	if o.speaks != modernOnly {
		return o.ResponseWriter.Write(p)
	}
	text := string(p)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		text = strings.ReplaceAll(strings.ReplaceAll(text, `"`+version+`",`, ""), `,"`+version+`"`, "")
	}
	_, err := o.ResponseWriter.Write([]byte(text))
	return len(p), err
}

func (o *onlyModern) Unwrap() http.ResponseWriter { return o.ResponseWriter }

func (b *backend) answers(f func(w http.ResponseWriter, r *http.Request, body []byte) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = f
}

// says has the backend answer a method of MCP with a status and a text, a stream if it is one, in which ID is that of
// the message.
func (b *backend) says(method string, status int, text string, headers ...string) {
	b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		m := message{}
		if _ = json.Unmarshal(body, &m); m.Method != method {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(text, "data: ") {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", string(m.ID)))
		return true
	})
}

// got returns what of a method of MCP, or of HTTP, has arrived.
func (b *backend) got(method string) []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []received
	for _, r := range b.received {
		if r.rpc == method || r.method == method {
			all = append(all, r)
		}
	}
	return all
}

// behind is a backend that has a proxy with a translator before it.
func behind(t *testing.T, speaks eras) (b *backend, endpoint string) {
	t.Helper()
	b = newBackend(t, speaks)
	return b, front(t, b)
}

// front is a proxy with a translator in front of a backend.
func front(t *testing.T, b *backend) string {
	t.Helper()
	endpoint, _ := drainable(t, b, 0)
	return endpoint
}

func drainable(t *testing.T, b *backend, keepAlive time.Duration) (endpoint string, drain func(calls time.Duration)) {
	t.Helper()
	return frontWith(t, b, func(c *era.Config) { c.KeepAlive = keepAlive })
}

func frontWith(t *testing.T, b *backend, edit func(*era.Config)) (endpoint string, drain func(calls time.Duration)) {
	t.Helper()
	address, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	memory := budget.New(0)
	memory.Calls = share.New(1<<10, 1<<10)
	log := slog.New(slog.DiscardHandler)
	p := proxy.New(proxy.Process{Memory: memory, Log: log}, map[string]proxy.Config{"/mcp": {
		Upstream: proxy.Fixed(address), Log: log,
		Authenticate: func(next http.Handler) http.Handler { return pipelinetest.As("X-Login", next) },
		Translate: func(_ *proxy.Upstream, next, send http.Handler) proxy.Translator {
			config := era.Config{
				Caller:     func(r *http.Request) string { return r.Header.Get("X-Api-Key") },
				Credential: proxy.APIKey, Log: log,
			}
			edit(&config)
			return era.New(config, next, send)
		},
	}})
	server := httptest.NewUnstartedServer(nil)
	server.Config = p.Server()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if bad := recover(); bad != nil {
				if bad != http.ErrAbortHandler { //nolint:errorlint // the value itself is what is thrown
					t.Errorf("it panics: %v", bad)
				}
				panic(http.ErrAbortHandler)
			}
		}()
		p.ServeHTTP(w, r)
	})
	server.Start()
	t.Cleanup(func() { pipelinetest.Stop(server) })
	return server.URL + "/mcp", func(calls time.Duration) {
		p.Drain(server.Config, proxy.DrainTimes{Calls: calls, Last: patience})
	}
}

// connect is a client of the Go SDK. A revision of "" is the newest.
func connect(t *testing.T, endpoint, revision string, options *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	c := mcp.NewClient(&mcp.Implementation{Name: "before", Version: "1"}, options)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint, MaxRetries: -1},
		&mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close() })
	return session
}

// modern is the body of a modern request, whose parameters lack _meta alone.
func modern(id, method, params, meta string) string {
	if params != "" {
		params += ","
	}
	if meta != "" {
		meta += ","
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{` + params + `"_meta":{` + meta +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
}

// send sends a message with headers, and returns the status and the last message of the answer.
func send(t *testing.T, endpoint, body string, headers ...string) (int, message) {
	t.Helper()
	status, all := sendAll(t, endpoint, body, headers...)
	if len(all) == 0 {
		return status, message{}
	}
	return status, all[len(all)-1]
}

func sendAll(t *testing.T, endpoint, body string, headers ...string) (int, []message) {
	t.Helper()
	status, _, all := answerOf(t, endpoint, body, headers...)
	return status, all
}

func requestOf(t *testing.T, endpoint, body string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func answerOf(t *testing.T, endpoint, body string, headers ...string) (int, http.Header, []message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r := requestOf(t, endpoint, body, headers...).WithContext(ctx)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("reading the answer after %q: %v", data, err)
	}
	var all []message
	texts := []string{string(data)}
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		texts = nil
		for line := range strings.SplitSeq(string(data), "\n") {
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				texts = append(texts, text)
			}
		}
	}
	for _, text := range texts {
		if strings.TrimSpace(text) == "" {
			continue
		}
		m := message{}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatalf("HTTP %d with %q: %v", response.StatusCode, text, err)
		}
		all = append(all, m)
	}
	return response.StatusCode, response.Header, all
}

// otherEra is a call of a client of another era than that of the server.
func otherEra(speaks eras) (body string, headers []string) {
	if speaks == modernOnly {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + echo + `}}`, nil
	}
	return modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")
}

// asModern are the headers of a modern request.
func asModern(method, name string) []string {
	headers := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		headers = append(headers, "Mcp-Name", name)
	}
	return headers
}

// absent is a backend where nobody listens until come is called. Its port is bound meanwhile, so that nobody else takes
// it, and connections are refused.
func absent(t *testing.T, b *backend) (come func()) {
	t.Helper()
	handler := b.Config.Handler
	b.Close()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	must(err)
	socket := os.NewFile(uintptr(fd), "absent") //nolint:gosec // a descriptor is no negative number
	t.Cleanup(func() { _ = socket.Close() })
	must(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 9}}))
	at, err := syscall.Getsockname(fd)
	must(err)
	b.URL = fmt.Sprintf("http://127.0.0.9:%d", at.(*syscall.SockaddrInet4).Port)
	return func() {
		must(syscall.Listen(fd, syscall.SOMAXCONN))
		listener, err := net.FileListener(socket)
		must(err)
		_ = socket.Close()
		b.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
		b.Start()
	}
}

package bridge

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/stdio"
	"github.com/freehold-dev/freehold/cmd/runner/internal/stdio/stdiotest"
)

func TestMain(m *testing.M) {
	stdiotest.Main()
	os.Exit(m.Run())
}

// child is a server that behaves in a way.
func child(how string) Server {
	args, env := stdiotest.Command(how)
	var junk atomic.Value // of all children, each of which has a reader
	junk.Store("")
	command := stdio.Command{
		Args: args, Env: env, Words: stdio.NewWords(io.Discard),
		Junk: func(line []byte) { junk.Store(string(line)) },
	}
	return Server{Modern: true, Junk: func() string { return junk.Load().(string) }, Open: func() (Conn, error) {
		p, err := command.Start()
		if err != nil {
			return nil, err
		}
		return Child(p), nil
	}}
}

// wire is the half of a connection on which a server says what its test has it say, until it ends.
type wire struct {
	says chan string
	over chan struct{}
	once sync.Once
}

func newWire(waiting int) *wire {
	return &wire{says: make(chan string, waiting), over: make(chan struct{})}
}

func (w *wire) Receive() ([]byte, error) {
	select {
	case line := <-w.says:
		return []byte(line), nil
	case <-w.over:
		return nil, io.EOF
	}
}

func (w *wire) Why() string { <-w.over; return "the end" }

func (w *wire) End() { w.once.Do(func() { close(w.over) }) }

func (w *wire) answer(m jsonrpc.Message, member string) {
	w.says <- fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, m.ID, member)
}

// front is a bridge that listens at a url, or does not.
type front struct {
	*Bridge
	t   *testing.T
	url string
}

func serve(t *testing.T, config Config) front {
	t.Helper()
	config.Log = slog.New(slog.DiscardHandler)
	b := New(config)
	server := httptest.NewServer(b)
	t.Cleanup(func() {
		b.Close()
		b.Wait(10 * time.Second)
		server.CloseClientConnections()
		server.Close()
	})
	return front{b, t, server.URL + "/mcp"}
}

// bubble runs a test of a bridge that does not listen, and of its programs, in a bubble of synctest, where time passes
// at once.
func bubble(
	t *testing.T, answers func(jsonrpc.Message) string, edit func(*Config, *programs), test func(f front, p *programs),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &programs{up: make(chan struct{}), answers: answers}
		config := Config{
			Server: Server{Modern: true, Open: p.open, Junk: func() string { return "" }}, Log: slog.New(slog.DiscardHandler),
		}
		if edit != nil {
			edit(&config, p)
		}
		b := New(config)
		defer func() { b.Close(); b.Wait(time.Minute) }()
		test(front{Bridge: b, t: t}, p)
	})
}

// answer is a response that was read.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) json() string {
	for line := range strings.Lines(a.body) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, `"id"`) {
			return strings.TrimSpace(data)
		}
	}
	return a.body
}

func (f front) do(method, body string, headers ...string) *http.Response {
	f.t.Helper()
	request, err := http.NewRequestWithContext(f.t.Context(), method, cmp.Or(f.url, "/mcp"), strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	if f.url == "" {
		w := httptest.NewRecorder()
		f.ServeHTTP(w, request)
		return w.Result()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	return response
}

func (f front) post(body string, headers ...string) answer {
	f.t.Helper()
	response := f.do(http.MethodPost, body, headers...)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(data)}
}

const hello = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// begin begins a session.
func (f front) begin() (id string) {
	f.t.Helper()
	a := f.post(hello)
	if a.status != http.StatusOK || a.header.Get(protocol.HeaderSession) == "" {
		f.t.Fatalf("initialize: HTTP %d %s", a.status, a.body)
	}
	return a.header.Get(protocol.HeaderSession)
}

// call calls a method in a session.
func (f front) call(session, id, method string) answer {
	f.t.Helper()
	return f.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`"}`, protocol.HeaderSession, session)
}

// modernly calls a method of the modern era.
func (f front) modernly(id, method, meta string) answer {
	f.t.Helper()
	return f.post(`{"jsonrpc":"2.0","id":`+id+`,"method":"`+method+`","params":{"_meta":{"`+protocol.MetaVersion+`":"`+
		protocol.Modern+`"`+meta+`}}}`,
		protocol.HeaderVersion, protocol.Modern, "Mcp-Method", method)
}

func (f front) want(a answer, status int, parts ...string) {
	f.t.Helper()
	if a.status != status {
		f.t.Errorf("HTTP %d with %.300s, want %d", a.status, a.body, status)
	}
	for _, part := range parts {
		if !strings.Contains(a.body, part) {
			f.t.Errorf("%.600s has no %s", a.body, part)
		}
	}
}

// wantFailed is want of a call that the bridge itself fails: HTTP 502, or 200 where its stream has begun because the
// server was slow.
func (f front) wantFailed(a answer, parts ...string) {
	f.t.Helper()
	status := http.StatusBadGateway
	if strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		status = http.StatusOK
	}
	f.want(a, status, parts...)
}

// result is that of an answer.
func result[T any](t *testing.T, a answer) T {
	t.Helper()
	var m struct {
		ID     json.RawMessage
		Result T
	}
	if err := json.Unmarshal(bytes.TrimSpace([]byte(a.json())), &m); err != nil {
		t.Fatalf("%v in HTTP %d %.300s", err, a.status, a.body)
	}
	return m.Result
}

func within(t *testing.T, most time.Duration, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(most); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within " + most.String() + ": " + what)
		}
	}
}

package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

// behind is a bridge in front of a server that listens.
func behind(t *testing.T, handler http.Handler) front {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	at, err := url.Parse(server.URL + "/sse")
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, Config{Server: Server{Open: Events(at, nil), Junk: func() string { return "" }}})
}

// A server of the SDK's over the transport before streamable HTTP has clients of both.
func TestAServerOfTheTransportBefore(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "long"},
		func(_ context.Context, request *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			for i := range 3 {
				_ = request.Session.NotifyProgress(t.Context(),
					&mcp.ProgressNotificationParams{ProgressToken: request.Params.GetProgressToken(), Progress: float64(i)})
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
		})
	f := behind(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
	for revision, transport := range map[string]mcp.Transport{
		"2025-06-18": &mcp.StreamableClientTransport{Endpoint: f.url},
		"2024-11-05": &mcp.SSEClientTransport{Endpoint: f.url},
	} {
		t.Run(revision, func(t *testing.T) {
			told := make(chan float64, 10)
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					told <- r.Params.Progress
				},
			})
			session, err := client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
			if err != nil {
				t.Fatal(err)
			}
			params := &mcp.CallToolParams{Name: "long"}
			params.SetProgressToken("mine")
			if _, err := session.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			within(t, time.Minute, "three notifications have come", func() bool { return len(told) == 3 })
			if err := session.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	f.want(f.modernly("1", "server/discover", ""), http.StatusBadRequest, "-32022")
	within(t, time.Minute, "what has ended is forgotten", func() bool { return len(f.starter.running()) == 0 })
}

// What a server says where it is not of the transport is told with what to write.
func TestWhatIsNoServerOfTheTransport(t *testing.T) {
	for name, tc := range map[string]struct {
		handler http.HandlerFunc
		says    string
	}{
		"another path": {
			http.NotFound,
			"HTTP 404: write the path at which it sends events into spec.path, or transport: streamable-http if it has none",
		},
		"a check of Host": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no\x1b[1m such host"+strings.Repeat("!", 8<<10), http.StatusForbidden)
		}, `HTTP 403: \"no\\x1b[1m such host` + strings.Repeat("!", 184) + `\": servers that check Host answer so"}`},
		"credentials": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			`HTTP 401: it asks for credentials"}`,
		},
		"a redirect elsewhere": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://mcp.example.com/sse?token=x")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "it redirects to https://mcp.example.com/sse (HTTP 307), which is not followed: write the path at which it " +
			"sends events into spec.path"},
		"a redirect without end": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/sse", http.StatusTemporaryRedirect)
		}, "it redirects to /sse (HTTP 307)"},
		"no endpoint": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "event: message\ndata: {}\n\n")
		}, "it does not name an endpoint: is it of transport sse?"},
		"an endpoint that is no URL of HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "event: endpoint\ndata: mailto:latest\n\n")
		}, "its endpoint is of another host"},
	} {
		t.Run(name, func(t *testing.T) {
			f := behind(t, tc.handler)
			f.want(f.post(hello), http.StatusBadGateway, "-31007", tc.says)
		})
	}
}

// A server in the same pod names the URL that its clients call, which need not lead back to it from here. One elsewhere
// names no other host.
func TestTheEndpointOfAServerIsOnItsHost(t *testing.T) {
	at, err := url.Parse("http://127.0.0.1:8080/sse?a=b")
	if err != nil {
		t.Fatal(err)
	}
	for named, want := range map[string]struct{ beside, elsewhere string }{
		"/messages?session=1": {
			"http://127.0.0.1:8080/messages?session=1",
			"http://127.0.0.1:8080/messages?session=1",
		},
		"messages?session=1": {
			"http://127.0.0.1:8080/messages?session=1",
			"http://127.0.0.1:8080/messages?session=1",
		},
		"?session=1": {
			"http://127.0.0.1:8080/sse?session=1",
			"http://127.0.0.1:8080/sse?session=1",
		},
		"http://127.0.0.1:8080/messages":                {"http://127.0.0.1:8080/messages", "http://127.0.0.1:8080/messages"},
		"http://localhost:8080/messages?session=1":      {"http://127.0.0.1:8080/messages?session=1", ""},
		"https://user:p@mcp.example.com/team/messages/": {"http://127.0.0.1:8080/team/messages/", ""},
		"//169.254.169.254/latest":                      {"http://127.0.0.1:8080/latest", ""},
		"mailto:latest":                                 {"", ""},
		"%zz":                                           {"", ""},
	} {
		for beside, want := range map[bool]string{true: want.beside, false: want.elsewhere} {
			got := ""
			if to := endpoint(at, named, beside); to != nil {
				got = to.String()
			}
			if got != want {
				t.Errorf("%s, beside %v: got %q, want %q", named, beside, got, want)
			}
		}
	}
}

// Frameworks redirect a path to the same with a slash.
func TestARedirectToAnotherPathOfTheServerIsFollowed(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "a"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
		})
	sdk := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)
	f := behind(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/") {
			r.URL.Path += "/"
			http.Redirect(w, r, "http://"+r.Host+r.URL.String(), http.StatusTemporaryRedirect)
			return
		}
		r.URL.Path = strings.TrimSuffix(r.URL.Path, "/")
		sdk.ServeHTTP(w, r)
	}))
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).
		Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: f.url},
			&mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "a"}); err != nil || result.IsError {
		t.Errorf("%+v, %v", result, err)
	}
}

// refusedPosts are what clients are told of a message that the server answers with a status.
var refusedPosts = map[int32]struct {
	code int
	says string
}{
	500: {CodeServerEnded, "Unconfirmed: the server did not say that it took the message (HTTP 500); the call may have " +
		"run"},
	404: {CodeServerUnusable, "ServerUnusable: the server answered a message with HTTP 404: the call has not run"},
	400: {CodeServerUnusable, "ServerUnusable: the server answered a message with HTTP 400: the call has not run"},
	302: {CodeServerUnusable, "ServerUnusable: the server redirects a message to /elsewhere (HTTP 302), which is not " +
		"followed: the call has not run"},
}

// answersPosts is a server that answers each message with a status, with 0 never, and what connects to it.
func answersPosts(t *testing.T, reached, answers *atomic.Int32) (connect func() *peer) {
	t.Helper()
	stay := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
			reached.Add(1)
			w.Header().Set("Location", "/elsewhere")
			if status := answers.Load(); status != 0 {
				w.WriteHeader(int(status))
			} else {
				<-stay
			}
			return
		}
		fmt.Fprint(w, "event: endpoint\ndata: /message\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() { close(stay); server.CloseClientConnections(); server.Close() })
	at, wrong := url.Parse(server.URL + "/sse")
	return func() *peer {
		conn, failed := Events(at, nil)()
		if err := errors.Join(wrong, failed); err != nil {
			t.Fatal(err)
		}
		p := newPeer(conn, true, func(jsonrpc.Message) {}, nil)
		t.Cleanup(p.stop)
		return p
	}
}

// Busy says that nothing was run, so that clients send it again: true only of what was
// not sent. What was sent counts as taken until the server says something else.
func TestAMessageThatWasSentMayHaveRun(t *testing.T) {
	var reached, answers atomic.Int32
	connect := answersPosts(t, &reached, &answers)
	p := connect()
	ask := func(ctx context.Context, id string, answer func([]byte, int, bool)) *jsonrpc.Fault {
		if err := p.ask(ctx, &call{id: []byte(id), method: "tools/call", answer: answer}, nil); err != nil {
			return asFault(err)
		}
		return nil
	}
	if f := ask(t.Context(), "1", func(data []byte, _ int, _ bool) {
		t.Errorf("it is answered with %s", data)
	}); f != nil || len(p.mine(nil)) != 1 {
		t.Errorf("%v, and %d calls wait", f, len(p.mine(nil)))
	}
	within(t, time.Minute, "it is there", func() bool { return reached.Load() == 1 })
	p.take([]byte("1"))
	for status, want := range refusedPosts {
		p = connect() // the one before has ended with some
		answers.Store(status)
		answered := make(chan *jsonrpc.Fault, 1)
		f := ask(t.Context(), "3", func(data []byte, status int, _ bool) {
			answered <- jsonrpc.Fail(status, code(read(data)[0]), "%s", data)
		})
		if f == nil { // it was told later than the message was sent
			f = <-answered
		}
		if f.Status != http.StatusBadGateway || f.Code != want.code || !strings.Contains(f.Message, want.says) {
			t.Errorf("HTTP %d: %d %s", status, f.Code, f.Message)
		}
	}
	p = connect()
	before := reached.Load()
	over, end := context.WithCancel(t.Context())
	end()
	if f := ask(over, "2", nil); f == nil || f.Code != CodeBusy || reached.Load() != before {
		t.Errorf("%v, after %d messages", f, reached.Load()-before)
	}
}

// The query of a server's endpoint is its own id of the session.
func TestCallersReadNoURLOfTheServer(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "event: endpoint\ndata: /message?sessionId=secret\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(func() { up.CloseClientConnections(); up.Close() })
	at, err := url.Parse(up.URL + "/sse?key=secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		f := serve(t, Config{Server: Server{
			Junk: func() string { return "" },
			Open: Events(at, way(func(r *http.Request) (*http.Response, error) {
				if r.Method == method {
					return nil, errors.New("there is no way")
				}
				return http.DefaultTransport.RoundTrip(r)
			})),
		}})
		a := f.post(hello)
		f.want(a, http.StatusBadGateway, "-31007", "there is no way")
		if strings.Contains(a.body, "secret") || strings.Contains(a.body, at.Host) {
			t.Errorf("%s: %s", method, a.body)
		}
	}
}

// way is a transport.
type way func(*http.Request) (*http.Response, error)

func (w way) RoundTrip(r *http.Request) (*http.Response, error) { return w(r) }

func FuzzMessages(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `[{"id":"a","error":{"code":1}}]`,
		`{"method":"notifications/progress","params":{"progressToken":1}}`,
		`{"id":{},"result":null}`, `{"params":{"_meta":{"progressToken":"\u0061"}}}`, `{"id":1,"id":2,"result":1}`,
		"{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) == 0 {
			return
		}
		p := &peer{alone: true, calls: map[string]*call{}, other: func(m jsonrpc.Message) {
			if all := read(m.Text()); len(all) != 1 {
				t.Errorf("%q becomes what is no message", line)
			}
		}}
		for _, m := range read(line) {
			p.dispatch(m)
		}
		// What is swapped in is found there, and the rest stays.
		if other, old := jsonrpc.Swapped(line, []byte("7"), "params", "_meta", protocol.MetaProgress); old != nil {
			if back, was := jsonrpc.Swapped(other, old, "params", "_meta", protocol.MetaProgress); string(was) != "7" ||
				string(back) != string(line) {
				t.Errorf("%q becomes %q and then %q", line, other, back)
			}
		}
	})
}

// A server may begin long events on every connection, and not end one.
func TestEventsThatDoNotEndAreBoundedTogether(t *testing.T) {
	begun := "data: " + strings.Repeat("x", 3<<20)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: endpoint\ndata: /messages\n\n"+begun)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer up.Close()
	defer up.CloseClientConnections()
	at, err := url.Parse(up.URL)
	if err != nil {
		t.Fatal(err)
	}
	over := &http.Transport{}
	defer over.CloseIdleConnections()
	client, partial := &http.Client{Transport: over}, &atomic.Int64{}
	ended, all := make(chan error, 100), []*events{}
	const connections = 16 // of 48 MiB
	for range connections {
		e, err := dialEvents(client, at, true, partial)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
		go func() {
			_, err := e.Receive()
			ended <- err
		}()
	}
	select {
	case err := <-ended:
		if !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("one ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%d bytes are held", partial.Load())
	}
	if n := partial.Load(); n > maxPartial+connections*4<<10 {
		t.Errorf("%d bytes are held", n)
	}
	for _, e := range all {
		e.End()
	}
	for range connections - 1 {
		<-ended
	}
	if n := partial.Load(); n != 0 {
		t.Errorf("%d bytes are counted of connections that have ended", n)
	}
}

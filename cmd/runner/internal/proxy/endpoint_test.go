package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/cmd/runner/internal/cedar"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// bridged are pods, each with a bridge to a server of the transport HTTP+SSE of its own, whose
// tool tells the pod.
func bridged(t *testing.T, n int) *backends {
	t.Helper()
	b := newBackends(t, n)
	for _, pod := range b.pods {
		server := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
		mcp.AddTool(server, &mcp.Tool{Name: "where"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: pod.address.String()}}}, nil, nil
			})
		up := httptest.NewServer(mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil))
		at, err := url.Parse(up.URL + "/sse")
		if err != nil {
			t.Fatal(err)
		}
		front := bridge.New(bridge.Config{
			Server: bridge.Server{Open: bridge.Events(at, nil), Junk: func() string { return "" }},
			Log:    slog.New(slog.DiscardHandler),
		})
		pod.Config.Handler = front
		t.Cleanup(func() {
			front.Close()
			pipelinetest.Stop(up)
		})
	}
	return b
}

// judged has policies in front of the backend, which let everybody call all there is but the tool "drop".
func judged(t *testing.T) func(*Config) {
	t.Helper()
	policies, err := authz.Parse([]authz.Source{
		{Name: "all", Text: `permit(principal, action, resource) unless { resource == Tool::"drop" };`},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) {
		c.Authorize = cedar.New(cedar.Config{
			Policies: policies,
			Refuse: func(w http.ResponseWriter, r *http.Request, next http.Handler, why cedar.Refusal) {
				Deny(w, r, next, Denied{Code: CodeNotPermitted, Message: why.Message})
			},
		})
	}
}

// The clients' streams are at one proxy, and their POSTs at another.
func TestAClientOfHTTPAndSSEPostsToThePodThatHasItsStream(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, secret := bridged(t, 3), secretOf(t)
	to := func(f *bench) http.Handler {
		at, err := url.Parse(f.url)
		if err != nil {
			t.Fatal(err)
		}
		reverse := httputil.NewSingleHostReverseProxy(at)
		reverse.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		return reverse
	}
	streams, messages := to(b.before(secret, judged(t))), to(b.before(secret, judged(t)))
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			streams.ServeHTTP(w, r)
			return
		}
		messages.ServeHTTP(w, r)
	}))
	defer service.Close()
	defer service.CloseClientConnections()
	at := map[string]bool{}
	for range 6 {
		client := mcp.NewClient(&mcp.Implementation{Name: "old", Version: "1"}, nil)
		session, err := client.Connect(ctx, &mcp.SSEClientTransport{Endpoint: service.URL + "/mcp"},
			&mcp.ClientSessionOptions{ProtocolVersion: "2024-11-05"})
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		var pods []string
		for range 3 {
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "where"})
			if err != nil {
				t.Fatal(err)
			}
			pods = append(pods, result.Content[0].(*mcp.TextContent).Text)
		}
		if len(slices.Compact(pods)) != 1 {
			t.Errorf("one session was at %v", pods)
		}
		at[pods[0]] = true
	}
	if len(at) != 3 {
		t.Errorf("6 sessions were at %v", at)
	}
}

func TestTheEndpointOfAStreamIsItsCallers(t *testing.T) {
	b, secret := bridged(t, 2), secretOf(t)
	proxies := []*bench{b.before(secret), b.before(secret)}
	stream := proxies[0].call(http.MethodGet, "/mcp?a=b", "", "Accept", "text/event-stream", "X-Caller", "ann")
	events := bufio.NewReader(stream.Body)
	first := nextEvent(t, events)
	named := eventOf(t, first)
	to, err := url.Parse(string(named.Data))
	if err != nil || stream.StatusCode != http.StatusOK || !named.Named("endpoint") || to.Host != "" || to.Path != "/mcp" {
		t.Fatalf("HTTP %d with %q", stream.StatusCode, first)
	}
	id := to.Query().Get(protocol.QuerySession)
	s, err := proxies[1].target.config.Keys.Open(callerCalled("ann"), id)
	if err != nil || s.ID == "" || strings.Contains(id, s.ID) {
		t.Fatalf("the endpoint names %q: %v", id, err)
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	response := proxies[0].call(http.MethodPost, "/mcp", hello, "X-Caller", "ann")
	_ = text(t, response)
	streamable := response.Header.Get(protocol.HeaderSession)
	query := func(values ...string) string { return "/mcp?" + url.Values{protocol.QuerySession: values}.Encode() }
	for name, tc := range map[string]struct {
		path, caller, header string
	}{
		"another caller":                {query(id), "bob", ""},
		"nobody":                        {query(id), "", ""},
		"the bridge's own id":           {query(s.ID), "ann", ""},
		"the same, its name escaped":    {"/mcp?freehold%53ession=" + s.ID, "ann", ""},
		"the same behind ours":          {query(id, s.ID), "ann", ""},
		"ours, and one in the header":   {query(id), "ann", streamable},
		"ours in the header":            {"/mcp", "ann", id},
		"that of a session of its own":  {query(streamable), "ann", ""},
		"an empty one":                  {query(""), "ann", ""},
		"a long one":                    {query(strings.Repeat("x", 15<<10)), "ann", ""},
		"one that somebody has changed": {query(strings.ToUpper(id)), "ann", ""},
	} {
		var headers []string
		if tc.header != "" {
			headers = []string{protocol.HeaderSession, tc.header}
		}
		response := proxies[1].call(http.MethodPost, tc.path, hello, append(headers, "X-Caller", tc.caller)...)
		if body := text(t, response); response.StatusCode != http.StatusNotFound {
			t.Errorf("%s: HTTP %d with %s", name, response.StatusCode, body)
		}
	}
	if response := proxies[1].call(http.MethodPost, to.String(), hello, "X-Caller",
		"ann"); response.StatusCode != http.StatusAccepted {
		t.Errorf("a message of its caller: HTTP %d with %s", response.StatusCode, text(t, response))
	}
	if answer := nextEvent(t, events); !strings.Contains(answer, `"serverInfo"`) {
		t.Errorf("the stream has %q", answer)
	}
	b.stop(b.pods[slices.IndexFunc(b.pods, func(p *pod) bool { return p.address == s.Pod.Addr() })])
	if response := proxies[1].call(http.MethodPost, to.String(), hello, "X-Caller",
		"ann"); response.StatusCode != http.StatusNotFound {
		t.Errorf("after its pod has gone: HTTP %d with %s", response.StatusCode, text(t, response))
	}
}

// eventOf is the event that a text has.
func eventOf(t *testing.T, text string) (one sse.Event) {
	t.Helper()
	r := &sse.Reader{Limit: maxEndpoint, Event: func(e sse.Event) error {
		one = e
		return nil
	}}
	if _, err := r.Write([]byte(text)); err != nil || one.Text == nil {
		t.Fatalf("%q is no event: %v", text, err)
	}
	return one
}

// What is no bridge's endpoint passes as it is.
func TestOtherStreamsPassAsTheyAre(t *testing.T) {
	sealed := errors.New("sealed")
	for name, tc := range map[string]struct {
		body string
		err  error
	}{
		"a message":        {"event: message\ndata: {}\n\ndata: more\n\n", nil},
		"nothing":          {"", nil},
		"half an event":    {"event: endpoint\ndata: /mcp?freeholdSession=a", nil},
		"another endpoint": {"event: endpoint\ndata: /messages?session=a\n\ndata: more\n\n", nil},
		"no URL":           {"event: endpoint\ndata: %zz\n\n", nil},
		"a long event": {"event: endpoint\ndata: /mcp?freeholdSession=" + strings.Repeat("a", maxEndpoint) +
			"\n\n", nil},
		"an endpoint as the other": {"data: {}\n\nevent: endpoint\ndata: /mcp?freeholdSession=a\n\n", nil},
		"a bridge's, without keys": {"event: endpoint\ndata: /mcp?freeholdSession=a\n\n", sealed},
	} {
		for how, reader := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
			"with its end": iotest.DataErrReader,
		} {
			e := newEndpoint(io.NopCloser(reader(strings.NewReader(tc.body))),
				func(string) (string, error) { return "", sealed })
			got, err := io.ReadAll(e)
			if tc.err == nil && string(got) != tc.body || !errors.Is(err, tc.err) {
				t.Errorf("%s, %s: %q, %v", name, how, got, err)
			}
		}
	}
	for sent, want := range map[string]string{
		"event: endpoint\r\ndata: /mcp?freeholdSession=a\r\n\r\ndata: b\n\n": "event: endpoint\ndata: " +
			"/mcp?freeholdSession=sealed-a\n\ndata: b\n\n",
		": hello\n\nretry: 1\n\nid: 0\ndata:\n\nevent: endpoint\ndata: /mcp?freeholdSession=a\n\n: more": ": hello\n\n" +
			"retry: 1\n\nid: 0\ndata:\n\nevent: endpoint\ndata: /mcp?freeholdSession=sealed-a\n\n: more",
		"event: ping\ndata: {}\n\nevent: endpoint\ndata: /mcp?freeholdSession=a\n\n": "event: ping\ndata: {}\n\nevent: " +
			"endpoint\ndata: /mcp?freeholdSession=sealed-a\n\n",
	} {
		e := newEndpoint(io.NopCloser(iotest.OneByteReader(strings.NewReader(sent))),
			func(id string) (string, error) { return "sealed-" + id, nil })
		if got, err := io.ReadAll(e); strings.ReplaceAll(string(got), "\n\n\n", "\n\n") != want || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
}

func TestWhoIsCalledBelowAPath(t *testing.T) {
	for public, want := range map[string]bool{
		"https://mcp.example.com/files": true, "https://mcp.example.com/": false, "https://mcp.example.com": false, "": false,
	} {
		at, err := url.Parse(public)
		if err != nil {
			t.Fatal(err)
		}
		if got := (Config{Public: *at}).belowPath(); got != want {
			t.Errorf("%q: %v", public, got)
		}
	}
}

// A path in publicURL is one that the client's Ingress removes.
func TestAClientOfHTTPAndSSEBelowAPathPostsBelowIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	f := bridged(t, 1).before(secretOf(t), func(c *Config) { c.Public = url.URL{Path: "/files"} })
	at, err := url.Parse(f.url)
	if err != nil {
		t.Fatal(err)
	}
	ingress := httptest.NewServer(http.StripPrefix("/team/echo", httputil.NewSingleHostReverseProxy(at)))
	defer ingress.Close()
	defer ingress.CloseClientConnections()
	client := mcp.NewClient(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.SSEClientTransport{Endpoint: ingress.URL + "/team/echo/mcp"},
		&mcp.ClientSessionOptions{ProtocolVersion: "2024-11-05"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if _, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "where"}); err != nil {
		t.Error(err)
	}
}

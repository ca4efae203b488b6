package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
	"github.com/freehold-dev/freehold/cmd/runner/internal/target"
)

func overSSE(r *runconfig.Remote) { r.Transport = "sse" }

// old is a server of the transport HTTP+SSE that lets in who presents Bearer ours.
func old(t *testing.T) http.Handler {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "one"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "called"}}}, nil, nil
		})
	sdk := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.SSEOptions{DisableLocalhostProtection: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer ours" || r.Header.Get("Cookie") != "" || r.URL.Path != "/v1/mcp" {
			t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
		}
		sdk.ServeHTTP(w, r)
	})
}

// beside is the proxy of a server at another address.
func beside(first *bench, ip string) target.Config {
	config := first.config
	config.PodIP, config.Peers = ip, netip.AddrPortFrom(netip.MustParseAddr(ip), peersAt(first).Port()).String()
	return config
}

// peersAt is where other proxies call one.
func peersAt(b *bench) netip.AddrPort { return netip.MustParseAddrPort(b.config.Peers) }

// twoProxies are two proxies with bridges of their own, and one URL at which each request
// gets to the other one than the request before.
func twoProxies(t *testing.T, handler http.Handler) (first, second *bench, service string) {
	t.Helper()
	first = elsewhere(t, handler, overSSE)
	second = proxied(t, beside(first, "127.0.0.2"))
	var turns [2]http.Handler
	for i, s := range []*bench{first, second} {
		turns[i] = &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: s.address}) },
			FlushInterval: -1, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		}
	}
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Else a ReverseProxy cuts answers on a busy machine: https://go.dev/issue/40747.
		_ = http.NewResponseController(w).EnableFullDuplex()
		turns[n.Add(1)%2].ServeHTTP(w, r)
	}))
	t.Cleanup(func() { pipelinetest.Stop(server) })
	return first, second, server.URL + "/mcp"
}

func TestAServerElsewhereOfHTTPAndSSEServesClientsOfAllTransportsAtEachProxy(t *testing.T) {
	first, _, service := twoProxies(t, old(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	facts, err := first.learn(ctx)
	if err != nil || facts.Answers.Status != metav1.ConditionTrue || facts.Server.Name != "old" || facts.Tools == nil ||
		*facts.Tools != 1 {
		t.Fatalf("it learned %+v, %v", facts, err)
	}
	for revision, transport := range map[string]mcp.Transport{
		"2026-07-28": &mcp.StreamableClientTransport{Endpoint: service},
		"2025-11-25": &mcp.StreamableClientTransport{Endpoint: service},
		"2024-11-05": &mcp.SSEClientTransport{Endpoint: service},
	} {
		client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		session, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatalf("%s: %v", revision, err)
		}
		for range 6 {
			result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "one"})
			if err != nil || result.Content[0].(*mcp.TextContent).Text != "called" {
				t.Fatalf("%s: %+v, %v", revision, result, err)
			}
		}
		if err := session.Close(); err != nil {
			t.Errorf("%s: ending: %v", revision, err)
		}
	}
}

// A session ends with the proxy that has it, and its address tells nothing to another.
func TestASessionInAProxyEndsWithIt(t *testing.T) {
	first, second, _ := twoProxies(t, old(t))
	post := func(at *bench, id, body string) (int, string, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at.address+"/mcp",
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept", "application/json, text/event-stream")
		request.Header.Set("Content-Type", "application/json")
		request.Header["Mcp-Session-Id"] = strings.Fields(id)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header.Get("Mcp-Session-Id"), string(data)
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	const ping = `{"jsonrpc":"2.0","id":2,"method":"ping"}`
	status, id, text := post(first, "", hello)
	if status != http.StatusOK || id == "" {
		t.Fatalf("HTTP %d, %q with %s", status, id, text)
	}
	if status, _, text = post(second, id, ping); status != http.StatusOK {
		t.Fatalf("through the other proxy: HTTP %d with %s", status, text)
	}
	stream, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+second.address+"/mcp", nil)
	if err != nil {
		t.Fatal(err)
	}
	stream.Header.Set("Accept", "text/event-stream")
	stream.Header.Set("Mcp-Session-Id", id)
	response, err := http.DefaultClient.Do(stream)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("its stream through the other proxy: %+v, %v", response, err)
	}
	defer response.Body.Close()
	// Another proxy has the address: with other keys, as one of another server would.
	gone := beside(first, "127.0.0.3")
	gone.KeysDir = t.TempDir()
	key := []byte(strings.Repeat("x", 32))
	if err := os.WriteFile(filepath.Join(gone.KeysDir, runconfig.SessionKey), key, 0o600); err != nil {
		t.Fatal(err)
	}
	stranger := proxied(t, gone)
	for name, at := range map[string]string{"a stranger": gone.PodIP, "nobody": "127.0.0.4"} {
		id := sealedAt(t, first, at)
		status, _, text = post(second, id, ping)
		if status != http.StatusNotFound || !strings.Contains(text, "SessionNotFound") {
			t.Errorf("%s has the address: HTTP %d with %s", name, status, text)
		}
	}
	strangersReadNothing(t, first, stranger)
}

// Every call is one between proxies, which know each other by the key.
func TestWithoutAKeyNothingElsewhereIsServedOverHTTPAndSSE(t *testing.T) {
	first := elsewhere(t, old(t), overSSE)
	without := first.config
	without.KeysDir, without.Peers = t.TempDir(), free(t)
	keyless := proxied(t, without)
	facts, err := keyless.learn(t.Context())
	f := facts.Answers
	if err == nil || f.Reason != "NotAnswering" || !strings.Contains(f.Message, "the server at spec.url is not asked: ") ||
		!strings.Contains(f.Message, "has no key for session ids") {
		t.Errorf("it says %+v (%v)", f, err)
	}
	if keyless.Ready(t.Context()) || !first.Ready(t.Context()) {
		t.Errorf("ready: %t without a key, %t with one", keyless.Ready(t.Context()), first.Ready(t.Context()))
	}
	strangersReadNothing(t, keyless, first)
}

// strangersReadNothing expects that only who has a key of the proxy's sessions gets to its bridge.
func strangersReadNothing(t *testing.T, first, stranger *bench) {
	t.Helper()
	for name, config := range map[string]*tls.Config{
		"no key":      {InsecureSkipVerify: true},
		"another key": peersOf(t, stranger),
	} {
		conn, err := tls.Dial("tcp", first.config.Peers, config)
		if err == nil {
			_, _ = fmt.Fprint(conn, "GET /mcp HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\r\n")
			if n, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("who has %s reads %d bytes", name, n)
			}
			_ = conn.Close()
		}
	}
}

func keysOf(s *bench) *session.Keys {
	return session.Follow(s.config.KeysDir, s.Server.Proxy.SessionSecret, s.Server.Server.UID)
}

func sealedAt(t *testing.T, s *bench, address string) string {
	t.Helper()
	pod := netip.AddrPortFrom(netip.MustParseAddr(address), peersAt(s).Port())
	id, err := keysOf(s).Seal(session.Caller{}, session.Session{Pod: pod, ID: "x", Issued: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func peersOf(t *testing.T, s *bench) *tls.Config {
	t.Helper()
	config, err := keysOf(s).Peers()
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// beginning is a server that says something as the beginning of its stream.
func beginning(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
}

func TestWhatIsWrongWithAServerElsewhereOfHTTPAndSSE(t *testing.T) {
	var reached atomic.Bool
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(inside.Close)
	for name, tc := range map[string]struct {
		handler      http.Handler
		edit         func(*runconfig.Remote)
		reason, says string
	}{
		"credentials": {
			plain(http.StatusUnauthorized), nil, "CredentialsRefused",
			"(HTTP 401): correct spec.headers",
		},
		"broken": {plain(http.StatusBadGateway), nil, "NotAnswering", "answers with HTTP 502"},
		"no events": {
			plain(http.StatusMethodNotAllowed), nil, "NotMCP",
			"write the URL of its stream of events into spec.url",
		},
		"a redirect": {
			answer(http.StatusTemporaryRedirect, "Location", inside.URL, ""), nil, "NotMCP",
			"which is not followed",
		},
		"an endpoint elsewhere": {
			beginning("event: endpoint\ndata: " + inside.URL + "/messages\n\n"), nil, "NotMCP",
			"its endpoint is of another host",
		},
		"a huge endpoint": {
			beginning("event: endpoint\ndata: /" + strings.Repeat("x", 5<<20) + "\n\n"), nil, "NotMCP",
			"does not name an endpoint",
		},
		"headers without end": {
			answer(http.StatusOK, "X-Long", strings.Repeat("x", 128<<10), ""), nil, "NotAnswering",
			"does not answer",
		},
		"an address that is not": {
			beginning(""), func(r *runconfig.Remote) { r.AllowedNetworks = nil },
			"AddressNotAllowed", "is no public address",
		},
		"not trusted": {beginning(""), func(r *runconfig.Remote) { r.CABundle = nil }, "NotTrusted", "spec.caBundleRef"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each waits for a bridge that begins a session again after a pause
			s := elsewhere(t, tc.handler, overSSE, func(r *runconfig.Remote) {
				if tc.edit != nil {
					tc.edit(r)
				}
			})
			facts, err := s.learn(t.Context())
			if f := facts.Answers; err == nil || f.Status != metav1.ConditionFalse || f.Reason != tc.reason ||
				!strings.Contains(f.Message, tc.says) {
				t.Errorf("it says %+v (%v), want %s: %s", f, err, tc.reason, tc.says)
			}
			if reached.Load() {
				t.Error("another host was reached")
			}
			if name == "credentials" && s.Ready(t.Context()) {
				t.Error("it is ready")
			}
		})
	}
}

// A bridge gives each caller a share; no server elsewhere is told who calls.
func TestOnlyABridgeIsToldWhoCalls(t *testing.T) {
	for transport, want := range map[string]bool{"sse": true, "streamable-http": false} {
		if got := (runconfig.Target{Remote: &runconfig.Remote{Transport: transport}}).Bridged(); got != want {
			t.Errorf("%s: %t", transport, got)
		}
	}
}

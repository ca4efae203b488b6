package probe

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/target"
)

// elsewhere is the real proxy in front of a server with TLS and a certificate of its
// own, to which it presents Bearer ours.
func elsewhere(t *testing.T, handler http.Handler, edit ...func(*runconfig.Remote)) *bench {
	t.Helper()
	up := httptest.NewTLSServer(handler)
	t.Cleanup(up.Close)
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		runconfig.CAFile: pem.EncodeToMemory(
			&pem.Block{Type: "CERTIFICATE", Bytes: up.Certificate().Raw}),
		runconfig.HeaderFile("Authorization"): []byte("Bearer ours\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	to := runconfig.Remote{
		URL: up.URL + "/v1/mcp", Transport: "streamable-http", AllowedNetworks: []string{"127.0.0.0/8"},
		CABundle: &runconfig.Key{Name: "ca", Key: "ca.crt"},
		Headers:  []runconfig.Header{{Name: "Authorization", Secret: &runconfig.Key{Name: "token", Key: "token"}}},
	}
	for _, e := range edit {
		e(&to)
	}
	return proxied(t, target.Config{
		Run: runconfig.Target{
			Server: runconfig.Server{Kind: "MCPRemoteProxy", Namespace: "team", Name: "echo"},
			Remote: &to, Proxy: runconfig.Proxy{Port: 8000, Path: "/mcp"},
		},
		RemoteDir: dir, KeysDir: sessionKey(t), Peers: free(t), PodIP: "127.0.0.1",
	})
}

func TestAServerElsewhereIsCalledWithItsOwnCredentials(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "one"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{DisableLocalhostProtection: true})
	var wrong atomic.Pointer[string]
	s := elsewhere(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked := r.Header.Get("Authorization") != "Bearer ours" ||
			r.Header.Get("Cookie")+r.Header.Get("X-Forwarded-For")+r.Header.Get("X-Forwarded-Host")+r.Header.Get("Origin") != ""
		if leaked || r.URL.Path != "/v1/mcp" || !strings.HasPrefix(r.Host, "127.0.0.1:") {
			text := r.Host + r.URL.Path
			for name, values := range r.Header {
				text += "\n" + name + ": " + strings.Join(values, ", ")
			}
			wrong.Store(&text)
		}
		sdk.ServeHTTP(w, r)
	}))
	facts, err := s.learn(t.Context())
	if err != nil || facts.Answers.Status != metav1.ConditionTrue || facts.Server.Name != "far" || facts.Tools == nil ||
		*facts.Tools != 1 {
		t.Errorf("it learned %+v, %v", facts, err)
	}
	if !s.Ready(t.Context()) {
		t.Error("it is not ready")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.address+"/mcp",
		strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer of-a-client", "Cookie": "a=b",
		"X-Forwarded-For": "1.2.3.4", "Origin": "http://" + s.address, "Host": "x",
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if text := wrong.Load(); text != nil {
		t.Errorf("the server elsewhere got:\n%s", *text)
	}
}

func TestAServerThatIsDownIsToldApartFromOneThatRefuses(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	for name, tc := range map[string]struct {
		handler http.Handler
		edit    func(*runconfig.Remote)
		reason  string
		says    string
	}{
		"down": {
			nil, func(r *runconfig.Remote) { r.URL = down.URL }, "NotAnswering",
			"the server at spec.url does not answer (it refuses connections)",
		},
		"an unknown name": {
			nil, func(r *runconfig.Remote) { r.URL = "https://no-such-name.invalid/mcp" },
			"NotAnswering", "its name cannot be resolved",
		},
		"broken": {plain(http.StatusBadGateway), nil, "NotAnswering", "answers with HTTP 502"},
		"credentials": {
			plain(http.StatusUnauthorized), nil, "CredentialsRefused",
			"refuses the credentials that the proxy presents (HTTP 401): correct spec.headers",
		},
		"rights": {plain(http.StatusForbidden), nil, "CredentialsRefused", "HTTP 403"},
		"not trusted": {
			plain(http.StatusOK), func(r *runconfig.Remote) { r.CABundle = nil }, "NotTrusted",
			"name who issued it in spec.caBundleRef",
		},
		"an address that is not": {
			plain(http.StatusOK), func(r *runconfig.Remote) { r.AllowedNetworks = nil },
			"AddressNotAllowed", "127.0.0.1 is no public address: write another url",
		},
		"no MCP": {
			plain(http.StatusNotFound), nil, "NotMCP",
			"answers, but not MCP (HTTP 404): write the URL of its MCP endpoint into spec.url",
		},
		"words of ours": {
			answer(http.StatusBadGateway, "Content-Type", "application/json",
				`{"jsonrpc":"2.0","id":1,"error":{"code":-31007,"message":"ServerUnusable: NotTrusted: call 555"}}`),
			nil, "NotAnswering", "answers with HTTP 502",
		},
		"a redirect": {
			answer(http.StatusPermanentRedirect, "Location", "https://mcp.example.com/mcp", ""), nil, "NotMCP",
			"redirects to https://mcp.example.com/mcp (HTTP 308), which is not followed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := elsewhere(t, tc.handler, func(r *runconfig.Remote) {
				if tc.edit != nil {
					tc.edit(r)
				}
			})
			facts, err := s.learn(t.Context())
			if f := facts.Answers; err == nil || f.Status != metav1.ConditionFalse || f.Reason != tc.reason ||
				!strings.Contains(f.Message, tc.says) {
				t.Errorf("it says %+v (%v), want %s: %s", f, err, tc.reason, tc.says)
			}
			if s.Ready(t.Context()) {
				t.Error("it is ready")
			}
			if strings.Contains(facts.Answers.Message+err.Error(), "ours") {
				t.Errorf("the header is told: %s, %v", facts.Answers.Message, err)
			}
		})
	}
}

// A redirect that were followed would lead into the network that is closed.
func TestARedirectIsNotFollowed(t *testing.T) {
	var reached atomic.Bool
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	defer inside.Close()
	s := elsewhere(t, answer(http.StatusTemporaryRedirect, "Location", inside.URL, ""))
	response, err := http.Post("http://"+s.address+"/mcp", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusBadGateway || response.Header.Get("Location") != "" || reached.Load() {
		t.Errorf("it answers %s with %v, and what it leads to was reached: %t", response.Status, response.Header,
			reached.Load())
	}
}

// Callers may bring a key of theirs to a server to which the spec presents none: the proxy serves them, and the first
// who is answered makes what is said another one.
func TestAServerElsewhereThatWantsAKeyOfCallers(t *testing.T) {
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		s := elsewhere(t, plain(status), func(r *runconfig.Remote) { r.Headers = nil })
		if !s.Ready(t.Context()) {
			t.Errorf("HTTP %d: callers do not reach it", status)
		}
		if facts, err := s.learn(t.Context()); err == nil || facts.Answers.Reason != "CredentialsRefused" {
			t.Errorf("HTTP %d: before a caller it says %+v", status, facts.Answers)
		}
		s.Asked = heardAt(time.Now)
		if facts, err := s.learn(t.Context()); err != nil || facts.Answers.Status != metav1.ConditionTrue {
			t.Errorf("HTTP %d: after a caller it says %+v", status, facts.Answers)
		}
	}
}

// A server that answers, and refuses its lists for now, is no less MCP for that.
func TestListsThatAreAskedForTooOften(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "one"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
	s := elsewhere(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/list" {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		sdk.ServeHTTP(w, r)
	}))
	if facts, err := s.learn(t.Context()); err != nil || !strings.Contains(facts.Answers.Message, "HTTP 429") {
		t.Errorf("it says %+v, %v", facts.Answers, err)
	}
}

package probe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// serving is a server of the MCP Go SDK with two tools and a prompt.
func serving(t *testing.T, name string, options *mcp.StreamableHTTPOptions) *bench {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1.2.3"}, nil)
	for _, tool := range []string{"one", "two"} {
		mcp.AddTool(server, &mcp.Tool{Name: tool},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
	}
	server.AddPrompt(&mcp.Prompt{Name: "p"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) { return nil, nil })
	return at(t, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, options))
}

func TestWhatABackendSaysOfItself(t *testing.T) {
	want := backend.Facts{
		Answers: conditions.True("Answers", "the backend answers MCP"),
		Server:  &v1alpha1.ServerInfo{Name: "bench", Version: "1.2.3"},
		Tools:   new(int32(2)), Prompts: new(int32(1)), Resources: new(int32(0)),
	}
	nobody := &runconfig.Authorization{
		Policies: []runconfig.Policy{{Name: "nobody", Text: `forbid(principal, action, resource);`}},
	}
	both, modern := []string{"2025-11-25", "2026-07-28"},
		&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true}
	for name, tc := range map[string]struct {
		options  *mcp.StreamableHTTPOptions
		guard    func(*runconfig.Proxy)
		versions []string
	}{
		"modern and legacy": {modern, func(*runconfig.Proxy) {}, both},
		"legacy, translated": {
			&mcp.StreamableHTTPOptions{DisableLocalhostProtection: true},
			func(*runconfig.Proxy) {}, both,
		},
		"policies that let nobody": {modern, func(p *runconfig.Proxy) { p.Authorization = nobody }, both},
		"a login, and who is in it": {modern, func(p *runconfig.Proxy) {
			p.Authentication = &runconfig.Authentication{
				Issuer:   "https://login.example.com",
				Resource: "https://mcp.example.com",
			}
		}, both},
	} {
		t.Run(name, func(t *testing.T) {
			var got backend.Facts
			s := serving(t, "bench", tc.options)
			tc.guard(&s.Server.Proxy)
			through(t, s).Ask(t.Context(), slog.New(slog.DiscardHandler), func(facts backend.Facts) { got = facts })
			want.ProtocolVersions = tc.versions
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A backend that is not up when the proxy asks first which eras it speaks is asked again before clients call: they may
// be of the other era, and so may the one of the status. So is one that begins no session yet.
func TestAProxyIsReadyOnceItServesBothEras(t *testing.T) {
	ways := map[string]func(ctx context.Context, s *bench) []string{
		"readiness": func(ctx context.Context, s *bench) []string {
			for !s.Ready(ctx) && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			facts, _ := s.learn(ctx)
			return facts.ProtocolVersions
		},
		"the status": func(ctx context.Context, s *bench) (told []string) {
			s.Ask(ctx, slog.New(slog.DiscardHandler), func(facts backend.Facts) { told = facts.ProtocolVersions })
			return told
		},
	}
	for name, options := range map[string]*mcp.StreamableHTTPOptions{
		"server/discover": {DisableLocalhostProtection: true},
		"initialize":      {Stateless: true, DisableLocalhostProtection: true},
	} {
		for of, wait := range ways {
			t.Run(of+" of one without an answer to its first two "+name, func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int32
				sdk := mcp.NewServer(&mcp.Implementation{Name: "late", Version: "1"}, nil)
				handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk }, options)
				s := through(t, at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if strings.Contains(string(body), name) && asked.Add(1) <= 2 {
						w.WriteHeader(http.StatusServiceUnavailable)
						return
					}
					r.Body = io.NopCloser(bytes.NewReader(body))
					handler.ServeHTTP(w, r)
				})))
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if versions := wait(ctx, s); !slices.Equal(versions, []string{"2025-11-25", "2026-07-28"}) {
					t.Errorf("clients of another era than %q are refused", versions)
				}
			})
		}
	}
}

// A list that fails once, as where a pod ends meanwhile, would be missing from the status until the next rollout. One
// that always fails is.
func TestAListThatFailsIsAskedForAgain(t *testing.T) {
	for name, failures := range map[string]int32{"once": 1, "always": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var failed atomic.Int32
			sdk := mcp.NewServer(&mcp.Implementation{Name: "weak", Version: "1"}, nil)
			sdk.AddPrompt(&mcp.Prompt{Name: "p"},
				func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) { return nil, nil })
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk },
				&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
			s := through(t, at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Mcp-Method") == "prompts/list" && failed.Add(1) <= failures {
					w.WriteHeader(http.StatusBadGateway)
					return
				}
				handler.ServeHTTP(w, r)
			})))
			var told []backend.Facts
			s.Ask(t.Context(), slog.New(slog.DiscardHandler), func(facts backend.Facts) { told = append(told, facts) })
			if len(told) != 1 || told[0].Answers.Status != metav1.ConditionTrue || (told[0].Prompts != nil) != (failures == 1) {
				t.Errorf("it told %+v after %d failures", told, failed.Load())
			}
		})
	}
}

// Where the backend never tells, those are served who need no translation.
func TestDetectionIsNotWaitedForWithoutEnd(t *testing.T) {
	s := withoutSessions(t, http.StatusServiceUnavailable)
	if err := s.reached(t.Context()); !errors.Is(err, errOneEra) {
		t.Errorf("it waits for nothing: %v", err)
	}
	s.oneEraSince.Add(-int64(detectionTime))
	if facts, err := s.learn(t.Context()); err != nil || !slices.Equal(facts.ProtocolVersions, []string{"2026-07-28"}) {
		t.Errorf("it waits without end: %v, %v", facts.ProtocolVersions, err)
	}
	asking, stop := context.WithCancel(t.Context())
	stop()
	s.Ask(asking, slog.New(slog.DiscardHandler), func(backend.Facts) {})
	if s.oneEraSince.Load() != 0 {
		t.Error("the time of pods of before counts when others are asked")
	}
}

// withoutSessions is a modern server that answers initialize with a status, behind the proxy.
func withoutSessions(t *testing.T, status int) *bench {
	t.Helper()
	sdk := mcp.NewServer(&mcp.Implementation{Name: "modern", Version: "1"}, nil)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return sdk },
		&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
	return through(t, at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"initialize"`) {
			w.WriteHeader(status)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		handler.ServeHTTP(w, r)
	})))
}

// What begins no session, and will not the next moment, is not waited for.
func TestABackendThatRefusesSessionsIsNotWaitedFor(t *testing.T) {
	if err := withoutSessions(t, http.StatusBadRequest).reached(t.Context()); err != nil {
		t.Error(err)
	}
}

// The proxy is ready once it has reached the backend of before, and begins a session with
// it; what stands in its place is asked anew.
func TestABackendOfBeforeIsNotWhatIsReported(t *testing.T) {
	var now atomic.Pointer[http.Handler]
	become := func(version string) {
		server := mcp.NewServer(&mcp.Implementation{Name: "echo", Version: version}, nil)
		var handler http.Handler = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
			&mcp.StreamableHTTPOptions{DisableLocalhostProtection: true})
		now.Store(&handler)
	}
	become("1")
	s := through(t, at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		(*now.Load()).ServeHTTP(w, r)
	})))
	if !s.Ready(t.Context()) {
		t.Fatal("it does not reach the backend")
	}
	if first, err := s.learn(t.Context()); err != nil || first.Server == nil || first.Server.Version != "1" {
		t.Fatalf("it is %+v: %v", first.Server, err)
	}
	become("2")
	facts, err := s.learn(t.Context())
	if err != nil || facts.Server == nil || facts.Server.Version != "2" {
		t.Errorf("it is %+v: %v", facts.Server, err)
	}
}

const port = "the backend at port 8080 "

// notMCP is what may be where MCP should, and what is said of it.
var notMCP = map[string]struct {
	backend http.Handler
	reason  string
	says    string
	ready   bool // the proxy takes calls
}{
	"another path": {
		plain(http.StatusNotFound), "NotMCP",
		port + "answers, but not MCP at /mcp (HTTP 404): write the path of its MCP endpoint into spec.path, or transport: " +
			"sse if the image speaks the older transport only", false,
	},
	"another method": {
		plain(http.StatusMethodNotAllowed), "NotMCP",
		port + "answers, but not MCP at /mcp (HTTP 405): write the path", false,
	},
	"a slash too few": {
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer(http.StatusTemporaryRedirect, "Location", "http://"+r.Host+"/mcp/", "").ServeHTTP(w, r)
		}), "NotMCP",
		"the backend redirects to /mcp/ (HTTP 307), which is not followed: write the path of its MCP endpoint into spec.path",
		false,
	},
	"a slash too few, by the name that clients call": {
		answer(http.StatusTemporaryRedirect, "Location", "http://echo-proxy.team.svc:8000/mcp/", ""), "NotMCP",
		"the backend redirects to /mcp/ (HTTP 307), which is not followed: write the path of its MCP endpoint into spec.path",
		false,
	},
	"a redirect to odd places": {
		answer(http.StatusFound, "Location", "/\u202emcp", ""), "NotMCP",
		"the backend redirects to /%E2%80%AEmcp (HTTP 302)", false,
	},
	"a redirect to another host": {
		answer(http.StatusFound, "Location", "https://login.example.com/?next=x", ""), "NotMCP",
		"the backend redirects to https://login.example.com/ (HTTP 302)", false,
	},
	"a web page": {
		answer(http.StatusOK, "Content-Type", "text/html; charset=utf-8", "<html>"), "NotMCP",
		"(HTTP 200, text/html): write the port and path of its MCP endpoint into spec.port and spec.path", false,
	},
	"JSON of another kind": {
		answer(http.StatusOK, "Content-Type", "application/json", `{"hello":1}`), "NotMCP",
		"(HTTP 200, application/json)", false,
	},
	"a broken one": {
		plain(http.StatusInternalServerError), "NotAnswering",
		port + "answers MCP at /mcp with HTTP 500: look at its log", false,
	},
	"one that refuses": {
		answer(http.StatusBadRequest, "Content-Type", "application/json",
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no key"}}`),
		"NotMCP", "(HTTP 400, JSON-RPC error -32000): it refuses an initialize of MCP; where it wants credentials, HTTP " +
			"401 would say so", true,
	},
	"one of the older transport": {
		plain(http.StatusBadRequest), "NotMCP",
		"(HTTP 400): it refuses an initialize of MCP: write transport: sse if the image speaks the older transport; where " +
			"it wants credentials", true,
	},
	"one that breaks off": {
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }), "NotAnswering",
		port + "does not answer (it broke the connection off): look at its log, and write the port on which the image " +
			"listens into spec.port", false,
	},
	"one that asks who is there": {
		plain(http.StatusUnauthorized), "Answers",
		"the backend asks for credentials (HTTP 401), and was asked without one, so what it offers is not known", true,
	},
	"one that checks Host": {
		answer(http.StatusForbidden, "Content-Type", "text/plain",
			"Access is only\x1b[1m allowed at\nlocalhost:8080"+strings.Repeat("!", 8<<10)), "Answers",
		"the backend refuses the question (HTTP 403: Access is only[1m allowed at localhost:8080!!", true,
	},
	"one that checks Host and says so in JSON-RPC": {
		answer(http.StatusForbidden, "Content-Type", "application/json",
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Invalid Host"}}`), "Answers",
		"the backend refuses the question (HTTP 403: Invalid Host), so what it offers is not known: servers that check " +
			"Host answer so, see docs/how-to/transports.md", true,
	},
	"one that forbids in JSON": {
		answer(http.StatusForbidden, "Content-Type", "application/json", `{"error":"Invalid Host"}`), "Answers",
		`(HTTP 403: {"error":"Invalid Host"}), so what`, true,
	},
	"one that forbids without a word": {
		answer(http.StatusForbidden, "Content-Type", "text/plain", ""), "Answers",
		"the backend refuses the question (HTTP 403), so what it offers is not known: servers", true,
	},
	"one that goes on and on": {http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		endless(w, `{"jsonrpc":"2.0","id":1,"result":[`, "{},")
	}), "NotMCP", "more than is read", false},
}

func TestWhatIsSaidOfABackendThatDoesNotAnswerMCP(t *testing.T) {
	for name, tc := range notMCP {
		t.Run(name, func(t *testing.T) {
			s := through(t, at(t, tc.backend))
			facts, err := s.learn(t.Context())
			got := facts.Answers
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.says) ||
				(got.Status == metav1.ConditionTrue) != (err == nil) {
				t.Errorf("%s, %s: %s (%v)\nwant %s", got.Status, got.Reason, got.Message, err, tc.says)
			}
			if again, _ := s.learn(t.Context()); again.Answers != got {
				t.Errorf("it says %v, and then %v", got, again.Answers)
			}
			if ready := s.Ready(t.Context()); ready != tc.ready {
				t.Errorf("ready: %v", ready)
			}
		})
	}
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	nobody := at(t, http.NotFoundHandler())
	nobody.address = down.Listener.Addr().String()
	facts, _ := through(t, nobody).learn(t.Context())
	if want := port + "does not answer (it refuses connections): "; !strings.HasPrefix(facts.Answers.Message, want) {
		t.Errorf("got %v", facts.Answers)
	}
}

func TestABackendIsAskedOnAClientsWay(t *testing.T) {
	var host atomic.Value
	s := through(t, at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host.Store(r.Header.Get("X-Forwarded-Proto") + "://" + r.Header.Get("X-Forwarded-Host"))
		w.WriteHeader(http.StatusUnauthorized)
	})))
	if !s.Ready(t.Context()) || host.Load() != "http://echo-proxy.team.svc:8000" {
		t.Errorf("it was asked as %v", host.Load())
	}
}

func TestWhyABackendDoesNotAnswerIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		s := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			// An asking is a server/discover and an initialize.
			if n := asked.Add(1); n <= 2*patience {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		}))
		var told []string
		s.Ask(t.Context(), slog.New(slog.DiscardHandler),
			func(facts backend.Facts) { told = append(told, facts.Answers.Reason) })
		if want := []string{"NotMCP", "Answers"}; !slices.Equal(told, want) {
			t.Errorf("told %v", told)
		}
	})
}

func TestABackendThatIsNotReachableYetIsNotCalledBroken(t *testing.T) {
	for name, tc := range map[string]struct {
		reason   string
		attempts int
		since    time.Duration
		told     bool
	}{
		"something else answers":    {"NotMCP", patience, 2 * time.Second, true},
		"too early for that":        {"NotMCP", patience - 1, time.Second, false},
		"nothing answers":           {"NotAnswering", patience + 2, 2 * dnsDenial, true},
		"DNS may not know it yet":   {"NotAnswering", patience, 2 * time.Second, false},
		"nor a pod of it":           {"NotAsked", patience, 2 * time.Second, false},
		"it has not answered twice": {"NotAnswering", 2, 2 * askTimeout, false},
		"each asking takes long":    {"NotAnswering", 2, patience * askTimeout, true},
	} {
		if got := lasts(tc.reason, tc.attempts, tc.since); got != tc.told {
			t.Errorf("%s: told is %v", name, got)
		}
	}
}

func TestNothingIsAskedOfABackendThatIsNotServed(t *testing.T) {
	s := at(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	s.Server.NotEnforced = []string{"spec.authzConfig"}
	s.Ask(t.Context(), slog.New(slog.DiscardHandler), func(facts backend.Facts) { t.Errorf("learned %v", facts) })
	if !s.Ready(t.Context()) {
		t.Error("it is not ready: callers would not reach the answer")
	}
}

func TestNamesAreMadeFitForTheStatus(t *testing.T) {
	facts, err := serving(t, "\u202eecho\x07",
		&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true}).learn(t.Context())
	if err != nil || facts.Server.Name != "echo" {
		t.Errorf("got %+v, %v", facts.Server, err)
	}
}

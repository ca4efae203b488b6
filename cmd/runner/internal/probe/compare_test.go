package probe

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// schema is that of a tool that requires arguments, and knows others.
func schema(required []any, known ...string) map[string]any {
	properties := map[string]any{}
	for _, name := range known {
		properties[name] = map[string]any{"type": "string"}
	}
	for _, name := range required {
		properties[name.(string)] = map[string]any{"type": "string"}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// offering is a server with tools, whose list has pages of two.
func offering(tools map[string]map[string]any) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "x", Version: "1"}, &mcp.ServerOptions{
		PageSize: 2, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
	})
	for name, input := range tools {
		server.AddTool(&mcp.Tool{Name: name, InputSchema: input},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
	}
	return server
}

func over(server *mcp.Server) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true})
}

// told is what Compare tells, with the time at which it does.
type told struct {
	after time.Duration
	v1alpha1.CandidateStatus
}

// barred is what is told of a candidate that asks for credentials.
func barred(found v1alpha1.CandidateStatus) v1alpha1.CandidateStatus {
	found.Message = "the backend asks for credentials (HTTP 401), and was asked without one, so what it offers is not " +
		"known"
	return found
}

// uncompared is what is told of a candidate that answers while what gets the calls does not.
var uncompared = v1alpha1.CandidateStatus{Answers: true, Reason: v1alpha1.ReasonNotAsked, Message: notCompared}

// silent is what is told of a candidate that answers with an error.
var silent = v1alpha1.CandidateStatus{
	Reason:  v1alpha1.ReasonNotAnswering,
	Message: "the backend at port 8080 answers MCP at /mcp with HTTP 502: look at its log",
}

// answersBetween answers as a server does from one time on until another, and else with an error.
func answersBetween(from, until time.Duration, server *mcp.Server) http.Handler {
	began := time.Now()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if since := time.Since(began); since < from || since >= until {
			plain(http.StatusBadGateway).ServeHTTP(w, r)
			return
		}
		over(server).ServeHTTP(w, r)
	})
}

func TestWhatACandidateHasLost(t *testing.T) {
	before := map[string]map[string]any{
		"a": schema([]any{"x"}), "b": schema(nil, "y"), "c": schema([]any{"x"}), "d": schema(nil), "e": schema([]any{"x"}),
	}
	lost := func(added int32, names ...string) v1alpha1.CandidateStatus {
		return v1alpha1.CandidateStatus{
			Answers: true, Lost: int32(len(names)), LostTools: names, Added: added, //nolint:gosec // few
		}
	}
	full := offering(before)
	for name, tc := range map[string]struct {
		candidate, incumbent func() http.Handler
		there                func(since time.Duration) bool
		want                 []told
	}{
		"nothing, in another order": {want: []told{{0, lost(0)}}},
		"one more": {
			candidate: func() http.Handler {
				more := map[string]map[string]any{"f": schema(nil)}
				for name, input := range before {
					more[name] = input
				}
				return over(offering(more))
			},
			want: []told{{0, lost(1)}},
		},
		"a tool, an argument that callers give, and one that they do not know": {
			candidate: func() http.Handler {
				return over(offering(map[string]map[string]any{
					"a": schema([]any{"x", "z"}), "b": schema(nil), "c": schema(nil), "e": schema(nil, "x"),
				}))
			},
			want: []told{{settling, lost(0, "a", "c", "d")}},
		},
		"nothing once the list is there": {
			candidate: func() http.Handler {
				server := offering(nil)
				time.AfterFunc(5*time.Second-time.Millisecond, func() {
					for name, input := range before {
						server.AddTool(&mcp.Tool{Name: name, InputSchema: input}, nil)
					}
				})
				return over(server)
			},
			want: []told{{5 * time.Second, lost(0)}},
		},
		"what comes after it was told": {
			candidate: func() http.Handler {
				server := offering(map[string]map[string]any{
					"a": before["a"], "b": before["b"], "c": before["c"], "d": before["d"],
				})
				time.AfterFunc(time.Minute, func() { server.AddTool(&mcp.Tool{Name: "e", InputSchema: before["e"]}, nil) })
				return over(server)
			},
			want: []told{{settling, lost(0, "e")}, {settling + 3*lastPause, lost(0)}},
		},
		"it lists no tools": {
			candidate: func() http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Mcp-Method") == "tools/list" {
						w.WriteHeader(http.StatusInternalServerError)
						return
					}
					over(full).ServeHTTP(w, r)
				})
			},
			want: []told{{dnsDenial + 2750*time.Millisecond, v1alpha1.CandidateStatus{
				Reason: v1alpha1.ReasonNotAnswering, Message: "the backend answers MCP, and does not list its tools",
			}}},
		},
		"it asks for credentials, and who gets the calls does not": {
			candidate: func() http.Handler { return plain(http.StatusUnauthorized) },
			want:      []told{{settling, barred(lost(0, "a", "b", "c", "d", "e"))}},
		},
		"both ask for credentials": {
			candidate: func() http.Handler { return plain(http.StatusUnauthorized) },
			incumbent: func() http.Handler { return plain(http.StatusUnauthorized) },
			want:      []told{{0, barred(lost(0))}},
		},
		"what gets the calls answers soon": {
			incumbent: func() http.Handler { return answersBetween(30*time.Second, time.Hour, full) },
			want:      []told{{31*time.Second + 750*time.Millisecond, lost(0)}},
		},
		"what gets the calls answers late": {
			incumbent: func() http.Handler { return answersBetween(2*time.Minute, time.Hour, full) },
			want:      []told{{incumbentPatience + 1750*time.Millisecond, uncompared}, {151750 * time.Millisecond, lost(0)}},
		},
		"both answer late": {
			candidate: func() http.Handler { return answersBetween(2*time.Minute, time.Hour, full) },
			incumbent: func() http.Handler { return answersBetween(150*time.Second, time.Hour, full) },
			want:      []told{{dnsDenial + 2750*time.Millisecond, silent}, {151750 * time.Millisecond, lost(0)}},
		},
		"neither answers": {
			candidate: func() http.Handler { return plain(http.StatusBadGateway) },
			incumbent: func() http.Handler { return plain(http.StatusBadGateway) },
			want:      []told{{dnsDenial + 2750*time.Millisecond, silent}},
		},
		"what gets the calls answers no more once tools are lost": {
			candidate: func() http.Handler { return over(offering(nil)) },
			incumbent: func() http.Handler { return answersBetween(0, 30*time.Second, full) },
			want:      []told{{settling, lost(0, "a", "b", "c", "d", "e")}},
		},
		"the proxy knows of it later": {
			there: func(since time.Duration) bool { return since >= time.Minute },
			want:  []told{{time.Minute, lost(0)}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := func(of func() http.Handler) http.Handler {
					if of == nil {
						return over(offering(before))
					}
					return of()
				}
				began, got := time.Now(), []told{}
				since := func() time.Duration { return time.Since(began) }
				if tc.there == nil {
					tc.there = func(time.Duration) bool { return true }
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				candidate, incumbent := inMemory(t, handler(tc.candidate)), inMemory(t, handler(tc.incumbent))
				candidate.Compare(ctx, slog.New(slog.DiscardHandler), incumbent.Prober,
					func() bool { return tc.there(since()) },
					func(found v1alpha1.CandidateStatus) { got = append(got, told{since(), found}) })
				if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(told{})); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

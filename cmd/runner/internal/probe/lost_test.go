package probe

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/controllers/backend"
)

// TestFewerToolsThanBeforeAreTold: once, by name, where a second look finds them missing still; and that they are back.
func TestFewerToolsThanBeforeAreTold(t *testing.T) {
	var many []string
	for i := range 12 {
		many = append(many, fmt.Sprintf("t%02d", i))
	}
	const period, all = 10 * time.Minute, "a b c"
	for name, tc := range map[string]struct {
		lists []string // the tools of each look, of which the last stays
		want  []string
	}{
		"all stay":       {[]string{all}, nil},
		"more come":      {[]string{"a", all}, nil},
		"one comes late": {[]string{all, "a b", all}, nil},
		"one goes": {
			[]string{all, "a b"}, []string{"1 tool that it has listed is missing, or asks for more arguments than before: c"},
		},
		"all go, and some":    {[]string{all, "", "", "a"}, []string{"3 tools that it has listed are missing", "2 tools"}},
		"one goes, and comes": {[]string{all, "a b", "a b", all}, []string{"1 tool", ""}},
		"one goes, comes, and another goes": {
			[]string{all, "a b", "a b", all, "b c"}, []string{"1 tool", "", "than before: a"},
		},
		"many go": {
			[]string{strings.Join(many, " "), ""},
			[]string{"12 tools that it has listed are missing, or ask for more arguments than before: t00, t01, t02, t03, " +
				"t04, t05, t06, t07, t08, t09, and more"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks := 0
				server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"},
					&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
				sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
					&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
				s := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Header.Get("Mcp-Method") == "tools/list" {
						has := strings.Fields(tc.lists[min(looks, len(tc.lists)-1)])
						server.RemoveTools(append(strings.Fields(all), many...)...)
						for _, tool := range has {
							mcp.AddTool(server, &mcp.Tool{Name: tool},
								func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
									return nil, nil, nil
								})
						}
						looks++
					}
					sdk.ServeHTTP(w, r)
				}))
				s.Server.Proxy.Probe = nil
				ctx, cancel := context.WithTimeout(t.Context(), 8*period)
				defer cancel()
				var told []string
				s.Ask(ctx, slog.New(slog.DiscardHandler), func(facts backend.Facts) {
					if facts.Lost != nil && (len(told) == 0 || told[len(told)-1] != facts.Lost.Message) {
						told = append(told, facts.Lost.Message)
					}
				})
				if !slices.EqualFunc(told, tc.want, func(told, want string) bool {
					return strings.Contains(told, want) && (want == "") == (told == "")
				}) {
					t.Errorf("told %q, want %q", told, tc.want)
				}
				if looks > 12 {
					t.Errorf("the list is asked for %d times", looks)
				}
			})
		})
	}
}

// TestAToolThatAsksForMoreIsLost, as in a rollout: until it takes again what it took.
func TestAToolThatAsksForMoreIsLost(t *testing.T) {
	s := toolset{}
	list := func(required ...string) map[string]arguments { return map[string]arguments{"a": {Required: required}} }
	for i, step := range []struct {
		required []string
		want     string
	}{{nil, "?"}, {[]string{"x"}, "?"}, {[]string{"x"}, "True"}, {[]string{"x"}, "True"}, {nil, ""}, {nil, "?"}} {
		got := "?"
		if said := s.compare(list(step.required...)); said != nil {
			got = string(said.Status)
		}
		if got != step.want {
			t.Errorf("look %d: it says %q, want %q", i, got, step.want)
		}
	}
}

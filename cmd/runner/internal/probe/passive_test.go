package probe

import (
	"cmp"
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

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// scene is a server that answers the runner's questions, and what that tells, in virtual time.
type scene struct {
	*bench
	began time.Time
	// asked are when questions came, and told what was told: the reason, "?" for doubts, and when, in seconds.
	asked []time.Duration
	told  []string
	last  backend.Facts
}

// act makes one. Each question, of which parts follow one another, is answered by answer, nil for as MCP has it.
func act(t *testing.T, answer func(s *scene, n int) http.HandlerFunc) *scene {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
	s, last := &scene{began: time.Now()}, time.Time{}
	s.bench = inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if now := time.Now(); now.Sub(last) > 10*time.Second {
			s.asked, last = append(s.asked, time.Since(s.began)), now
		}
		if trouble := answer(s, len(s.asked)); trouble != nil {
			trouble(w, r)
			return
		}
		sdk.ServeHTTP(w, r)
	}))
	s.Server.Proxy.Probe = nil
	return s
}

// play has the server asked for so long.
func (s *scene) play(ctx context.Context, long time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	s.Ask(ctx, slog.New(slog.DiscardHandler), func(facts backend.Facts) {
		s.last = facts
		s.told = append(s.told, fmt.Sprintf("%s %.0f", cmp.Or(facts.Answers.Reason, "?"), time.Since(s.began).Seconds()))
	})
}

// within reports whether what was told is as wanted: each reason within the seconds from and to.
func (s *scene) within(want ...string) bool {
	return slices.EqualFunc(s.told, want, func(told, want string) bool {
		var reason, wanted string
		var at, from, to int
		_, _ = fmt.Sscan(told, &reason, &at)
		_, _ = fmt.Sscan(want, &wanted, &from, &to)
		return reason == wanted && from <= at && at <= to
	})
}

// TestACallOfAClientIsAsGoodAsAQuestion: none is sent in a period in which a call was answered, but that for the lists,
// and one call takes back what was told.
func TestACallOfAClientIsAsGoodAsAQuestion(t *testing.T) {
	for name, tc := range map[string]struct {
		trouble http.HandlerFunc // from the second question on
		// calls are answered each ten seconds from then to then.
		from, to time.Duration
		asked    int
		want     []string
	}{
		"nobody calls":                {nil, 0, 0, 18, []string{"Answers 0 0"}},
		"somebody calls all the time": {nil, 0, time.Hour, 1, []string{"Answers 0 0"}},
		"callers are let in alone": {
			plain(http.StatusUnauthorized).ServeHTTP, 0, time.Hour, 1, []string{"Answers 0 0"},
		},
		// Its question is not answered as before, and callers are: that is said once.
		"a page for the question alone": {
			answer(http.StatusOK, "Content-Type", "text/html", "<p>").ServeHTTP, 5 * time.Minute, 5*time.Minute + time.Second,
			10,
			[]string{"Answers 0 0", "? 27 30", "NotMCP 81 95", "Answers 300 302"},
		},
		"a call is answered again": {
			plain(http.StatusBadGateway).ServeHTTP, 5 * time.Minute, time.Hour, 5,
			[]string{"Answers 0 0", "? 27 30", "NotAnswering 81 95", "Answers 300 302"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := act(t, func(_ *scene, n int) http.HandlerFunc {
					if n > 1 {
						return tc.trouble
					}
					return nil
				})
				s.Asked = heardAt(func() time.Time {
					if now := time.Since(s.began); now >= tc.from && tc.from < tc.to {
						return s.began.Add(min(now, tc.to).Truncate(10 * time.Second))
					}
					return time.Time{}
				})
				s.play(t.Context(), rare*27*time.Second-time.Second) // before the lists are due
				if !s.within(tc.want...) || len(s.asked) < tc.asked || len(s.asked) > tc.asked+9 {
					t.Errorf("told %q, want %q; asked %d times, want %d", s.told, tc.want, len(s.asked), tc.asked)
				}
				if tc.asked == 1 && len(s.asked) != 1 {
					t.Errorf("it is asked at %v beside calls", s.asked)
				}
			})
		})
	}
}

// TestAServerElsewhereIsAskedOn: rarely, by the same settings as any other; one that wants to be left alone is, for a
// time.
func TestAServerElsewhereIsAskedOn(t *testing.T) {
	fails := plain(http.StatusBadGateway).ServeHTTP
	busy := func(after string) http.HandlerFunc {
		return answer(http.StatusTooManyRequests, "Retry-After", after, "").ServeHTTP
	}
	refuses := plain(http.StatusForbidden).ServeHTTP
	key := []runconfig.Header{{Name: "X-Api-Key", Value: "ours"}}
	for name, tc := range map[string]struct {
		trouble http.HandlerFunc
		// from and to are the questions that meet it.
		from, to int
		headers  []runconfig.Header
		called   bool // a caller has been answered once
		want     []string
		asked    []int // when the next question after the last trouble comes at least and at most, in seconds
		says     string
	}{
		"it fails": {
			fails, 2, 5, nil, false,
			[]string{"Answers 0 0", "? 270 300", "NotAnswering 324 360", "Answers 378 420"},
			nil, "answers MCP",
		},
		"it fails, and names a time": {
			answer(http.StatusServiceUnavailable, "Retry-After", "999999", "").ServeHTTP, 2, 5, nil, false,
			[]string{"Answers 0 0", "? 270 300", "NotAnswering 324 360", "Answers 378 420"},
			nil, "answers MCP",
		},
		"it fails for a moment":  {fails, 2, 2, nil, false, []string{"Answers 0 0", "? 270 300", "Answers 297 330"}, nil, ""},
		"it has enough for long": {busy("1200"), 2, 2, nil, false, []string{"Answers 0 0"}, []int{1470, 1530}, ""},
		"it has enough for good": {busy("999999999"), 2, 2, nil, false, []string{"Answers 0 0"}, []int{6270, 6330}, ""},
		"it has enough":          {busy(""), 2, 2, nil, false, []string{"Answers 0 0"}, []int{540, 600}, ""},
		"it has enough at first": {
			busy("900"), 1, 1, nil, false, []string{"Answers 0 0", "Answers 900 930"}, []int{900, 930}, "answers MCP",
		},
		"callers bring credentials": {
			refuses, 1, 999, nil, true,
			[]string{"Answers 0 0"},
			nil, "answers callers and asks for credentials, and was asked without one",
		},
		"nobody was answered": {refuses, 1, 999, nil, false, []string{"CredentialsRefused 1 60"}, nil, "HTTP 403"},
		"ours is refused":     {refuses, 1, 999, key, true, []string{"CredentialsRefused 1 60"}, nil, "HTTP 403"},
		"it let the runner in once": {
			refuses, 2, 999, nil, true, []string{"Answers 0 0", "? 270 300", "CredentialsRefused 324 360"}, nil, "HTTP 403",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := act(t, func(_ *scene, n int) http.HandlerFunc {
					if n >= tc.from && n <= tc.to {
						return tc.trouble
					}
					return nil
				})
				s.Server.Remote = &runconfig.Remote{Headers: tc.headers}
				if tc.called {
					s.Asked = heardAt(func() time.Time { return s.began.Add(-time.Minute) })
				}
				s.play(t.Context(), 2*time.Hour)
				if !s.within(tc.want...) || !strings.Contains(s.last.Answers.Message, tc.says) {
					t.Errorf("told %q, want %q; last %q, want %q", s.told, tc.want, s.last.Answers.Message, tc.says)
				}
				if tc.asked != nil {
					if at := int(s.asked[tc.to].Seconds()); at < tc.asked[0] || at > tc.asked[1] {
						t.Errorf("it is asked at %v, and again at %d, want %v", s.asked[:tc.to], at, tc.asked)
					}
				}
			})
		})
	}
}

// TestTheListsAreAskedForRarely: what a server offers is told anew where it has changed.
func TestTheListsAreAskedForRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
		lists := 0
		sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
			&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
		mcp.AddTool(server, &mcp.Tool{Name: "one"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
		s := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Method") == "tools/list" {
				lists++
			}
			sdk.ServeHTTP(w, r)
		}))
		s.Server.Proxy.Probe = nil
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
		defer cancel()
		var told []int32
		s.Ask(ctx, slog.New(slog.DiscardHandler), func(facts backend.Facts) {
			told = append(told, *facts.Tools)
			mcp.AddTool(server, &mcp.Tool{Name: "two"},
				func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
					return nil, nil, nil
				})
		})
		if !slices.Equal(told, []int32{1, 2}) || lists != 3 {
			t.Errorf("told of %v tools, asked for %d lists", told, lists)
		}
	})
}

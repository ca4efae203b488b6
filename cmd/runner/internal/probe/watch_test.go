package probe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// TestABackendThatHasAnsweredIsAskedOn: what is wrong with a backend is told after three questions in a row that have
// no answer of MCP, and once; that it answers again after one. From the first of them it is not sure ("?").
func TestABackendThatHasAnsweredIsAskedOn(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
	refuses := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, time.Now().String())
	}
	for name, tc := range map[string]struct {
		trouble http.HandlerFunc
		// lasts is how many questions meet it.
		lasts int
		// want is what is told: reasons, and how many questions had been asked.
		want []string
	}{
		"it hangs":              {hangs, 4, []string{"Answers", "? at 1", "NotAnswering at 3", "Answers at 5"}},
		"it hangs for a moment": {hangs, 2, []string{"Answers", "? at 1", "Answers at 3"}},
		"it hangs in a stream": {
			begins(hangs), 3, []string{"Answers", "? at 1", "NotAnswering at 3", "Answers at 4"},
		},
		"it fails": {
			plain(http.StatusInternalServerError).ServeHTTP, 3,
			[]string{"Answers", "? at 1", "NotAnswering at 3", "Answers at 4"},
		},
		"it is a page": {
			answer(http.StatusOK, "Content-Type", "text/html", "<p>").ServeHTTP, 3,
			[]string{"Answers", "? at 1", "NotMCP at 3", "Answers at 4"},
		},
		"it refuses the Host": {
			plain(http.StatusMisdirectedRequest).ServeHTTP, 3, []string{"Answers", "? at 1", "NotMCP at 3", "Answers at 4"},
		},
		"it refuses in other words each time": {
			refuses, 9, []string{"Answers", "? at 1", "Answers at 3", "Answers at 10"},
		},
		"it wants credentials": {
			plain(http.StatusUnauthorized).ServeHTTP, 3, []string{"Answers", "? at 1", "Answers at 3", "Answers at 4"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, last := 0, time.Time{}
				s := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if now := time.Now(); now.Sub(last) > time.Second*10 { // a question of its own, and not a part of one
						asked, last = asked+1, now
					}
					if n := asked - 1; n >= 1 && n <= tc.lasts {
						tc.trouble(w, r)
						return
					}
					sdk.ServeHTTP(w, r)
				}))
				s.Server.Proxy.Probe = nil
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				var told []string
				began := time.Now()
				s.Ask(ctx, slog.New(slog.DiscardHandler), func(facts backend.Facts) {
					is := cmp.Or(facts.Answers.Reason, "?")
					if asked > 1 {
						is += " at " + strconv.Itoa(asked-1)
					}
					told = append(told, is)
				})
				if !slices.Equal(told, tc.want) {
					t.Errorf("told %q, want %q", told, tc.want)
				}
				if took := time.Since(began); asked < int(took/defaultPeriod) || asked > int(took/(defaultPeriod*9/10))+1 {
					t.Errorf("asked %d times in %s", asked, took)
				}
			})
		})
	}
}

// begins begins a stream of events, and then does something else.
func begins(then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		then(w, r)
	}
}

// TestWhoIsNotAskedOn: with a period of 0 nobody is, and no server of which each question would start a process.
func TestWhoIsNotAskedOn(t *testing.T) {
	never := &runconfig.Probe{PeriodSeconds: new(int32(0))}
	for name, run := range map[string]runconfig.Target{
		"a period of 0":              {Proxy: runconfig.Proxy{Probe: never}},
		"that of a server elsewhere": {Remote: &runconfig.Remote{}, Proxy: runconfig.Proxy{Probe: never}},
		"a process for each session": {Backend: runconfig.Backend{Bridge: &runconfig.Bridge{Sessions: 1}}},
	} {
		if is := watchingOf(run); is.period != 0 || is.pause(false) != 0 {
			t.Errorf("%s: it is asked every %s", name, is.period)
		}
	}
	every := int32(10)
	set := watchingOf(runconfig.Target{Proxy: runconfig.Proxy{Probe: &runconfig.Probe{
		PeriodSeconds: &every, TimeoutSeconds: 2, FailureThreshold: 1,
	}}})
	if want := (watching{10 * time.Second, 2 * time.Second, 1}); set != want {
		t.Errorf("it is asked as %+v, want %+v", set, want)
	}
	if of := watchingOf(runconfig.Target{Remote: &runconfig.Remote{}}); of.period != defaultRemotePeriod {
		t.Errorf("a server elsewhere is asked every %s", of.period)
	}
}

// counts are of what a backend is asked, by method.
type counts struct {
	mu  sync.Mutex
	all map[string]int
}

func (c *counts) add(method string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[method]++
}

func (c *counts) of(method string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all[method]
}

// found is who is told, of facts that have a finding.
func found(told chan<- backend.Facts) func(backend.Facts) {
	return func(facts backend.Facts) {
		if facts.Answers.Status != "" {
			told <- facts
		}
	}
}

// TestAQuestionCostsABackendOneMessage: behind the proxy a modern backend is asked server/discover, and a legacy one
// for a ping in the session that the proxy holds; no session is begun for it.
func TestAQuestionCostsABackendOneMessage(t *testing.T) {
	for name, tc := range map[string]struct {
		options  mcp.StreamableHTTPOptions
		question string
	}{
		"modern": {mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true}, "server/discover"},
		"legacy": {mcp.StreamableHTTPOptions{DisableLocalhostProtection: true}, "ping"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
			sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &tc.options)
			asked, hangs, breaks := &counts{all: map[string]int{}}, new(atomic.Bool), new(atomic.Bool)
			s := through(t, at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				var m struct{ Method string }
				if json.Unmarshal(body, &m) == nil {
					asked.add(m.Method)
				}
				switch {
				case hangs.Load():
					<-r.Context().Done()
					return
				case breaks.Load():
					panic(http.ErrAbortHandler)
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				sdk.ServeHTTP(w, r)
			})))
			s.Server.Proxy.Probe = &runconfig.Probe{PeriodSeconds: new(int32(1)), TimeoutSeconds: 3, FailureThreshold: 2}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			told := make(chan backend.Facts, 10)
			go s.Ask(ctx, slog.New(slog.DiscardHandler), found(told))
			if facts := <-told; facts.Answers != answers(s.Server) || facts.Server == nil {
				t.Fatalf("it told %+v", facts)
			}
			begun, before, lists := asked.of("initialize"), asked.of(tc.question), asked.of("tools/list")
			for asked.of(tc.question) < before+3 && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
			if more := asked.of("initialize") - begun; more != 0 || asked.of("tools/list") != lists {
				t.Errorf("%d sessions are begun for three questions: %v", more, asked.all)
			}
			hangs.Store(true)
			if facts := <-told; facts.Answers.Reason != "NotAnswering" ||
				!strings.Contains(facts.Answers.Message, "does not answer MCP at /mcp within 3s") {
				t.Errorf("of one that hangs it tells %+v", facts.Answers)
			}
			hangs.Store(false)
			if facts := <-told; facts.Answers != answers(s.Server) || facts.Server == nil {
				t.Errorf("of one that answers again it tells %+v", facts)
			}
			breaks.Store(true)
			if facts := <-told; facts.Answers.Reason != "NotAnswering" {
				t.Errorf("of one that breaks connections off it tells %+v", facts.Answers)
			}
		})
	}
}

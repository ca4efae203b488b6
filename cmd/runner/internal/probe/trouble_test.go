package probe

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// TestWhatBecomesOfABackendThatHasAnswered: through the proxy, whatever era the backend speaks and wherever it is, the
// reason is told, and once it answers again that is.
func TestWhatBecomesOfABackendThatHasAnswered(t *testing.T) {
	page := answer(http.StatusOK, "Content-Type", "text/html", "<p>")
	for name, tc := range map[string]trouble{
		"it hangs":            {http.HandlerFunc(hangs), "NotAnswering", "within 3s"},
		"it fails":            {plain(http.StatusServiceUnavailable), "NotAnswering", "with HTTP 503"},
		"it breaks":           {http.HandlerFunc(breaks), "NotAnswering", "it broke the connection off"},
		"it is a page":        {page, "NotMCP", "answers, but not MCP"},
		"it refuses the Host": {plain(http.StatusMisdirectedRequest), "NotMCP", "HTTP 421"},
	} {
		for _, place := range []string{"legacy", "modern", "elsewhere"} {
			if place == "modern" && tc.reason == "NotMCP" || place != "elsewhere" && name == "it hangs" {
				continue // it is asked as at first, or has a test beside what a question costs
			}
			t.Run(name+", "+place, func(t *testing.T) {
				t.Parallel()
				asked, troubled := &counts{all: map[string]int{}}, new(atomic.Bool)
				handler := tc.of(place == "modern", asked, troubled)
				if place == "elsewhere" {
					tc.befalls(t, elsewhere(t, handler), asked, troubled)
					return
				}
				tc.befalls(t, through(t, at(t, handler)), asked, troubled)
			})
		}
	}
}

// trouble is what a backend does in place of an answer, and what is said of it.
type trouble struct {
	does         http.Handler
	reason, says string
}

// of is a backend that has it while troubled is set.
func (tc trouble) of(modern bool, asked *counts, troubled *atomic.Bool) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
	sdk := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: modern, DisableLocalhostProtection: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct{ Method string }
		if json.Unmarshal(body, &m) == nil {
			asked.add(m.Method)
		}
		if troubled.Load() {
			tc.does.ServeHTTP(w, r)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		sdk.ServeHTTP(w, r)
	})
}

func (tc trouble) befalls(t *testing.T, s *bench, asked *counts, troubled *atomic.Bool) {
	t.Helper()
	s.Server.Proxy.Probe = &runconfig.Probe{PeriodSeconds: new(int32(1)), TimeoutSeconds: 9, FailureThreshold: 1}
	if tc.says == "within 3s" {
		s.Server.Proxy.Probe.TimeoutSeconds, s.Server.Proxy.Probe.FailureThreshold = 3, 2
	}
	told := make(chan backend.Facts, 10)
	go s.Ask(t.Context(), slog.New(slog.DiscardHandler), found(told))
	next := func() (facts backend.Facts) {
		select {
		case facts = <-told:
		case <-time.After(time.Minute):
			t.Fatalf("nothing is told: %v", asked.all)
		}
		return facts
	}
	if facts := next(); facts.Answers != answers(s.Server) {
		t.Fatalf("it told %+v", facts)
	}
	troubled.Store(true)
	facts := next()
	if facts.Answers.Reason != tc.reason || !strings.Contains(facts.Answers.Message, tc.says) {
		t.Errorf("it tells %+v", facts.Answers)
	}
	if status, text := s.connects(t); status != http.StatusServiceUnavailable ||
		!strings.Contains(text, facts.Answers.Message) {
		t.Errorf("a client that connects reads HTTP %d: %s", status, text)
	}
	troubled.Store(false)
	if facts = next(); facts.Answers != answers(s.Server) {
		t.Errorf("of one that answers again it tells %+v", facts)
	}
	if status, text := s.connects(t); status != http.StatusOK {
		t.Errorf("a client that connects then reads HTTP %d: %s", status, text)
	}
}

func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
	<-r.Context().Done()
}

func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

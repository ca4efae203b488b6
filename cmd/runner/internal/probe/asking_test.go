package probe

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestABackendSendsTheRunnerNowhere(t *testing.T) {
	var reached atomic.Int32
	elsewhere := serving(t, "elsewhere", &mcp.StreamableHTTPOptions{Stateless: true})
	counted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		http.Redirect(w, r, elsewhere.Endpoint, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(counted.Close)
	for _, status := range []int{
		http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
	} {
		s := at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, counted.URL, status)
		}))
		if facts, err := s.learn(t.Context()); err == nil {
			t.Errorf("%d: learned %+v", status, facts)
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("another server got %d requests", n)
	}
}

// endless is an answer that ends with its request, or at some multiple of what
// should be read of it.
func endless(w http.ResponseWriter, begins, goesOn string) (sent int64) {
	_, _ = io.WriteString(w, begins)
	for part := strings.Repeat(goesOn, 1<<20/len(goesOn)); sent < 64<<20; {
		n, err := io.WriteString(w, part)
		if sent += int64(n); err != nil {
			break
		}
	}
	return sent
}

func TestAnAnswerWithoutAnEndIsNotReadToIt(t *testing.T) {
	long := strings.Repeat("x", 16<<10)
	for name, tc := range map[string]struct {
		status                  int
		content, begins, goesOn string
	}{
		"JSON":     {http.StatusOK, "application/json", `{"jsonrpc":"2.0","id":1,"result":"`, long},
		"an event": {http.StatusOK, "text/event-stream", "data: ", long},
		"comments": {http.StatusOK, "text/event-stream", "", ": " + long + "\n\n"},
		"events": {
			http.StatusOK, "text/event-stream", "",
			`data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"` + long + "\"}}\n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var sent atomic.Int64
			s := at(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Content-Type", tc.content)
				w.WriteHeader(tc.status)
				sent.Add(endless(w, tc.begins, tc.goesOn))
			}))
			if facts, err := s.learn(t.Context()); !errors.Is(err, errTooMuch) {
				t.Errorf("learned %+v, %v", facts, err)
			}
			// What was sent is more than what was read by what sockets hold.
			if n := sent.Load(); n > 16<<20 {
				t.Errorf("%d bytes were sent", n)
			}
		})
	}
}

package probes

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func get(s *State, path string) int {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Code
}

func TestReadyFromTheFirstAnswerUntilTheDrain(t *testing.T) {
	s := new(State)
	for _, step := range []struct {
		name        string
		do          func()
		live, ready int
	}{
		{"at the start", func() {}, 200, 503},
		{"a backend answered", s.Answered, 200, 200},
		{"SIGTERM came", s.Drain, 200, 503},
		{"a backend answered after that", s.Answered, 200, 503},
	} {
		step.do()
		if live, ready := get(s, "/livez"), get(s, "/readyz"); live != step.live || ready != step.ready {
			t.Errorf("%s: /livez is %d and /readyz is %d", step.name, live, ready)
		}
	}
	if got := get(s, "/mcp"); got != http.StatusNotFound {
		t.Errorf("another path is %d", got)
	}
}

func TestAwaitAsksUntilTheFirstAnswer(t *testing.T) {
	var asked atomic.Int32
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodOptions || r.URL.Path != "/mcp" {
			t.Errorf("asked with %s %s", r.Method, r.URL.Path)
		}
		if asked.Add(1) < 3 {
			panic(http.ErrAbortHandler) // no answer at all
		}
		w.WriteHeader(http.StatusInternalServerError) // an answer is an answer
	}))
	defer backend.Close()
	s := new(State)
	s.Await(t.Context(), http.DefaultTransport, backend.URL+"/mcp")
	if get(s, "/readyz") != http.StatusOK || asked.Load() != 3 {
		t.Errorf("ready is %d after %d attempts", get(s, "/readyz"), asked.Load())
	}
	s.Await(t.Context(), http.DefaultTransport, backend.URL+"/mcp")
	if asked.Load() != 3 {
		t.Error("it asked again after it had its answer")
	}
}

func TestAwaitEnds(t *testing.T) {
	nobody := httptest.NewServer(http.NotFoundHandler())
	nobody.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := new(State)
	s.Await(ctx, http.DefaultTransport, nobody.URL)
	if get(s, "/readyz") == http.StatusOK {
		t.Error("ready without an answer")
	}

	got := make(chan struct{})
	go func() {
		defer close(got)
		s.Await(context.Background(), http.DefaultTransport, nobody.URL)
	}()
	s.Answered() // by a call that got through
	select {
	case <-got:
	case <-time.After(5 * time.Second):
		t.Error("it goes on asking although there was an answer")
	}
}

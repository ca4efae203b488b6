package health

import (
	"context"
	"net/http"
	"net/http/httptest"
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

func TestAwaitAsksUntilTheAnswerIsYes(t *testing.T) {
	s, asked := new(State), 0
	s.Await(t.Context(), func(context.Context) bool { asked++; return asked == 3 })
	if get(s, "/readyz") != http.StatusOK || asked != 3 {
		t.Errorf("ready is %d after %d attempts", get(s, "/readyz"), asked)
	}
}

func TestAwaitEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := new(State)
	s.Await(ctx, func(context.Context) bool { return false })
	if get(s, "/readyz") == http.StatusOK {
		t.Error("ready without an answer")
	}
}

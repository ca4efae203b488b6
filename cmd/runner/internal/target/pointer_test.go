package target

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// starts has a process start in a pod with a state, and tells where its calls go.
func starts(t *testing.T, state string, log *slog.Logger, change ...func(*runconfig.Target)) (*Target, *proxy.Proxy) {
	t.Helper()
	to := made(t, Config{Run: sample(change...), StateDir: state})
	config, _, err := to.Proxy(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	front := proxy.New(proxy.Process{}, map[string]proxy.Config{"/mcp": config})
	to.Follow(func(upstreams proxy.Upstreams) { front.Switch("/mcp", upstreams) }, nil, log)
	return to, front
}

func told(t *testing.T, front *proxy.Proxy) (active *runconfig.RoutedContent, others int) {
	t.Helper()
	w := httptest.NewRecorder()
	front.Routing("/mcp").ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/backend", http.NoBody))
	got, err := runconfig.ReadRouting(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.Active, len(got.Contents) - 1
}

// refused checks that a proxy takes no calls, nor finds its server ready.
func refused(t *testing.T, front *proxy.Proxy) {
	t.Helper()
	measured := prometheus.NewRegistry()
	measured.MustRegister(front.Metrics()...)
	if _, err := measured.Gather(); err != nil {
		t.Error(err)
	}
	for _, asked := range []http.Handler{front, front.Inside(), front.Own()} {
		w := httptest.NewRecorder()
		asked.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("{}")))
		if w.Code != http.StatusServiceUnavailable ||
			!strings.Contains(w.Body.String(), "has not read yet to which content") {
			t.Errorf("HTTP %d with %s", w.Code, w.Body)
		}
	}
}

// A process goes where the one before it in its pod went, and nowhere before it knows where.
func TestAProcessStartsWhereTheLastOneWent(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	state := t.TempDir()
	first, front := starts(t, state, logger)
	refused(t, front)
	if active, others := told(t, front); active != nil || others != -1 {
		t.Errorf("before it is known: %+v, %d", active, others)
	}
	before, after := v1alpha1.BackendContent{Slot: 1, Hash: "a", Generation: 3, Path: "/mcp"},
		v1alpha1.BackendContent{Slot: 2, Hash: "b", Generation: 4, Path: "/mcp"}
	first.Observe(backend.Standing{Active: &before})
	first.Observe(backend.Standing{Active: &after, Others: []v1alpha1.BackendContent{before}})
	if all, err := os.ReadDir(state); err != nil || len(all) != 1 {
		t.Errorf("it keeps %v: %v", all, err)
	}

	again, front := starts(t, state, logger)
	want := &runconfig.RoutedContent{Slot: 2, Hash: "b", Generation: 4}
	if active, others := told(t, front); cmp.Diff(want, active) != "" || others != 1 {
		t.Errorf("after it has started again: %+v, %d", active, others)
	}
	again.Observe(backend.Standing{Assumed: &before})
	if active, _ := told(t, front); cmp.Diff(want, active) != "" {
		t.Errorf("it guesses: %+v", active)
	}
	again.Observe(backend.Standing{Active: &before})
	if active, _ := told(t, front); active.Generation != 3 {
		t.Errorf("after the cluster was restored: %+v", active)
	}
	again.Observe(backend.Standing{Active: &after})
	again.Observe(backend.Standing{Active: &before})
	if active, _ := told(t, front); cmp.Diff(want, active) != "" {
		t.Errorf("what an older status says: %+v", active)
	}
	_, front = starts(t, state, logger)
	if active, others := told(t, front); cmp.Diff(want, active) != "" || others != 0 {
		t.Errorf("after the first content is gone: %+v, %d", active, others)
	}

	_, front = starts(t, state, logger, func(r *runconfig.Target) { r.Server.UID = "another" })
	refused(t, front)
	if log.Len() > 0 {
		t.Errorf("it logs %s", &log)
	}
	if err := os.WriteFile(filepath.Join(state, pointerFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, front = starts(t, state, logger)
	refused(t, front)
	if !strings.Contains(log.String(), "it is not known where calls went last") {
		t.Errorf("it logs %q", &log)
	}
	first, _ = starts(t, filepath.Join(state, "none"), logger)
	log.Reset()
	if first.Observe(backend.Standing{Active: &before}); !strings.Contains(log.String(), "not kept") {
		t.Errorf("it logs %q", &log)
	}
}

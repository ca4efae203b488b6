//go:build !race

// The race detector's own allocations would be counted.

package target

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// A call of a client of the older era before a server of the newer one, with policies, is what most handlers look at.
// Where its answer is an event the proxy has to know its id besides.
func TestACallIsReadOnceAndTakenApartOnce(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		result := `{"content":[]}`
		if r.Header.Get("Mcp-Method") == "server/discover" {
			result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{}}`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"result\":%s}\n\n", result)
	}))
	t.Cleanup(backend.Close)
	run := sample(func(r *runconfig.Target) {
		r.Proxy.Authorization = &runconfig.Authorization{Policies: []runconfig.Policy{{
			Name: "all", Text: `permit(principal, action, resource);`,
		}}}
	})
	to, err := New(Config{Run: run, Backend: backend.URL})
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := to.Proxy(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	config.Keys = nil
	front := proxy.New(proxy.Process{}, map[string]proxy.Config{"/mcp": config})
	const size = 12 << 10
	text := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"x":"` +
		strings.Repeat("x", size) + `"}}}`
	call := func() {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(text))
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		w := httptest.NewRecorder()
		if front.ServeHTTP(w, r); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"id":1`) {
			t.Fatalf("HTTP %d with %s", w.Code, w.Body)
		}
	}
	call() // it asks the backend, too
	parse := func() {
		if _, _, err := jsonrpc.Parse([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	parsing := func(stack []string, _ int64) bool { // its decoder may be one that was used before
		return strings.HasSuffix(stack[0], "/internal/jsonrpc.read") && called(stack, "/internal/jsonrpc.Parse")
	}
	reading := func(stack []string, each int64) bool {
		for _, pkg := range []string{"budget", "cedar", "pipeline", "proxy"} {
			if strings.Contains(stack[0], "/cmd/runner/internal/"+pkg+".") {
				return each >= size && each < 2*size
			}
		}
		return false
	}
	if n := allocations(parsing, call) / allocations(parsing, parse); n != 1 {
		t.Errorf("it is taken apart %d times", n)
	}
	if n := allocations(reading, call); n != 1 {
		t.Errorf("it is read into memory %d times", n)
	}
}

func called(stack []string, name string) bool {
	return slices.ContainsFunc(stack, func(function string) bool { return strings.HasSuffix(function, name) })
}

// allocations is how many of those objects are allocated that count says count, by the stack without the runtime's own
// functions, and by the size.
func allocations(count func(stack []string, each int64) bool, do func()) (n int64) {
	rate := runtime.MemProfileRate
	defer func() { runtime.MemProfileRate = rate }()
	sum := func() (n int64) {
		runtime.GC() // what was allocated since the last but one is not told
		runtime.GC()
		records := make([]runtime.MemProfileRecord, 100_000)
		known, _ := runtime.MemProfile(records, true)
		for _, record := range records[:known] {
			var stack []string
			frames := runtime.CallersFrames(record.Stack())
			for more := true; more; {
				var frame runtime.Frame
				if frame, more = frames.Next(); !strings.HasPrefix(strings.TrimPrefix(frame.Function, "internal/"), "runtime") {
					stack = append(stack, frame.Function)
				}
			}
			if len(stack) > 0 && count(stack, record.AllocBytes/max(1, record.AllocObjects)) {
				n += record.AllocObjects
			}
		}
		return n
	}
	before := sum()
	runtime.MemProfileRate = 1
	do()
	runtime.MemProfileRate = 0
	return sum() - before
}

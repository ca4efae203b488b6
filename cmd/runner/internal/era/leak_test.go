package era_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Clients that leave in the middle of a call or of a subscription leave nothing behind.
func TestNothingIsLeftOfClientsThatLeave(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	leave := func(method, params string, headers ...string) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint,
			strings.NewReader(modern("1", method, params, "")))
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		if response, err := http.DefaultClient.Do(r); err == nil {
			_, _ = response.Body.Read(make([]byte, 1<<16))
			<-ctx.Done()
			_ = response.Body.Close()
		}
	}
	send(t, endpoint, modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")...)
	leave("tools/call", `"name":"hang"`, asModern("tools/call", "hang")...)
	leave("subscriptions/listen", `"notifications":{"toolsListChanged":true}`, asModern("subscriptions/listen", "")...)
	settle := func() int {
		runtime.GC()
		http.DefaultClient.CloseIdleConnections()
		return runtime.NumGoroutine()
	}
	time.Sleep(4 * time.Second) // idle connections to the backend close
	before := settle()
	for range 20 {
		leave("tools/call", `"name":"hang"`, asModern("tools/call", "hang")...)
		leave("subscriptions/listen", `"notifications":{"toolsListChanged":true}`, asModern("subscriptions/listen", "")...)
	}
	after := 0
	for end := time.Now().Add(2 * patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if after = settle(); after <= before+5 {
			return
		}
	}
	all := make([]byte, 1<<20)
	t.Errorf("%d goroutines became %d\n%s", before, after, all[:runtime.Stack(all, true)])
}

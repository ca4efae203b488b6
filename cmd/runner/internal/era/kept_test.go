package era_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

// A session stays for minutes after its first request: of that it keeps by what the backend lets its client in, and no
// other header.
func TestASessionKeepsNothingElseOfItsFirstRequest(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	ballast := strings.Repeat("x", 1<<10)
	call := func(n int) {
		headers := append(asModern("tools/list", ""), "X-Api-Key", "secret")
		for i := range 14 {
			headers = append(headers, fmt.Sprintf("X-Ballast-%d", i), ballast)
		}
		client := fmt.Sprintf(`"io.modelcontextprotocol/clientInfo":{"name":"%d","version":"1"}`, n)
		if status, m := send(t, endpoint, modern("1", "tools/list", "", client), headers...); status != http.StatusOK {
			t.Fatalf("HTTP %d with %+v", status, m.Error)
		}
	}
	live := func() int64 {
		b.mu.Lock()
		b.received = nil
		b.mu.Unlock()
		http.DefaultClient.CloseIdleConnections()
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for n := range 20 {
		call(n)
	}
	before := live()
	const sessions = 100
	for n := range sessions {
		call(100 + n)
	}
	// The backend is in this process, and keeps its end of each session.
	if each := (live() - before) / sessions; each > 20<<10 {
		t.Errorf("a session keeps %d bytes: want none of the 14 KiB of headers, of which there were several copies", each)
	} else {
		t.Logf("a session, with the backend's end of it, keeps %d bytes", each)
	}
}

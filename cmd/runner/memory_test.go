//go:build linux && !race

// What a process takes is read from /proc, and the race detector takes many times more.

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// hostile answers as MCP does, and then with what costs most memory for a byte.
func hostile(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	switch call := string(body); {
	case strings.Contains(call, `"initialize"`):
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+idOf(call)+
			`,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"prompts":{},"resources":{}},"serverInfo":{"name":"x","version":"1"}}}`)
	case strings.Contains(call, `"notifications/`):
		w.WriteHeader(http.StatusAccepted)
	case strings.Contains(call, `/list"`):
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"jsonrpc":"2.0","id":`+idOf(call)+`,"result":{"tools":[`)
		for part, sent := strings.Repeat("{},", 1<<18), 0; err == nil && sent < 64<<20; sent += len(part) {
			_, err = io.WriteString(w, part)
		}
	case strings.Contains(call, `"method"`):
		w.WriteHeader(http.StatusNotFound)
	default:
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		var head strings.Builder
		head.WriteString("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n")
		for i := 0; head.Len() < 60<<10; i++ {
			fmt.Fprintf(&head, "%s:\r\n", strconv.FormatInt(int64(i), 36))
		}
		_, _ = io.WriteString(conn, head.String()+"\r\n")
	}
}

func idOf(call string) string {
	_, rest, _ := strings.Cut(call, `"id":`)
	return rest[:strings.IndexAny(rest, ",}")]
}

func TestAHostileBackendFitsTheProxysMemory(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(hostile))
	t.Cleanup(backend.Close)
	// The default limit of the proxy's container.
	limit := resource.MustParse("256Mi")
	p := start(t, sample(t), backend.URL, "GOMEMLIMIT="+strconv.FormatInt(limit.Value(), 10))
	p.await("it is ready", func() bool { return p.get("/readyz") == http.StatusOK })
	began := p.peak()
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			// A machine that is busy may take longer to connect than the proxy waits.
			status, body := p.call()
			for end := time.Now().Add(time.Minute); status == http.StatusBadGateway && time.Now().Before(end); {
				status, body = p.call()
			}
			if status != http.StatusOK {
				t.Errorf("a call got %d %s", status, body)
			}
		})
	}
	callers.Wait()
	calls := p.peak()
	t.Logf("peak of %d MiB, with 50 calls at a time of %d MiB", began>>20, calls>>20)
	if calls > limit.Value()*9/10 {
		t.Errorf("it took %d MiB, and may take %s", calls>>20, limit.String())
	}
}

// peak is the most memory that the process has had, in bytes.
func (p *process) peak() int64 {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return kilobytes << 10
}

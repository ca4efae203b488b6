package main

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// victim is a client with small calls, one after the other.
type victim struct {
	url string

	mu     sync.Mutex
	took   []time.Duration
	failed int
}

// message is a request of the modern era.
func message(method, params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method +
		`","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}},` + params + `}}`
}

func request(ctx context.Context, url, method, name, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	if name != "" {
		r.Header.Set("Mcp-Name", name)
	}
	return r, nil
}

func (v *victim) call(ctx context.Context) {
	began := time.Now()
	r, err := request(context.WithoutCancel(ctx), v.url, "tools/call", "echo",
		message("tools/call", `"name":"echo","arguments":{"text":"x"}`))
	if err != nil {
		return
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: http.DefaultTransport}
	response, err := client.Do(r)
	ok := false
	if err == nil {
		body, failed := io.ReadAll(response.Body)
		_ = response.Body.Close() //nolint:errcheck // it was read
		ok = failed == nil && response.StatusCode == http.StatusOK && strings.Contains(string(body), `"ok"`)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.took = append(v.took, time.Since(began))
	if !ok {
		v.failed++
	}
}

func (v *victim) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.took, v.failed = nil, 0
}

func (v *victim) told() (calls, failed int, p50, p99 time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.took) == 0 {
		return 0, 0, 0, 0
	}
	slices.Sort(v.took)
	return len(v.took), v.failed, v.took[len(v.took)/2], v.took[len(v.took)*99/100]
}

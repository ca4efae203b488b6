package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"

	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// serveContender serves a proxy in front of the backend at address.
func serveContender(role, address string) error {
	backend := &url.URL{Scheme: "http", Host: address}
	listener, err := listen()
	if err != nil {
		return err
	}
	handle, err := listen()
	if err != nil {
		return err
	}
	go func() { _ = quick(http.HandlerFunc(tellMemory)).Serve(handle) }() //nolint:errcheck // the client sees that it is gone
	fmt.Println(listener.Addr(), handle.Addr())
	if role == "bare" {
		return quick(bare(backend)).Serve(listener)
	}
	ours := proxy.New(proxy.Config{Path: "/mcp", Backend: backend, Hosts: []string{"bench-proxy"}, Log: slog.New(slog.DiscardHandler)})
	return ours.Server().Serve(listener)
}

// bare is the least that passes calls on: nobody is judged, no header changed,
// no stream ended in a defined way, nothing drained. It keeps its connections
// to the backend as ours does, since it would else open a new one for every
// second call.
func bare(backend *url.URL) http.Handler {
	transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // the library says so
	transport.MaxIdleConnsPerHost = 256
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(backend) },
		Transport: transport,
		ErrorLog:  log.New(io.Discard, "", 0), // the client counts failures
	}
}

// memory is what a contender tells of itself, in bytes.
type memory struct {
	// Allocated and Allocations only grow.
	Allocated   uint64 `json:"allocated"`
	Allocations uint64 `json:"allocations"`
	// Live is what is in use by heap and stacks after a collection.
	Live uint64 `json:"live"`
}

// tellMemory collects garbage first if it is asked with POST.
func tellMemory(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		runtime.GC()
		runtime.GC() // what the first one found in pools
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	m := memory{Allocated: stats.TotalAlloc, Allocations: stats.Mallocs, Live: stats.HeapAlloc + stats.StackInuse}
	_ = json.NewEncoder(w).Encode(m) //nolint:errcheck // the client sees that it is missing
}

// ask asks a contender for its memory.
func (p *process) ask(ctx context.Context, method string) (m memory, err error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+p.memory, http.NoBody)
	if err != nil {
		return memory{}, fmt.Errorf("asking for memory: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return memory{}, fmt.Errorf("asking for memory: %w", err)
	}
	defer response.Body.Close() //nolint:errcheck // it is read
	if err := json.NewDecoder(response.Body).Decode(&m); err != nil {
		return memory{}, fmt.Errorf("asking for memory: %w", err)
	}
	return m, nil
}

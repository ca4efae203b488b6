package main

import (
	"fmt"
	"log/slog"
	"net/url"
	"runtime"
	"runtime/debug"

	giving "github.com/freehold-dev/freehold/cmd/internal/memory"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// The proxy of the runner without its process, with code of its own and with net/http's in the place of that.
const (
	aloneName    = "proxy"
	clientName   = "proxy, http.Transport"
	handlersName = "proxy, handlers"
)

// alone is what net/http does in each of them.
var alone = map[string]proxy.Process{
	aloneName: {}, clientName: {StandardClient: true}, handlersName: {StandardStreams: true},
}

// serveProxy serves the proxy before the backend at address. The collector works as in the runner.
func serveProxy(address string, process proxy.Process) error {
	listener, err := listen()
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	runtime.MemProfileRate = 0 // as in the runner
	debug.SetGCPercent(runnersGrowth)
	go giving.GiveBack(1 << 20)
	process.Log = slog.New(slog.DiscardHandler)
	return proxy.New(process, map[string]proxy.Config{"/mcp": {
		Hosts: []string{"bench-proxy"}, Upstream: proxy.Fixed(&url.URL{Scheme: "http", Host: address}), Log: process.Log,
	}}).Server().Serve(listener)
}

// runnersGrowth collects a small heap as seldom as the runner does.
const runnersGrowth = 400

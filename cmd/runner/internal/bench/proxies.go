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
var alone = map[string]proxy.Standard{
	aloneName: 0, clientName: proxy.StandardClient, handlersName: proxy.StandardStreams,
}

// serveProxy serves the proxy before the backend at address. The collector works as in the runner.
func serveProxy(address string, standard proxy.Standard) error {
	listener, err := listen()
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	runtime.MemProfileRate = 0 // as in the runner
	debug.SetGCPercent(runnersGrowth)
	go giving.GiveBack(1 << 20)
	quiet := slog.New(slog.DiscardHandler)
	return proxy.New(proxy.Process{Log: quiet, Standard: standard}, map[string]proxy.Config{"/mcp": {
		Hosts: []string{"bench-proxy"}, Upstream: proxy.Fixed(&url.URL{Scheme: "http", Host: address}), Log: quiet,
	}}).Server().Serve(listener)
}

// runnersGrowth collects a small heap as seldom as the runner does.
const runnersGrowth = 400

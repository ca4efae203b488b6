package target

import (
	"log/slog"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// What proves a proxy of the server is shown to bridges in its pods, and to nobody elsewhere.
func TestWhoIsShownWhatProvesAProxy(t *testing.T) {
	bridged := func(transport string) func(*runconfig.Target) {
		return func(r *runconfig.Target) { r.Backend.Transport, r.Backend.Bridge = transport, &runconfig.Bridge{} }
	}
	elsewhere := func(transport string) func(*runconfig.Target) {
		return func(r *runconfig.Target) {
			r.Backend = runconfig.Backend{}
			r.Remote = &runconfig.Remote{URL: "https://mcp.example.com/sse", Transport: transport}
		}
	}
	const pod = "http://127.0.0.1:1"
	for name, tc := range map[string]struct {
		of      func(*runconfig.Target)
		backend string
		shown   bool
	}{
		"streamable-http":            {func(*runconfig.Target) {}, pod, false},
		"stdio":                      {bridged("stdio"), pod, true},
		"sse":                        {bridged("sse"), pod, true},
		"streamable-http, elsewhere": {elsewhere("streamable-http"), "", false},
		"sse, elsewhere":             {elsewhere("sse"), "", false},
	} {
		to := made(t, Config{Run: sample(tc.of), Backend: tc.backend, Peers: "127.0.0.1:0", PodIP: "127.0.0.1"})
		end, err := to.ServePeers(t.Context(), slog.New(slog.DiscardHandler), make(chan error, 1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { end(time.Now()) })
		config, _, err := to.Proxy(slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if config.Upstream.Shown != tc.shown {
			t.Errorf("%s: it is shown: %t", name, config.Upstream.Shown)
		}
	}
}

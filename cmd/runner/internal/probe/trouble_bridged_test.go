package probe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
)

// TestWhatBecomesOfABridgedServerThatHasAnswered is the same behind a bridge: a program that all sessions share, and a
// server of the transport HTTP+SSE.
func TestWhatBecomesOfABridgedServerThatHasAnswered(t *testing.T) {
	for name, tc := range map[string]struct {
		trouble
		dies bool
	}{
		"a program hangs": {trouble{nil, "NotAnswering", "within 3s"}, false},
		"a program ends":  {trouble{nil, "NotAnswering", "exit code 1"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, troubled := &counts{all: map[string]int{}}, new(atomic.Bool)
			tc.befalls(t, bridged(t, "stdio", func() (bridge.Conn, error) {
				return &program{dies: tc.dies, troubled: troubled, over: make(chan struct{}), in: make(chan []byte, 100)}, nil
			}), asked, troubled)
		})
	}
	for name, tc := range map[string]trouble{
		"events hang":       {http.HandlerFunc(hangs), "NotAnswering", "within 3s"},
		"events are broken": {http.HandlerFunc(breaks), "NotAnswering", "opening the server's stream at /sse"},
		"events fail":       {plain(http.StatusServiceUnavailable), "NotAnswering", "HTTP 503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, troubled := &counts{all: map[string]int{}}, new(atomic.Bool)
			server := mcp.NewServer(&mcp.Implementation{Name: "b", Version: "1"}, nil)
			sdk := mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server },
				&mcp.SSEOptions{DisableLocalhostProtection: true})
			up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if troubled.Load() {
					tc.does.ServeHTTP(w, r)
					return
				}
				sdk.ServeHTTP(w, r)
			}))
			t.Cleanup(func() { pipelinetest.Stop(up) })
			to, err := url.Parse(up.URL + "/sse")
			if err != nil {
				t.Fatal(err)
			}
			tc.befalls(t, bridged(t, "sse", bridge.Events(to, nil)), asked, troubled)
		})
	}
}

// bridged is the real proxy in front of a bridge.
func bridged(t *testing.T, transport string, open func() (bridge.Conn, error)) *bench {
	t.Helper()
	b := bridge.New(bridge.Config{Log: slog.New(slog.DiscardHandler), Shared: transport == "stdio", Server: bridge.Server{
		Modern: transport == "stdio", Junk: func() string { return "" }, Open: open,
	}})
	t.Cleanup(b.Close)
	s := at(t, b)
	s.Server.Backend.Transport, s.Server.Backend.Bridge = transport, &runconfig.Bridge{Shared: transport == "stdio"}
	return through(t, s)
}

// program is a legacy server on standard input and output. While it is troubled it says nothing, or ends.
type program struct {
	dies     bool
	troubled *atomic.Bool
	over     chan struct{}
	in       chan []byte
	once     sync.Once
}

func (p *program) Send(_ context.Context, m []byte, _ *bridge.Waiting) error {
	p.in <- slices.Clone(m)
	return nil
}
func (p *program) Why() string { <-p.over; return "exit code 1" }
func (p *program) End()        { p.once.Do(func() { close(p.over) }) }

func (p *program) Receive() ([]byte, error) {
	for {
		var line []byte
		select {
		case <-p.over:
			return nil, errors.New("it has ended")
		case line = <-p.in:
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		switch err := json.Unmarshal(line, &m); {
		case p.troubled.Load() && p.dies:
			p.End()
			return nil, errors.New("it has ended")
		case err != nil || m.ID == nil || p.troubled.Load():
			continue
		}
		answer := `"error":{"code":-32601,"message":"unknown"}`
		switch m.Method {
		case "initialize":
			answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"b","version":"1"}}`
		case "ping":
			answer = `"result":{}`
		}
		return []byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + answer + `}`), nil
	}
}

package probe

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/bridge"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// slowProgram is a legacy server on standard input and output that reads nothing until it is up.
type slowProgram struct {
	up, over chan struct{}
	in       chan []byte
	once     sync.Once
}

func (p *slowProgram) Send(_ context.Context, m []byte, _ *bridge.Waiting) error {
	p.in <- slices.Clone(m)
	return nil
}
func (p *slowProgram) Why() string { <-p.over; return "exit code 0" }
func (p *slowProgram) End()        { p.once.Do(func() { close(p.over) }) }

func (p *slowProgram) Receive() ([]byte, error) {
	for {
		select {
		case <-p.up:
		case <-p.over:
			return nil, errors.New("it has ended")
		}
		select {
		case <-p.over:
			return nil, errors.New("it has ended")
		case line := <-p.in:
			var m struct {
				ID     json.RawMessage
				Method string
			}
			if err := json.Unmarshal(line, &m); err != nil || m.ID == nil {
				continue
			}
			answer := `"error":{"code":-32601,"message":"unknown"}`
			switch m.Method {
			case "initialize":
				answer = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"slow","version":"1"}}`
			case "tools/list":
				answer = `"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}`
			}
			return []byte(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,` + answer + `}`), nil
		}
	}
}

// A program that needs long to start is started once for all that its proxy asks, and the proxy is ready when it is up.
func TestAProxyAsksAProgramThatStartsSlowlyOnce(t *testing.T) {
	var started atomic.Int32
	up := make(chan struct{})
	b := bridge.New(bridge.Config{Log: slog.New(slog.DiscardHandler), Server: bridge.Server{
		Modern: true, Junk: func() string { return "" }, Open: func() (bridge.Conn, error) {
			started.Add(1)
			return &slowProgram{up: up, over: make(chan struct{}), in: make(chan []byte, 100)}, nil
		},
	}})
	t.Cleanup(b.Close)
	s := at(t, b)
	s.Server.Backend.Transport, s.Server.Backend.Bridge = "stdio", &runconfig.Bridge{Sessions: 100}
	s = through(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ready, told := make(chan bool, 1), make(chan backend.Facts, 1)
	go func() { ready <- s.Ready(ctx) }()
	go s.Ask(ctx, slog.New(slog.DiscardHandler), func(facts backend.Facts) { told <- facts })
	select {
	case <-ready:
		t.Fatal("it is ready before its program is up, or asks anew")
	case <-time.After(2 * time.Second):
	}
	close(up)
	if !<-ready {
		t.Error("it is not ready")
	}
	facts := <-told
	if !slices.Equal(facts.ProtocolVersions, []string{"2025-11-25", "2026-07-28"}) || facts.Tools == nil ||
		*facts.Tools != 1 || facts.Server.Name != "slow" {
		t.Errorf("%+v", facts)
	}
	if n := started.Load(); n != 1 {
		t.Errorf("%d programs are started", n)
	}
}

package main

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// Asking a backend about itself is bounded in time and number.
const (
	askAttempts = 3
	askTimeout  = 10 * time.Second
	askPause    = 2 * time.Second
)

// ask asks the backend what it is and offers, as a client of MCP does, and
// sends what it learned. A backend that does not answer in time is served all
// the same; nothing is reported of it then.
func ask(ctx context.Context, run runconfig.RunConfig, learned chan<- backend.Facts, logger *slog.Logger) {
	if len(run.NotEnforced) > 0 {
		return
	}
	for range askAttempts {
		facts, err := learn(ctx, backendURL(run).String()+run.Backend.Path)
		if err == nil {
			select {
			case learned <- facts:
			case <-ctx.Done():
			}
			return
		}
		logger.Info("asking the backend about itself", "error", err.Error())
		select {
		case <-time.After(askPause):
		case <-ctx.Done():
			return
		}
	}
}

func learn(ctx context.Context, endpoint string) (backend.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	c := mcp.NewClient(&mcp.Implementation{Name: "freehold-runner", Version: version}, nil)
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: endpoint, DisableStandaloneSSE: true, MaxRetries: -1}, nil)
	if err != nil {
		return backend.Facts{}, fmt.Errorf("connecting: %w", err)
	}
	defer session.Close() //nolint:errcheck // it was asked all there is
	hello := session.InitializeResult()
	facts := backend.Facts{}
	if hello.ProtocolVersion != "" {
		facts.ProtocolVersions = []string{hello.ProtocolVersion}
	}
	if hello.ServerInfo != nil && hello.ServerInfo.Name != "" {
		facts.Server = &v1alpha1.ServerInfo{Name: hello.ServerInfo.Name, Version: hello.ServerInfo.Version}
	}
	offers := hello.Capabilities
	if offers == nil {
		return facts, nil
	}
	if offers.Tools != nil {
		facts.Tools, err = count(session.Tools(ctx, nil), err)
	}
	if offers.Prompts != nil {
		facts.Prompts, err = count(session.Prompts(ctx, nil), err)
	}
	if offers.Resources != nil {
		facts.Resources, err = count(session.Resources(ctx, nil), err)
	}
	return facts, err
}

// count counts a list unless an earlier one failed.
func count[T any](items iter.Seq2[T, error], err error) (*int32, error) {
	if err != nil {
		return nil, err
	}
	n := int32(0)
	for _, err := range items {
		if err != nil {
			return nil, fmt.Errorf("listing: %w", err)
		}
		n++
	}
	return &n, nil
}

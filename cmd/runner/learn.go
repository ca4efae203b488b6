package main

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/backend"
)

// Asking a backend about itself is bounded in time and number. It is asked
// again because a pod that is ready need not be reachable through its Service
// on this node yet.
const (
	askAttempts = 9
	askTimeout  = 15 * time.Second
	askPause    = time.Second
	// maxItems is how many tools, prompts or resources are counted.
	maxItems = 10000
	// maxName is the longest name or version that the status takes, in bytes:
	// never more than its schema's limit in characters.
	maxName = 1024
)

// legacy is the newest revision of MCP that begins with initialize. A backend
// may speak it beside the newest of all.
const legacy = "2025-11-25"

// ask asks the backend what it is and offers, as a client of MCP does. It
// reports false if the backend does not say; that is served all the same.
func ask(ctx context.Context, s settings, logger *slog.Logger) (backend.Facts, bool) {
	if len(s.run.NotEnforced) > 0 {
		return backend.Facts{}, false // nothing reaches the backend
	}
	pause := askPause
	for attempt := 1; ; attempt++ {
		facts, err := learn(ctx, s.endpoint())
		if err == nil {
			return facts, true
		}
		if attempt == askAttempts || ctx.Err() != nil {
			logger.Info("the backend does not say what it is", "error", cut(err.Error()))
			return backend.Facts{}, false
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
		}
	}
}

// learn makes one attempt. The error says that no session came about; a list
// that cannot be counted is only left out.
func learn(ctx context.Context, endpoint string) (backend.Facts, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	client := newAsking()
	defer client.end()
	session, err := connectMCP(ctx, client, endpoint, "")
	if err != nil {
		return backend.Facts{}, fmt.Errorf("asking the backend: %w", client.explain(err))
	}
	defer session.Close() //nolint:errcheck // it was asked all there is
	hello := session.InitializeResult()
	facts := backend.Facts{ProtocolVersions: versions(ctx, client, endpoint, hello.ProtocolVersion)}
	if who := hello.ServerInfo; who != nil && who.Name != "" {
		facts.Server = &v1alpha1.ServerInfo{Name: cut(who.Name), Version: cut(who.Version)}
	}
	offers := hello.Capabilities
	if offers == nil {
		offers = &mcp.ServerCapabilities{}
	}
	facts.Tools = count(offers.Tools != nil, session.Tools(ctx, nil))
	facts.Prompts = count(offers.Prompts != nil, session.Prompts(ctx, nil))
	facts.Resources = count(offers.Resources != nil, session.Resources(ctx, nil))
	return facts, nil
}

func connectMCP(ctx context.Context, client *asking, endpoint, revision string) (*mcp.ClientSession, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "freehold-runner", Version: version}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: endpoint, HTTPClient: &client.Client, DisableStandaloneSSE: true, MaxRetries: -1}
	return c.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: revision})
}

// versions are the revisions that the backend was seen to speak: the one that
// was agreed on, and the legacy one if that is offered as well.
func versions(ctx context.Context, client *asking, endpoint, agreed string) []string {
	seen := []string{agreed}
	if agreed > legacy {
		if session, err := connectMCP(ctx, client, endpoint, legacy); err == nil {
			seen = append(seen, session.InitializeResult().ProtocolVersion)
			_ = session.Close() //nolint:errcheck // it was asked all there is
		}
	}
	slices.Sort(seen)
	return slices.DeleteFunc(slices.Compact(seen), func(v string) bool { return v == "" })
}

// count counts a list: 0 if it is not offered, nil if it cannot be read.
func count[T any](offered bool, items iter.Seq2[T, error]) *int32 {
	n := int32(0)
	if !offered {
		return &n
	}
	for _, err := range items {
		if err != nil {
			return nil
		}
		if n++; n == maxItems {
			break
		}
	}
	return &n
}

// cut makes a text of the backend's fit the log and the status: one that does not
// would refuse the whole report.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxName)], "")
}

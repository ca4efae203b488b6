package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/target"
	"github.com/freehold-dev/freehold/cmd/runner/internal/virtual"
)

// offering is a server with one of each thing, of the modern era too if it is stateless.
func offering(t *testing.T, whose string, stateless bool) (url string, server *mcp.Server) {
	t.Helper()
	server = mcp.NewServer(&mcp.Implementation{Name: whose, Version: "1"},
		&mcp.ServerOptions{
			Instructions: "Ask for what is of " + whose + ".",
			CompletionHandler: func(_ context.Context, r *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
				return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{
					Values: []string{r.Params.Ref.Name + r.Params.Ref.URI + " of " + whose},
				}}, nil
			},
		})
	mcp.AddTool(server, &mcp.Tool{Name: "say.it"},
		func(_ context.Context, _ *mcp.CallToolRequest, in struct{ Text string }) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: in.Text + " of " + whose}}}, nil, nil
		})
	var mu sync.Mutex
	counts := map[string]int{}
	mcp.AddTool(server, &mcp.Tool{Name: "count"},
		func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			mu.Lock()
			defer mu.Unlock()
			counts[r.Session.ID()]++
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.TextContent{Text: strconv.Itoa(counts[r.Session.ID()])},
			}}, nil, nil
		})
	greet := func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{
			{Role: "user", Content: &mcp.TextContent{Text: "greet of " + whose}},
		}}, nil
	}
	server.AddPrompt(&mcp.Prompt{Name: "greet"}, greet)
	read := func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "of " + whose}}}, nil
	}
	server.AddResource(&mcp.Resource{Name: "a", URI: "test://" + whose}, read)
	server.AddResourceTemplate(&mcp.ResourceTemplate{Name: "t", URITemplate: "test://" + whose + "/{id}"}, read)
	s := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{Stateless: stateless, JSONResponse: stateless, DisableLocalhostProtection: true}))
	t.Cleanup(func() { pipelinetest.Stop(s) })
	return s.URL, server
}

// membersIn is a directory with the members of a virtual server, as its proxy keeps them.
func membersIn(t *testing.T, uid string, members ...virtual.Member) (dir string) {
	t.Helper()
	dir = t.TempDir()
	data, err := json.Marshal(target.Members{ServerUID: uid, Members: members})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "members.json"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func memberAt(name, address string, joined int64) virtual.Member {
	return virtual.Member{
		Key: virtual.Key{Kind: "MCPServer", Name: name}, Joined: joined,
		URL: "http://" + address + "/mcp", Prefix: name + "_",
	}
}

// virtualRun is the run config of a virtual server.
func virtualRun(t *testing.T) runconfig.RunConfig {
	return sample(t, func(run *runconfig.RunConfig) {
		run.Server.Kind, run.Server.Name, run.Server.UID = "VirtualMCPServer", "all", "2222"
		run.Backend, run.Rendering.Backend = runconfig.Backend{}, ""
		run.Virtual = &runconfig.Virtual{Title: "All of it", Instructions: "Use both.", ToolNames: "Portable"}
	})
}

// A virtual server serves clients of both eras what its members have, of either era, through the members' own proxies.
func TestAVirtualServerServesItsMembers(t *testing.T) {
	olderURL, olderServer := offering(t, "older", false)
	newerURL, newerServer := offering(t, "newer", true)
	older, newer := start(t, sample(t), olderURL), start(t, sample(t), newerURL)
	state := membersIn(t, "2222", memberAt("newer", newer.calls, 2), memberAt("older", older.calls, 1))
	p := start(t, virtualRun(t), "", "--state="+state)
	p.await("it is ready", func() bool { return p.get("/readyz") == http.StatusOK })
	for _, revision := range []string{"2025-06-18", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			session := p.connect(revision)
			if got := seenBy(t, session); !slices.Equal(got, both) {
				t.Errorf("it has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(both, "\n"))
			}
			if got := session.InitializeResult().ProtocolVersion; got != revision {
				t.Errorf("the session is of %s", got)
			}
		})
	}
	// A session of a client is one of its own with the backend of a member.
	one, two := p.connect("2025-06-18"), p.connect("2025-06-18")
	for i, session := range []*mcp.ClientSession{one, two, one, two} {
		said, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "older_count"})
		if err != nil || said.Content[0].(*mcp.TextContent).Text != strconv.Itoa(1+i/2) {
			t.Errorf("call %d is answered with %v, %v", i, said, err)
		}
	}
	for name, server := range map[string]*mcp.Server{"older": olderServer, "newer": newerServer} {
		p.hearsOf(name, server)
	}
	if err := one.Close(); err != nil {
		t.Errorf("a session is ended: %v", err)
	}
	r, err := http.NewRequest(http.MethodPost, "http://"+p.calls+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Session-Id": {"another"},
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil || response.StatusCode != http.StatusNotFound {
		t.Errorf("a session that nobody has given gets %v, %v", response, err)
	}
	if err == nil {
		response.Body.Close()
	}
}

// hearsOf has a client of the modern era hear that a member has another tool, and call that.
func (p *process) hearsOf(name string, server *mcp.Server) {
	p.t.Helper()
	told, last := make(chan struct{}, 100), ""
	session := p.connectAs(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { told <- struct{}{} },
	}), "2026-07-28")
	p.await("a client is told of another tool of "+name, func() bool { // it subscribes beside
		last = "more" + strconv.FormatInt(time.Now().UnixNano(), 10)
		mcp.AddTool(server, &mcp.Tool{Name: last},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return &mcp.CallToolResult{}, nil, nil
			})
		select {
		case <-told:
			return true
		case <-time.After(time.Second):
			return false
		}
	})
	p.await("it can be called", func() bool {
		_, err := session.CallTool(p.t.Context(), &mcp.CallToolParams{Name: name + "_" + last})
		return err == nil
	})
}

// connect is a client of a revision.
func (p *process) connect(revision string) *mcp.ClientSession {
	p.t.Helper()
	return p.connectAs(mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil), revision)
}

func (p *process) connectAs(client *mcp.Client, revision string) *mcp.ClientSession {
	p.t.Helper()
	session, err := client.Connect(p.t.Context(), &mcp.StreamableClientTransport{
		Endpoint: "http://" + p.calls + "/mcp", DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		p.t.Fatalf("%v; it said:\n%s", err, p.said())
	}
	p.t.Cleanup(func() { _ = session.Close() })
	return session
}

// both is what a client sees of both members.
var both = []string{
	"all: All of it: Use both.", "older (older_*): Ask for what is of older.",
	"newer (newer_*): Ask for what is of newer.",
	"tool older_count", "tool older_say_it", "tool newer_count", "tool newer_say_it",
	"prompt older_greet", "prompt newer_greet",
	"resource test://older", "resource test://newer", "template test://older/{id}", "template test://newer/{id}",
	"hi of older", "hi of newer", "greet of newer", "of older at test://older", "of newer at test://newer/1",
	"greet of older", "test://newer/{id} of newer",
	`unknown tool: "none"`,
}

// seenBy is what a client sees of a virtual server.
func seenBy(t *testing.T, session *mcp.ClientSession) (seen []string) {
	t.Helper()
	ctx, hello := t.Context(), session.InitializeResult()
	add := func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add("%s: %s: %s", hello.ServerInfo.Name, hello.ServerInfo.Title, hello.Instructions)
	seen = strings.Split(seen[0], "\n")
	for tool, err := range session.Tools(ctx, nil) {
		must(err)
		add("tool %s", tool.Name)
	}
	for prompt, err := range session.Prompts(ctx, nil) {
		must(err)
		add("prompt %s", prompt.Name)
	}
	for resource, err := range session.Resources(ctx, nil) {
		must(err)
		add("resource %s", resource.URI)
	}
	for template, err := range session.ResourceTemplates(ctx, nil) {
		must(err)
		add("template %s", template.URITemplate)
	}
	for _, name := range []string{"older_say_it", "newer_say_it"} {
		said, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: map[string]any{"Text": "hi"}})
		must(err)
		add("%s", said.Content[0].(*mcp.TextContent).Text)
	}
	prompt, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "newer_greet"})
	must(err)
	add("%s", prompt.Messages[0].Content.(*mcp.TextContent).Text)
	for _, uri := range []string{"test://older", "test://newer/1"} {
		read, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		must(err)
		add("%s at %s", read.Contents[0].Text, read.Contents[0].URI)
	}
	for _, ref := range []*mcp.CompleteReference{
		{Type: "ref/prompt", Name: "older_greet"}, {Type: "ref/resource", URI: "test://newer/{id}"},
	} {
		completed, err := session.Complete(ctx, &mcp.CompleteParams{
			Ref: ref, Argument: mcp.CompleteParamsArgument{Name: "id", Value: "x"},
		})
		must(err)
		add("%s", completed.Completion.Values[0])
	}
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "none"})
	add("%s", strings.TrimPrefix(fmt.Sprint(err), `calling "tools/call": `))
	return seen
}

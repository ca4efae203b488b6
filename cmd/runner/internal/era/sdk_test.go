package era_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type echoed struct {
	Text string `json:"text"`
}

// offer gives a server one of each thing.
func offer(s *mcp.Server) {
	mcp.AddTool(s, &mcp.Tool{Name: "echo"},
		func(_ context.Context, _ *mcp.CallToolRequest, in echoed) (*mcp.CallToolResult, echoed, error) {
			return nil, in, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "fail"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, errors.New("it fails")
		})
	mcp.AddTool(s, &mcp.Tool{Name: "progress"},
		func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			for i := range 3 {
				_ = r.Session.NotifyProgress(ctx,
					&mcp.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(i), Total: 3})
				_ = r.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "warning", Data: fmt.Sprint("step ", i)}) //nolint:staticcheck // servers log until clients no longer listen
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "ask"},
		func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			name, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "who are you?", RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
			}})
			if err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{
				&mcp.TextContent{Text: fmt.Sprint("hello ", name.Content["name"])},
			}}, nil, nil
		})
	mcp.AddTool(s, &mcp.Tool{Name: "hang"},
		func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			<-ctx.Done()
			return nil, nil, ctx.Err()
		})
	s.AddPrompt(&mcp.Prompt{Name: "greet"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}},
			nil
	})
	s.AddResource(&mcp.Resource{Name: "a", URI: "test://a"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "of a"}}}, nil
		})
	s.AddResourceTemplate(&mcp.ResourceTemplate{Name: "t", URITemplate: "test://t/{id}"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "of t"}}}, nil
		})
}

// everything is what a client sees of a server, as lines.
func everything(t *testing.T, s *mcp.ClientSession) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var seen []string
	add := func(format string, args ...any) { seen = append(seen, fmt.Sprintf(format, args...)) }
	add("instructions %s", s.InitializeResult().Instructions)
	for tool, err := range s.Tools(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		add("tool %s", tool.Name)
	}
	for prompt, err := range s.Prompts(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		add("prompt %s", prompt.Name)
	}
	for resource, err := range s.Resources(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		add("resource %s", resource.URI)
	}
	for template, err := range s.ResourceTemplates(ctx, nil) {
		if err != nil {
			t.Fatal(err)
		}
		add("template %s", template.URITemplate)
	}
	echo, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "größe"}})
	if err != nil {
		t.Fatal(err)
	}
	add("echo %v", echo.StructuredContent)
	failed, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "fail"})
	if err != nil {
		t.Fatal(err)
	}
	add("fail %v %s", failed.IsError, failed.Content[0].(*mcp.TextContent).Text)
	prompt, err := s.GetPrompt(ctx, &mcp.GetPromptParams{Name: "greet"})
	if err != nil {
		t.Fatal(err)
	}
	add("greet %s", prompt.Messages[0].Content.(*mcp.TextContent).Text)
	for _, uri := range []string{"test://a", "test://t/1"} {
		read, err := s.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			t.Fatal(err)
		}
		add("read %s", read.Contents[0].Text)
	}
	_, err = s.ReadResource(ctx, &mcp.ReadResourceParams{URI: "test://absent"})
	add("absent %v", err != nil)
	_, err = s.CallTool(ctx, &mcp.CallToolParams{Name: "absent"})
	add("no tool %v", err != nil && strings.Contains(err.Error(), "absent"))
	return seen
}

func TestClientsOfEitherEraSeeTheSameServer(t *testing.T) {
	want := everything(t, connect(t, newBackend(t, both).URL, "", nil))
	for name, speaks := range map[string]eras{"legacy": legacyOnly, "modern": modernOnly, "both": both} {
		for _, revision := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
			t.Run(name+" backend, client of "+revision, func(t *testing.T) {
				b := newBackend(t, speaks)
				s := connect(t, front(t, b), revision, nil)
				if diff := cmp.Diff(want, everything(t, s)); diff != "" {
					t.Error(diff)
				}
				if agreed := s.InitializeResult().ProtocolVersion; agreed != revision {
					t.Errorf("the client was served in %s", agreed)
				}
			})
		}
	}
}

func TestProgressAndLogsOfACall(t *testing.T) {
	for name, speaks := range map[string]eras{"legacy": legacyOnly, "modern": modernOnly} {
		t.Run(name, func(t *testing.T) {
			endpoint := front(t, newBackend(t, speaks))
			revision := map[eras]string{legacyOnly: "2026-07-28", modernOnly: "2025-11-25"}[speaks]
			steps := make(chan any, 10)
			s := connect(t, endpoint, revision, &mcp.ClientOptions{
				ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
					steps <- r.Params.ProgressToken
				},
			})
			params := &mcp.CallToolParams{Name: "progress"}
			params.SetProgressToken("mine")
			if _, err := s.CallTool(t.Context(), params); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				select {
				case token := <-steps:
					if token != "mine" {
						t.Errorf("progress of %v", token)
					}
				case <-time.After(patience):
					t.Fatal("no progress")
				}
			}
		})
	}
}

func TestAModernClientAnswersWhatALegacyServerAsks(t *testing.T) {
	b := newBackend(t, legacyOnly)
	s := connect(t, front(t, b), "2026-07-28", &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if r.Params.Message != "who are you?" {
				return nil, errors.New("asked " + r.Params.Message)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "Ada"}}, nil
		},
	})
	got, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
	if err != nil {
		t.Fatal(err)
	}
	if text := got.Content[0].(*mcp.TextContent).Text; text != "hello Ada" {
		t.Errorf("the tool says %q", text)
	}
	if n := len(b.got("tools/call")); n != 1 {
		t.Errorf("the backend was called %d times", n)
	}
}

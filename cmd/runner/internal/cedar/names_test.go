package cedar

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	mark3 "github.com/mark3labs/mcp-go/mcp"
	mark3server "github.com/mark3labs/mcp-go/server"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/controllers/authz"
)

// A server that mcp-go makes reads the arguments of its tools with encoding/json, which passes over case.
func TestNoArgumentReachesAServerUnderAnotherName(t *testing.T) {
	server := mark3server.NewMCPServer("files", "1")
	type arguments struct {
		Path string `json:"path"`
	}
	server.AddTool(mark3.NewTool("read_file"), mark3.NewTypedToolHandler(
		func(_ context.Context, _ mark3.CallToolRequest, a arguments) (*mark3.CallToolResult, error) {
			return mark3.NewToolResultText("reads " + a.Path), nil
		}))
	backend := mark3server.NewStreamableHTTPServer(server, mark3server.WithStateLess(true))
	for name, policy := range map[string]string{
		"permit": `permit(principal, action, resource) when { resource.arg_path like "/data/*" };`,
		"forbid": `permit(principal, action, resource); forbid(principal, action, resource) when { resource.arg_path like "/etc/*" };`,
		"forbid an optional argument": `permit(principal, action, resource);
			forbid(principal, action, resource) when { resource has arg_path && resource.arg_path like "/etc/*" };`,
	} {
		policies, err := authz.Parse([]authz.Source{{Name: "p", Text: policy}}, "")
		if err != nil {
			t.Fatal(err)
		}
		guard := pipelinetest.Begin(New(Config{
			Policies: policies,
			Refuse: func(w http.ResponseWriter, _ *http.Request, _ http.Handler, r Refusal) {
				http.Error(w, r.Message, map[Reason]int{Unclear: http.StatusBadRequest}[r.Reason])
			},
		})(backend), budget.New(budget.Default), nil)
		for _, arguments := range []string{
			`{"path":"/data/a","Path":"/etc/shadow"}`, `{"PATH":"/etc/shadow"}`, `{"path":"/data/a","\u0050ATH":"/etc/shadow"}`,
		} {
			r, w := httptest.NewRequest(http.MethodPost, "/mcp",
				strings.NewReader(call("tools/call", `{"name":"read_file","arguments":`+arguments+`}`))), httptest.NewRecorder()
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			guard.ServeHTTP(w, r)
			if body, _ := io.ReadAll(w.Body); w.Code != http.StatusBadRequest || strings.Contains(string(body), "reads") {
				t.Errorf("%s, %s: HTTP %d with %s", name, arguments, w.Code, body)
			}
		}
	}
}

// What a caller names may have 4 MiB, and each call of a batch is answered with the refusal.
func TestARefusalShowsTheBeginOfALongName(t *testing.T) {
	long := strings.Repeat("a", 100_000)
	for name, tc := range map[string]attempt{
		"a tool":            {call("tools/call", `{"name":"`+long+`"}`), nil, denied, ""},
		"a prompt":          {call("prompts/get", `{"name":"`+long+`"}`), nil, denied, ""},
		"a resource":        {call("resources/read", `{"uri":"`+long+`"}`), nil, denied, ""},
		"a method":          {call(long, `{}`), nil, denied, ""},
		"a modern method":   {call(long, `{}`), http.Header{"Mcp-Protocol-Version": {"2026-07-28"}}, 404, ""},
		"another method":    {call(long, `{}`), http.Header{"Mcp-Method": {"tools/call"}}, denied, ""},
		"another name":      {call("tools/call", `{"name":"`+long+`"}`), http.Header{"Mcp-Name": {"add"}}, 400, ""},
		"a caller":          {call("tools/call", `{"name":"no"}`), http.Header{"As": {long}}, denied, ""},
		"a name in 2 cases": {call("tools/call", `{"Name":"`+long+`"}`), nil, 400, ""},
		"an argument": {
			call("tools/call", `{"name":"write","arguments":{"path":1,"`+long+`":1,"`+strings.ToUpper(long)+`":{"path":1}}}`),
			nil, unclear, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := post(guarded(t, &backend{kind: "application/json", body: "{}"}, nil), tc.body, tc.header)
			if w.Code != tc.status || w.Body.Len() > 4<<10 {
				t.Errorf("%d, %d bytes: %.300s", w.Code, w.Body.Len(), w.Body)
			}
		})
	}
}

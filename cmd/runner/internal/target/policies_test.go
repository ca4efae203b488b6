package target

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// permitting has one policy.
func permitting(policy string) func(*runconfig.Target) {
	return func(r *runconfig.Target) {
		r.Proxy.Authorization = &runconfig.Authorization{Policies: []runconfig.Policy{{Name: "p", Text: policy}}}
	}
}

func TestPoliciesDecide(t *testing.T) {
	reached := 0
	backend := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reached++
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"add"},{"name":"drop"}]}}`)
	})
	run := sample(permitting(`permit(principal, action, resource == Tool::"add");`))
	judge, err := made(t, Config{Run: run}).authorize(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	handler := pipelinetest.Begin(judge(backend), budget.New(budget.Default), nil)
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}`: "200 ",
		`{"jsonrpc":"2.0","id":7,"method":"tools/list"}`:                         `200 {"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"add"}]}}`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"drop"}}`: `200 {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"NotPermitted: ` +
			`Client::\"anonymous\" may not call tool \"drop\": no policy permits it. To repeat the call does not help: the server's owner can permit it in spec.authzConfig, `,
		`{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"a"}}`:                            `200 {"jsonrpc":"2.0","id":7,"error":{"code":-32018,"message":"NotPermitted: Client::\"anonymous\" may not get prompt \"a\": no policy`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"A":1}}}`: `200 {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"NotJudged: tools/call: `,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","name":"drop"}}`:             `400 {"jsonrpc":"2.0","id":null,"error":{"code":-32019,"message":"NotJudged: `,
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(w, r)
		if got := fmt.Sprintf("%d %s", w.Code, w.Body); !strings.HasPrefix(got, want) {
			t.Errorf("%.80s: got %s, want %s", body, got, want)
		}
	}
	if reached != 2 {
		t.Errorf("%d calls reached the backend, want 2", reached)
	}
}

// What policies refuse to a client of the newer era never reaches a server of the older one, also where that is at
// another path, and lists have what they permit.
func TestPoliciesStandBeforeATranslation(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "legacy", Version: "1"}, nil)
	var called []string
	for _, name := range []string{"add", "drop"} {
		mcp.AddTool(server, &mcp.Tool{Name: name},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				called = append(called, name)
				return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "did " + name}}}, nil, nil
			})
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp/", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{DisableLocalhostProtection: true}))
	backend := httptest.NewServer(mux) // which redirects to the path with the slash
	t.Cleanup(func() { pipelinetest.Stop(backend) })
	run := sample(permitting(`permit(principal, action == Action::"call_tool", resource == Tool::"add");`))
	log := slog.New(slog.DiscardHandler)
	config, _, err := made(t, Config{
		Run: run, Backend: backend.URL, KeysDir: folder(t, map[string]string{runconfig.SessionKey: strings.Repeat("k", 32)}),
	}).Proxy(log)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(proxy.New(proxy.Process{Log: log}, map[string]proxy.Config{"/mcp": config}))
	t.Cleanup(func() { pipelinetest.Stop(front) })

	client := mcp.NewClient(&mcp.Implementation{Name: "modern", Version: "1"}, nil)
	session, err := client.Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: front.URL + "/mcp", MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if version := session.InitializeResult().ProtocolVersion; version != "2026-07-28" {
		t.Fatalf("the client speaks %s", version)
	}
	list, err := session.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "add" {
		t.Errorf("the list is %+v: %v", list, err)
	}
	for name, want := range map[string]string{"add": "did add", "drop": `may not call tool "drop"`} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name})
		if err != nil || !strings.Contains(result.Content[0].(*mcp.TextContent).Text, want) {
			t.Errorf("%s answers %+v: %v", name, result, err)
		}
	}
	if len(called) != 1 {
		t.Errorf("the backend was called for %s", called)
	}
}

// guarded is a proxy that asks for a token of an issuer before a backend with a bridge.
func guarded(t *testing.T, issuer *oidctest.Issuer, backend string, log io.Writer) http.Handler {
	t.Helper()
	run := sample(guardedBy(issuer.URL), func(r *runconfig.Target) { r.Backend.Bridge = &runconfig.Bridge{Shared: true} })
	config, _, err := made(t, Config{
		Run: run, Backend: backend, LoginDir: folder(t, map[string]string{
			runconfig.CAFile: string(issuer.Bundle()), runconfig.ClientSecretFile: "secret",
		}),
	}).Proxy(slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	config.Translate = nil
	return proxy.New(proxy.Process{Log: slog.New(slog.DiscardHandler)}, map[string]proxy.Config{"/mcp": config})
}

// Policies look at who calls. The backend reads no token, and a bridge in front of it is told who has a share.
func TestALoginStandsBeforeThePolicies(t *testing.T) {
	issuer, got := oidctest.New(t), http.Header(nil)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	t.Cleanup(backend.Close)
	var log bytes.Buffer
	front := guarded(t, issuer, backend.URL, &log)
	send := func(method, authorization, tool string) *httptest.ResponseRecorder {
		w, r := httptest.NewRecorder(), httptest.NewRequest(method, "/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`"}}`))
		r.Host = "echo-proxy.team.svc"
		r.Header.Set("Content-Type", "application/json")
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		front.ServeHTTP(w, r)
		return w
	}
	claims := oidctest.Object{
		"iss": issuer.URL, "sub": "ann", "aud": endpoint, "exp": time.Now().Unix() + 600, "scope": "tools", "team": "blue",
	}
	token := func(change oidctest.Object) string {
		return "Bearer " + issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, claims.With(change))
	}
	issuer.Tokens.Store("opaque", claims)
	const where = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/echo/mcp", scope="tools"`
	told := map[string]string{}
	for name, tc := range map[string]struct {
		authorization, tool string
		status              int
		says, challenge     string
	}{
		"no token": {"", "add", 401, "NotLoggedIn: no token", where},
		"for another server": {
			token(oidctest.Object{"aud": "https://other"}), "add", 401,
			"NotLoggedIn: the token is for another audience", `error="invalid_token"`,
		},
		"without the scope": {
			token(oidctest.Object{"scope": "other"}), "add", 403, "NotLoggedIn: the token lacks a scope",
			`error="insufficient_scope"`,
		},
		"of another team": {
			token(oidctest.Object{"team": "red"}), "add", 200,
			`"text":"NotPermitted: Client::\"ann\" may not call tool \"add\"`, "",
		},
		"for another tool": {token(nil), "drop", 200, `"text":"NotPermitted: Client::\"ann\" may not call tool \"drop\"`, ""},
		"opaque":           {"Bearer opaque", "add", 200, `"result":{}`, ""},
		"permitted":        {token(nil), "add", 200, `"result":{}`, ""},
		"another caller":   {token(oidctest.Object{"sub": "bob"}), "add", 200, `"result":{}`, ""},
	} {
		got = nil
		w := send(http.MethodPost, tc.authorization, tc.tool)
		challenge := w.Header().Get("WWW-Authenticate")
		if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.says) || !strings.Contains(challenge, tc.challenge) ||
			tc.challenge == "" && challenge != "" {
			t.Errorf("%s: %d %s, challenged with %q, want %d with %s", name, w.Code, w.Body, challenge, tc.status, tc.says)
		}
		if reached := got != nil; reached != (tc.says == `"result":{}`) || got.Get("Authorization") != "" {
			t.Errorf("%s: the backend got %v", name, got)
		}
		told[name] = got.Get(protocol.HeaderCaller)
	}
	if told["opaque"] == "" || told["opaque"] != told["permitted"] || told["opaque"] == told["another caller"] {
		t.Errorf("a bridge is told of callers %q", told)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodOptions} {
		if w := send(method, "", "add"); w.Code != http.StatusUnauthorized {
			t.Errorf("%s without a token: %d", method, w.Code)
		}
	}
	said := log.String()
	if strings.Contains(said, "eyJ") || strings.Contains(said, "opaque") || !strings.Contains(said,
		"msg=authorization subject=ann issuer="+issuer.URL+" method=tools/call name=drop decision=deny") {
		t.Errorf("a token is in the log, or a decision is not:\n%s", said)
	}
}

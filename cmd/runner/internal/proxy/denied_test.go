package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
)

func TestDeny(t *testing.T) {
	const (
		tool     = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"drop"}}`
		result   = `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"%sno"}],"isError":true}}`
		modernly = `{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","content":[{"type":"text","text":"no"}],"isError":true}}`
		fault    = `{"jsonrpc":"2.0","id":%s,"error":{"code":-32018,"message":"%sno"}}`
		all      = "nothing of this batch is run: "
	)
	for name, tc := range map[string]struct {
		body, version string
		status        int
		want          string
	}{
		"a tool":         {tool, "", 200, fmt.Sprintf(result, "")},
		"a tool, legacy": {tool, "2025-11-25", 200, fmt.Sprintf(result, "")},
		"a tool, modern": {tool, "2026-07-28", 200, modernly},
		"modern by its meta": {
			`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, "", 200, modernly,
		},
		"a prompt":   {`{"jsonrpc":"2.0","id":"a","method":"prompts/get"}`, "", 200, fmt.Sprintf(fault, `"a"`, "")},
		"a resource": {`{"jsonrpc":"2.0","id":1,"method":"resources/read"}`, "2026-07-28", 200, fmt.Sprintf(fault, "1", "")},
		"a list":     {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "", 200, fmt.Sprintf(fault, "1", "")},
		"the begin":  {`{"jsonrpc":"2.0","id":0,"method":"initialize"}`, "", 200, fmt.Sprintf(fault, "0", "")},
		"a batch": {
			"[" + tool + `,{"jsonrpc":"2.0","method":"notifications/progress"},{"jsonrpc":"2.0","id":8,"method":"ping"}]`, "",
			200,
			"[" + fmt.Sprintf(result, all) + "," + fmt.Sprintf(fault, "8", all) + "]",
		},
		"a notification": {
			`{"jsonrpc":"2.0","method":"notifications/progress"}`, "", 400,
			fmt.Sprintf(fault, "null", ""),
		},
		"a batch without a call": {
			`[{"jsonrpc":"2.0","method":"notifications/progress"}]`, "", 400,
			fmt.Sprintf(fault, "null", all),
		},
		"nothing that can be read": {"", "", 400, fmt.Sprintf(fault, "null", "")},
	} {
		t.Run(name, func(t *testing.T) {
			w, r, status := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(tc.body)), 0
			r.Header.Set("Mcp-Protocol-Version", tc.version)
			pipelinetest.Begin(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				status = Deny(w, r, nil, Denied{Code: CodeNotPermitted, Message: "no"})
			}), budget.New(budget.Default), nil).ServeHTTP(w, r)
			if status != tc.status || w.Code != status || w.Body.String() != tc.want {
				t.Errorf("%d %d %s\nwant %d %s", status, w.Code, w.Body, tc.status, tc.want)
			}
			if header := w.Header(); header.Get("Content-Type") != "application/json" ||
				header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Www-Authenticate") != "" {
				t.Errorf("with %v", header)
			}
		})
	}
}

// The stream may be at another proxy than the call.
func TestAClientOfHTTPAndSSEReadsARefusalOnItsStream(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	b, secret := bridged(t, 2), secretOf(t)
	streams, messages := b.before(secret, judged(t)), b.before(secret, judged(t))
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := messages
		if r.Method == http.MethodGet {
			to = streams
		}
		to.proxy.ServeHTTP(w, r)
	}))
	defer service.Close()
	defer service.CloseClientConnections()
	client := mcp.NewClient(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	session, err := client.Connect(ctx, &mcp.SSEClientTransport{Endpoint: service.URL + "/mcp"},
		&mcp.ClientSessionOptions{ProtocolVersion: "2024-11-05"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for range 2 {
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "drop"})
		if err != nil || !result.IsError ||
			!strings.Contains(result.Content[0].(*mcp.TextContent).Text, `may not call tool "drop"`) {
			t.Fatalf("a denied call: %+v, %v", result, err)
		}
		if result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "where"}); err != nil || result.IsError {
			t.Errorf("the call after it: %+v, %v", result, err)
		}
	}
}

// Pods keep the bridge of a release before.
func TestARefusalBeforeABridgeThatPutsNothingOnStreams(t *testing.T) {
	b, secret := bridged(t, 1), secretOf(t)
	inner := b.pods[0].Config.Handler
	b.pods[0].Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.Header().Set("Allow", "GET, POST, DELETE")
			http.Error(w, "an MCP endpoint takes POST, GET and DELETE", http.StatusMethodNotAllowed)
			return
		}
		inner.ServeHTTP(w, r)
	})
	p := b.before(secret, judged(t))
	stream := p.call(http.MethodGet, "/mcp", "", "Accept", "text/event-stream")
	to := string(eventOf(t, nextEvent(t, bufio.NewReader(stream.Body))).Data)
	response := p.call(http.MethodPost, to, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"drop"}}`,
		"Content-Type", "application/json")
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusBadRequest || err != nil || response.Header.Get("Allow") != "" ||
		!strings.Contains(string(body), `may not call tool \"drop\"`) {
		t.Errorf("HTTP %d %s, %v, with %v", response.StatusCode, body, err, response.Header)
	}
	// No client puts anything there itself.
	if response := p.call(http.MethodPut, to,
		`{"jsonrpc":"2.0","id":7,"result":{}}`); response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("PUT: HTTP %d", response.StatusCode)
	}
}

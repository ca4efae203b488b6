//go:build !race

// The race detector's own allocations would be counted.

package target

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
)

// twenty are policies as a team writes them, of which two decide about a call.
func twenty() *runconfig.Authorization {
	a := &runconfig.Authorization{}
	for n := range 18 {
		a.Policies = append(a.Policies, runconfig.Policy{
			Name: fmt.Sprintf("tool-%02d", n),
			Text: fmt.Sprintf(
				`permit(principal in Group::"team-%d", action == Action::"call_tool", resource == Tool::"tool-%d") when { resource.arg_n < %d };`, n, n, n),
		})
	}
	a.Policies = append(a.Policies,
		runconfig.Policy{
			Name: "own",
			Text: `permit(principal in Group::"blue", action == Action::"call_tool", resource) when { principal.claim_level >= 3 };`,
		},
		runconfig.Policy{
			Name: "path",
			Text: `forbid(principal, action == Action::"call_tool", resource) when { resource has arg_path && resource.arg_path like "/etc/*" };`,
		})
	return a
}

// What a guard allocates is on top of what the proxy does (internal/proxy, 10 KB), but for the Call, which is made here
// too: 20 KB a call all in all.
func TestAGuardAllocatesLittle(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello","path":"/tmp/a"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`
	issuer := oidctest.New(t)
	run := sample(guardedBy(issuer.URL))
	run.Proxy.Authentication.CABundle, run.Proxy.Authentication.Scopes = nil, nil
	token := issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"}, oidctest.Object{
		"iss": issuer.URL, "sub": "ann", "aud": endpoint, "exp": time.Now().Unix() + 600, "team": []string{"blue", "red"},
		"email": "ann@example.com", "level": 4, "iat": time.Now().Unix(), "jti": "b7c1d2f0", "azp": "desktop",
		"org": map[string]any{"unit": "a", "id": 5},
	})
	transport := http.DefaultTransport
	http.DefaultTransport = issuer.Client().Transport
	t.Cleanup(func() { http.DefaultTransport = transport })
	for _, tc := range []struct {
		name               string
		policies           *runconfig.Authorization
		allocations, bytes uint64
	}{
		{"a token", nil, 18, 2700},
		{"a token and 20 policies", twenty(), 92, 7900},
	} {
		run.Proxy.Authorization = tc.policies
		to := made(t, Config{Run: run})
		logger := slog.New(slog.NewJSONHandler(discard{}, nil))
		who, err := to.login(logger)
		if err != nil {
			t.Fatal(err)
		}
		judge, err := to.authorize(logger)
		if err != nil {
			t.Fatal(err)
		}
		reached := 0
		backend := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ })
		h := pipelinetest.Begin(pipeline.Stages{who.Guard, judge}.To(backend), budget.New(budget.Default), nil)
		const calls = 500
		requests := make([]*http.Request, calls+1)
		for i := range requests {
			requests[i] = httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(call))
			requests[i].Header = http.Header{
				"Authorization": {"Bearer " + token}, "Mcp-Method": {"tools/call"},
				"Mcp-Name": {"echo"}, "Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"},
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, requests[calls])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		for _, r := range requests[:calls] {
			h.ServeHTTP(w, r)
		}
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		// A tenth above what was counted when they were set.
		allocations, size := (after.Mallocs-before.Mallocs)/calls, (after.TotalAlloc-before.TotalAlloc)/calls
		t.Logf("%s: %d allocations of %d bytes in %s", tc.name, allocations, size, took/calls)
		if reached != calls+1 || allocations > tc.allocations || size > tc.bytes {
			t.Errorf("%s: %d allocations of %d bytes, want at most %d and %d; %d calls passed: %s", tc.name, allocations, size,
				tc.allocations, tc.bytes, reached, w.Body)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

package target

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc/oidctest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
)

const endpoint = "https://mcp.example.com/echo/mcp"

// guardedBy asks for a token of an issuer, and lets one team call one tool.
func guardedBy(issuer string) func(*runconfig.Target) {
	return func(r *runconfig.Target) {
		r.Proxy.Authentication = &runconfig.Authentication{
			Issuer: issuer, Algorithms: []string{"RS256"}, UsernameClaim: "sub",
			CABundle: &runconfig.Key{Name: "ca", Key: "ca.crt"},
			Introspection: &runconfig.Introspection{
				URL: issuer + "/introspect", ClientID: "mcp:proxy",
				ClientSecret: runconfig.Key{Name: "s", Key: "k"},
			},
			GroupsClaim: "team", Resource: endpoint, Audiences: []string{endpoint}, Scopes: []string{"tools"},
		}
		r.Proxy.Authorization = &runconfig.Authorization{Policies: []runconfig.Policy{{
			Name: "team",
			Text: `permit(principal in Group::"blue", action == Action::"call_tool", resource == Tool::"add") when { principal.claim_team == "blue" };`,
		}}}
	}
}

// sample is a run config.
func sample(edit ...func(*runconfig.Target)) runconfig.Target {
	run := runconfig.Target{
		Server:  runconfig.Server{Namespace: "team", Name: "echo", UID: "1111"},
		Backend: runconfig.Backend{Image: "echo:1", Port: 8080, Path: "/mcp", Transport: "streamable-http"},
		Proxy:   runconfig.Proxy{Port: 8000, Path: "/mcp"},
	}
	for _, e := range edit {
		e(&run)
	}
	return run
}

// made is a target that New takes.
func made(t testing.TB, config Config) *Target {
	t.Helper()
	to, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

func TestDecisionsAreLoggedUnlessTheSpecSaysNot(t *testing.T) {
	for _, off := range []bool{false, true} {
		run := sample(guardedBy("https://login.example.com"))
		run.Proxy.NoAudit = off
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		who, err := made(t, Config{Run: run}).login(logger)
		if err != nil {
			t.Fatal(err)
		}
		who.Guard(nil).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody))
		run.Proxy.Authentication = nil
		judge, err := made(t, Config{Run: run}).authorize(logger)
		if err != nil {
			t.Fatal(err)
		}
		pipelinetest.Begin(judge(nil), budget.New(budget.Default), nil).ServeHTTP(httptest.NewRecorder(),
			httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("{}")))
		for _, kind := range []string{"msg=authentication", "msg=authorization"} {
			if strings.Contains(log.String(), kind) == off {
				t.Errorf("with noAudit %t the log is:\n%s", off, &log)
			}
		}
	}
}

func TestTheClusterIsAskedForItsKeys(t *testing.T) {
	issuer := oidctest.New(t)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/openid/v1/jwks" {
			r.URL.Path = "/keys"
		}
		issuer.Config.Handler.ServeHTTP(w, r)
	}))
	t.Cleanup(api.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	text :=
		`{"apiVersion":"v1","kind":"Config","current-context":"x","contexts":[{"name":"x","context":{"cluster":"x"}}],` +
			`"clusters":[{"name":"x","cluster":{"server":"` + api.URL + `"}}]}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	run := runconfig.Target{Proxy: runconfig.Proxy{Authentication: &runconfig.Authentication{
		Algorithms: []string{"RS256"}, UsernameClaim: "sub", Usernames: []string{"system:serviceaccount:a:b"},
		Resource: endpoint, Audiences: []string{endpoint},
	}}}
	who, err := made(t, Config{Run: run}).login(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	passed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "passed") })
	h := pipelinetest.Begin(who.Guard(passed), budget.New(budget.Default), nil)
	for subject, want := range map[string][2]string{
		"system:serviceaccount:a:b": {"200 passed", "200 passed"},
		"system:serviceaccount:a:c": {
			`200 {"jsonrpc":"2.0","id":1,"error":{"code":-32018,"message":"NotPermitted: system:serviceaccount:a:c is not among those who may call this server. Its owner can add`,
			`400 {"jsonrpc":"2.0","id":null,"error":{"code":-32018,`,
		},
	} {
		token := issuer.Token(t, oidctest.Object{"alg": "RS256", "kid": "one"},
			oidctest.Object{"iss": issuer.URL, "sub": subject, "aud": []string{endpoint}, "exp": time.Now().Unix() + 60})
		for i, body := range []string{`{"jsonrpc":"2.0","id":1,"method":"initialize"}`, ""} {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+token)
			if h.ServeHTTP(w, r); !strings.HasPrefix(fmt.Sprintf("%d %s", w.Code, w.Body), want[i]) ||
				w.Header().Get("Www-Authenticate") != "" {
				t.Errorf("%s with %q: %d %s, want %s", subject, body, w.Code, w.Body, want[i])
			}
		}
	}
}

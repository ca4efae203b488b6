package main

import (
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/oidc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// translate is what lets clients of either era of MCP use the backend. It stands behind the guard: policies judge what a client
// sent, and filter what it gets.
func translate(login *oidc.Login, logger *slog.Logger) func(pass, send http.Handler, failed func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return func(pass, send http.Handler, failed func(http.ResponseWriter, *http.Request, error)) http.Handler {
		return era.New(era.Config{
			Caller: func(r *http.Request) string { return identity(r, login != nil) },
			Failed: failed, Log: logger,
		}, pass, send)
	}
}

// identity tells callers apart, whether the proxy lets them in or the backend, by an API key.
func identity(r *http.Request, loggedIn bool) string {
	var parts []string
	if loggedIn {
		caller := oidc.CallerOf(r)
		parts = append(parts, caller.Issuer, caller.Subject)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if proxy.APIKey(name) {
			parts = append(append(parts, name), r.Header[name]...)
		}
	}
	for i, part := range parts {
		parts[i] = strconv.Quote(part)
	}
	return strings.Join(parts, " ")
}

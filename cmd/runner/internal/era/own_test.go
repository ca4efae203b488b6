package era

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// What is known of a backend is asked anew for clients alone: each time begins a session at one of the legacy era, and
// the proxy itself asks all the time.
func TestAQuestionOfTheProcessHasNoErasAskedAnew(t *testing.T) {
	for who, isOwn := range map[string]bool{"a client": false, "the process": true} {
		synctest.Test(t, func(t *testing.T) {
			var begun atomic.Int32
			send := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				messages, _, _ := jsonrpc.Parse(body)
				if len(messages) == 1 && messages[0].Method == "initialize" {
					begun.Add(1)
					_, _ = w.Write(jsonrpc.Result(messages[0].ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`)))
					return
				}
				w.WriteHeader(http.StatusBadRequest)
			})
			translator := New(Config{
				Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler),
				Own: func(*http.Request) bool { return isOwn },
			}, nil, send)
			translator.state.Store(&found{legacy: true, versions: []string{protocol.Legacy}}) // of long ago
			asks := pipelinetest.Begin(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if known, err := translator.detect(r); err != nil || !known.legacy {
					t.Errorf("%s: %+v, %v", who, known, err)
				}
			}), budget.New(budget.Default), nil)
			asks.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody))
			synctest.Wait()
			if asked := begun.Load() > 0; asked == isOwn {
				t.Errorf("%s: asked anew is %v", who, asked)
			}
		})
	}
}

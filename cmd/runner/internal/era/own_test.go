package era

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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

// A session that nobody uses ends, but not the process's own: it asks rarely, or not while clients call, and backends
// keep in memory what was ended.
func TestTheProcessKeepsItsSession(t *testing.T) {
	for who, isOwn := range map[string]bool{"a client": false, "the process": true} {
		synctest.Test(t, func(t *testing.T) {
			var begun, ended atomic.Int32
			send := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				messages, _, _ := jsonrpc.Parse(body)
				switch {
				case r.Method == http.MethodDelete:
					ended.Add(1)
				case len(messages) == 1 && messages[0].Method == "initialize":
					begun.Add(1)
					w.Header().Set(protocol.HeaderSession, "a")
					_, _ = w.Write(jsonrpc.Result(messages[0].ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`)))
				case len(messages) == 1 && messages[0].Identified():
					_, _ = w.Write(jsonrpc.Result(messages[0].ID, []byte(`{}`)))
				}
			})
			translator := New(Config{
				Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler),
				Own: func(*http.Request) bool { return isOwn },
			}, nil, send)
			asks := pipelinetest.Begin(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				h, err := translator.current(r, profile{})
				if err != nil {
					t.Fatal(err)
				}
				translator.sessions.put(h)
			}), budget.New(budget.Default), nil)
			for range 3 {
				asks.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody))
				time.Sleep(3 * idleTime)
				synctest.Wait()
			}
			want, wantEnded := int32(3), int32(3)
			if isOwn {
				want, wantEnded = 1, 0
			}
			if begun.Load() != want || ended.Load() != wantEnded {
				t.Errorf("%s: %d sessions are begun, and %d ended", who, begun.Load(), ended.Load())
			}
			translator.Close(t.Context())
			if ended.Load() != want {
				t.Errorf("%s: in the end %d of %d sessions are ended", who, ended.Load(), want)
			}
		})
	}
}

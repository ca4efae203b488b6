package era

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// reader is a client that does something as soon as it reads some words.
type reader struct {
	*httptest.ResponseRecorder
	on map[string]func()
}

func (r *reader) Write(p []byte) (int, error) {
	for words, do := range r.on {
		if strings.Contains(string(p), words) {
			delete(r.on, words)
			do()
		}
	}
	return r.ResponseRecorder.Write(p)
}

// changing is a legacy server that tells a change on the stream of a call alone.
func changing(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	say := func(kind, text string) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, text)
	}
	switch {
	case r.Method == http.MethodGet:
		say("text/event-stream", ": begins\n\n")
		<-r.Context().Done()
	case strings.Contains(string(body), `"initialize"`):
		w.Header().Set("Mcp-Session-Id", "s")
		say("application/json", `{"jsonrpc":"2.0","result":{"protocolVersion":"2025-11-25","serverInfo":{},`+
			`"capabilities":{"tools":{"listChanged":true}}}}`)
	case strings.Contains(string(body), `"prompts/get"`):
		say("text/event-stream", `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n\n"+
			`data: {"jsonrpc":"2.0","result":{"messages":[]}}`+"\n\n")
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// A client may call as soon as it reads that it has subscribed.
func TestASubscriptionHearsWhatIsChangedOnceItIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := New(Config{
			Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler),
		}, nil, http.HandlerFunc(changing))
		tr.state.Store(&found{legacy: true, until: time.Now().Add(time.Hour)})
		defer tr.Close(t.Context())
		ctx, leave := context.WithTimeout(t.Context(), time.Minute)
		defer leave()
		send := func(w http.ResponseWriter, method, params string) {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(
				`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`,"_meta":{`+
					`"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
					`"io.modelcontextprotocol/clientCapabilities":{}}}}`))
			r.Header = http.Header{protocol.HeaderVersion: {protocol.Modern}, protocol.HeaderMethod: {method}}
			if method == "prompts/get" {
				r.Header.Set(protocol.HeaderName, "a")
			}
			pipelinetest.Begin(tr, budget.New(budget.Default), nil).ServeHTTP(w, r)
		}
		hears := false
		subscriber := &reader{httptest.NewRecorder(), map[string]func(){
			"subscriptions/acknowledged": func() {
				answer := httptest.NewRecorder()
				if send(answer, "prompts/get", `"name":"a"`); answer.Code != http.StatusOK {
					t.Errorf("the call ends with HTTP %d: %s", answer.Code, answer.Body)
				}
			},
			"tools/list_changed": func() {
				hears = true
				leave()
			},
		}}
		if send(subscriber, protocol.MethodListen, `"notifications":{"toolsListChanged":true}`); !hears {
			t.Errorf("it hears %s", subscriber.Body)
		}
	})
}

package era

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// legacyServer answers the begin of a session as it should, and everything else with given bytes.
func legacyServer(kind string, answer []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		messages, _, err := jsonrpc.Parse(body)
		if err != nil {
			return // the end of a session
		}
		switch messages[0].Method {
		case "initialize":
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set(protocol.HeaderSession, "s")
			_, _ = w.Write(jsonrpc.Result(messages[0].ID,
				jsontext.Value(`{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"n","version":"1"}}`)))
		case "server/discover":
			w.WriteHeader(http.StatusNotFound)
		case "notifications/initialized":
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(bytes.ReplaceAll(answer, []byte("ID"), messages[0].ID))
		}
	}
}

// FuzzAnswers has a legacy backend answer anything: a modern client gets one message, which answers its request.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}`,
		`{"jsonrpc":"2.0","id":ID,"error":{"code":-32002,"message":"no"}}`,
		`{"jsonrpc":"2.0","id":ID,"error":{"code":-32042,"message":"go","data":{"elicitations":[{"mode":"url"}]}}}`,
		"event: message\ndata: {\"method\":\"notifications/progress\",\"params\":{\"progressToken\":ID}}\n\ndata: " +
			"{\"id\":ID,\"result\":{}}\n\n",
		"data: {\"id\":1,\"method\":\"roots/list\"}\n\n", "data: [{\"id\":ID,\"result\":7}]\n\n", ``, `{`, "\xff",
		`{"id":ID,"result":{"_meta":7}}`,
	} {
		f.Add(true, []byte(seed))
		f.Add(false, []byte(seed))
	}
	body := request(1, "tools/call", jsonrpc.Object{"name": encoded("t"), "_meta": encoded(jsonrpc.Object{
		protocol.MetaVersion: encoded(protocol.Modern), protocol.MetaCapabilities: jsontext.Value(`{"roots":{}}`),
		protocol.MetaProgress: encoded("p"),
	})})
	text, err := io.ReadAll(body)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, stream bool, answer []byte) {
		kind := "application/json"
		if stream {
			kind = "text/event-stream"
		}
		backend := legacyServer(kind, answer)
		tr := New(Config{Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler)}, backend,
			backend)
		tr.state.Store(&found{legacy: true, until: time.Now().Add(time.Hour)})
		r := httptest.NewRequest(http.MethodPost, "/mcp", bytes.NewReader(text))
		r.Header = modernHeaders("tools/call", "t")
		w := httptest.NewRecorder()
		begun(tr).ServeHTTP(w, r)
		last := w.Body.String()
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
			_, last, _ = cutLast(strings.TrimSpace(last), "data: ")
		}
		messages, batch, err := jsonrpc.Parse([]byte(last))
		if err != nil || batch || !messages[0].Response() || string(messages[0].ID) != "1" {
			t.Errorf("HTTP %d with %q: %v", w.Code, w.Body, err)
		}
		tr.pending.Each(func(q *waiting) { q.end.Stop() })
	})
}

func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}

// FuzzMessages has a modern client send anything to a legacy backend: it is answered, and the backend gets messages
// alone.
func FuzzMessages(f *testing.F) {
	f.Add("2026-07-28", "tools/call", "t",
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
	f.Add("2026-07-28", "server/discover", "",
		`{"id":"a","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":[]}}}`)
	f.Add("", "", "", `[{"method":"ping"}]`)
	f.Add("2026-07-28", "tools/call", "=?base64??=", `{"id":null,"method":"tools/call","params":7}`)
	f.Fuzz(func(t *testing.T, version, method, name, body string) {
		inner := legacyServer("application/json", []byte(`{"jsonrpc":"2.0","id":ID,"result":{}}`))
		send := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			data, _ := io.ReadAll(r.Body)
			if _, _, err := jsonrpc.Parse(data); err != nil && r.Method == http.MethodPost {
				t.Errorf("the backend is sent %q: %v", data, err)
			}
			r.Body = io.NopCloser(bytes.NewReader(data))
			inner(w, r)
		})
		passed := false
		pass := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed = true })
		tr := New(Config{Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler)}, pass, send)
		tr.state.Store(&found{legacy: true, until: time.Now().Add(time.Hour)})
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		r.Header = http.Header{}
		for header, value := range map[string]string{
			protocol.HeaderVersion: version, protocol.HeaderMethod: method,
			protocol.HeaderName: name,
		} {
			if value != "" {
				r.Header[header] = []string{value}
			}
		}
		if method == "subscriptions/listen" {
			return // it ends with its client
		}
		w := httptest.NewRecorder()
		begun(tr).ServeHTTP(w, r)
		if passed || w.Code == http.StatusAccepted {
			return
		}
		if messages, _, err := jsonrpc.Parse(w.Body.Bytes()); err != nil || !messages[0].Response() {
			t.Errorf("HTTP %d with %q: %v", w.Code, w.Body, err)
		}
	})
}

// begun is a translator behind what makes the calls.
func begun(t *Translator) http.Handler { return pipelinetest.Begin(t, budget.New(budget.Default), nil) }

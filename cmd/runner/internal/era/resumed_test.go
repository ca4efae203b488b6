package era

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
)

// polled is a legacy server that answers a call in pieces: the first comes by POST, the next ones by GET. It remembers
// how it was asked.
type polled struct {
	pieces []func(w http.ResponseWriter, id string)
	asked  []string
	id     string
	began  time.Time
}

func (p *polled) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m := jsonrpc.Message{}
	if len(body) > 0 {
		messages, _, _ := jsonrpc.Parse(body)
		m = messages[0]
	}
	switch {
	case m.Method == "tools/call" || r.Method == http.MethodGet:
		if m.Method != "" {
			p.id, p.began = string(m.ID), time.Now()
		}
		p.asked = append(p.asked, fmt.Sprintf("%s %q %s after %s", r.Method, r.Header.Get("Last-Event-Id"),
			r.Header.Get("Mcp-Session-Id"), time.Since(p.began)))
		piece := p.pieces[0]
		p.pieces = p.pieces[1:]
		piece(w, p.id)
	case m.Identified():
		w.Header().Set("Mcp-Session-Id", "s")
		_, _ = w.Write(jsonrpc.Result(m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`)))
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

func piece(text string, cut bool) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, id string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "ID", id))
		if cut {
			panic(http.ErrAbortHandler) // as ReverseProxy does
		}
	}
}

func status(code int) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, _ string) { w.WriteHeader(code) }
}

const (
	primed = "id: a\nretry: 200\ndata:\n\n"
	answer = "data: {\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{\"content\":[]}}\n\n"
)

// pieces are answers, what a client gets of them, and how the server was asked.
var pieces = map[string]struct {
	pieces []func(http.ResponseWriter, string)
	code   int
	want   string
	asked  []string
}{
	"ended": {
		[]func(http.ResponseWriter, string){piece(primed, false), piece(answer, false)},
		http.StatusOK, `"content":[]`,
		[]string{`POST "" s after 0s`, `GET "a" s after 200ms`},
	},
	"broken off": {
		[]func(http.ResponseWriter, string){piece(primed+"data: {", true), piece(answer, false)},
		http.StatusOK, `"content":[]`,
		[]string{`POST "" s after 0s`, `GET "a" s after 200ms`},
	},
	"ended again and again": {
		[]func(http.ResponseWriter, string){
			piece(primed, false), piece("", false), piece("id: b\nretry: 3000\ndata:\n\n", false), piece(": x\n\n", true),
			piece(answer, false),
		},
		http.StatusOK, `"content":[]`,
		[]string{
			`POST "" s after 0s`, `GET "a" s after 200ms`, `GET "a" s after 400ms`, `GET "b" s after 3.4s`,
			`GET "b" s after 6.4s`,
		},
	},
	"without a pause": {
		[]func(http.ResponseWriter, string){piece("id: a\ndata:\n\n", false), piece(answer, false)},
		http.StatusOK, `"content":[]`,
		[]string{`POST "" s after 0s`, `GET "a" s after 1s`},
	},
	"with a pause of nothing": {
		[]func(http.ResponseWriter, string){piece("id: a\nretry: 0\n\n", false), piece(answer, false)},
		http.StatusOK, `"content":[]`,
		[]string{`POST "" s after 0s`, `GET "a" s after 100ms`},
	},
	"taken for open, and overloaded": {
		[]func(http.ResponseWriter, string){
			piece(primed, false), status(http.StatusConflict),
			status(http.StatusServiceUnavailable), piece(answer, false),
		},
		http.StatusOK, `"content":[]`,
		[]string{`POST "" s after 0s`, `GET "a" s after 200ms`, `GET "a" s after 400ms`, `GET "a" s after 600ms`},
	},
	"answered": {
		[]func(http.ResponseWriter, string){piece(primed+answer, true)},
		http.StatusOK, `"content":[]`,
		[]string{`POST "" s after 0s`},
	},
	"never to be had": {
		[]func(http.ResponseWriter, string){piece(primed, false), status(http.StatusMethodNotAllowed)},
		http.StatusBadGateway, "the call may have run",
		[]string{`POST "" s after 0s`, `GET "a" s after 200ms`},
	},
	"overloaded for long": {
		[]func(http.ResponseWriter, string){piece(primed, false), status(500), status(500), status(500)},
		http.StatusBadGateway, "the call may have run",
		[]string{`POST "" s after 0s`, `GET "a" s after 200ms`, `GET "a" s after 400ms`, `GET "a" s after 600ms`},
	},
	"without an id": {
		[]func(http.ResponseWriter, string){piece("data:\n\n", false)},
		http.StatusBadGateway, "not one to this request",
		[]string{`POST "" s after 0s`},
	},
	"with an id that is taken back": {
		[]func(http.ResponseWriter, string){piece(primed+"id:\ndata:\n\n", true)},
		http.StatusBadGateway,
		"broke its answer off",
		[]string{`POST "" s after 0s`},
	},
}

// A server may end the stream of a call before it answers; a client asks for the rest with the id of the last event
// (MCP specification 2025-11-25, basic/transports, resumability and redelivery).
func TestTheRestOfAStreamIsAskedFor(t *testing.T) {
	for name, tc := range pieces {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := &polled{pieces: tc.pieces}
				translator := New(Config{Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler)}, nil,
					backend)
				translator.state.Store(&found{legacy: true, until: time.Now().Add(time.Hour)})
				r := httptest.NewRequest(http.MethodPost, "/mcp",
					modernRequest(1, "tools/call", jsonrpc.Object{"name": encoded("a")}, nil))
				r.Header = modernHeaders("tools/call", "a")
				w := httptest.NewRecorder()
				begun(translator).ServeHTTP(w, r)
				if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.want) {
					t.Errorf("HTTP %d with %.300s", w.Code, w.Body)
				}
				if diff := cmp.Diff(tc.asked, backend.asked); diff != "" {
					t.Error(diff)
				}
				translator.Close(t.Context())
			})
		})
	}
}

// A stream of a session that ends, as where a load balancer cuts it, goes on.
func TestTheStreamOfASessionGoesOn(t *testing.T) {
	for name, tc := range map[string]struct {
		pieces []func(http.ResponseWriter, string)
		asked  []string
	}{
		"with ids": {[]func(http.ResponseWriter, string){
			piece(primed, true), piece("id: b\ndata:\n\n", false),
			status(404),
		}, []string{`GET "" s after 0s`, `GET "a" s after 200ms`, `GET "b" s after 400ms`}},
		"without": {
			[]func(http.ResponseWriter, string){piece(": hello\n\n", false)},
			[]string{`GET "" s after 0s`},
		},
		"behind an answer, as where a server says on it what it owes to a connection that broke": {
			[]func(http.ResponseWriter, string){
				piece("id: a\nretry: 200\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", false), status(404),
			}, []string{`GET "" s after 0s`, `GET "a" s after 200ms`},
		},
		"overloaded": {[]func(http.ResponseWriter, string){
			piece(primed, true), status(503), status(503),
			status(503),
		}, []string{
			`GET "" s after 0s`, `GET "a" s after 200ms`, `GET "a" s after 400ms`,
			`GET "a" s after 600ms`,
		}},
		"there is none": {[]func(http.ResponseWriter, string){status(405)}, []string{`GET "" s after 0s`}},
		"none that is a stream": {[]func(http.ResponseWriter,
			string){func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, "{}") }}, []string{`GET "" s after 0s`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := &polled{pieces: tc.pieces, began: time.Now()}
				translator := New(Config{Log: slog.New(slog.DiscardHandler)}, nil, backend)
				stream := translator.start(t.Context(), pipelinetest.Called(httptest.NewRequest(http.MethodGet, "/mcp", nil)),
					http.MethodGet, nil,
					http.Header{"Mcp-Session-Id": {"s"}})
				for range stream.words {
				}
				stream.cancel()
				if diff := cmp.Diff(tc.asked, backend.asked); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

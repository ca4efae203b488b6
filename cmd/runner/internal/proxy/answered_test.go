package proxy

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// SDKs drop what comes with HTTP 429 and 5xx, so a call is answered with its failure. Who connects gets the status.
func TestACallIsAnsweredWithItsFailure(t *testing.T) {
	const busy = `{"jsonrpc":"2.0","id":null,"error":{"code":-31008,"message":"Busy: call again","data":{"reason":"Busy"}}}`
	absent := httptest.NewServer(http.NotFoundHandler())
	absent.Close()
	answers := func(status int, answer string) string {
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, answer)
		}))
		t.Cleanup(backend.Close)
		return backend.URL
	}
	call := func(size int) string {
		return `{"method":"tools/call","params":{"a":"` + strings.Repeat("x", size) + `"},"jsonrpc":"2.0","id":7}`
	}
	of := func(method string) string { return `{"jsonrpc":"2.0","id":7,"method":"` + method + `"}` }
	nobody, breaks := absent.URL, answers(0, "")
	type row struct {
		backend, body string
		status        int
		counts        string
		code          int
		bridged       bool
	}
	for name, tc := range map[string]row{
		"nobody is there":             {nobody, call(1), 200, "503 POST", CodeBackendStarting, false},
		"nobody gets a long call":     {nobody, call(100_000), 200, "503 POST", CodeBackendStarting, false},
		"a list":                      {nobody, of("tools/list"), 200, "503 POST", CodeBackendStarting, false},
		"a client connects":           {nobody, of("initialize"), 503, "503 POST", CodeBackendStarting, false},
		"a modern client connects":    {nobody, of("server/discover"), 503, "503 POST", CodeBackendStarting, false},
		"nobody waits":                {nobody, `{"jsonrpc":"2.0","method":"a"}`, 503, "503 POST", CodeBackendStarting, false},
		"a batch":                     {nobody, "[" + call(1) + "]", 503, "503 POST", CodeBackendStarting, false},
		"a stream":                    {nobody, "", 503, "503 GET", CodeBackendStarting, false},
		"a client of HTTP+SSE":        {nobody, call(1), 503, "503 POST", CodeBackendStarting, true},
		"a backend breaks off":        {breaks, call(1), 200, "503 POST", CodeBackendStarting, false},
		"it breaks a longer call off": {breaks, call(30_000), 200, "503 POST", CodeBackendStarting, false},
		"it breaks off a call that nobody has kept": {breaks, call(100_000), 200, "503 POST", CodeBackendStarting, false},
		"a bridge is busy":                          {answers(503, busy), call(1), 200, "503 POST", -31008, true},
		"a bridge fails":                            {answers(502, busy), call(1), 200, "502 POST", -31008, true},
		"a bridge fails who connects":               {answers(502, busy), of("initialize"), 503, "502 POST", -31008, true},
		"a bridge refuses who connects":             {answers(404, busy), of("initialize"), 404, "404 POST", -31008, true},
		"a backend's own word":                      {answers(503, busy), call(1), 503, "503 POST", -31008, false},
		"what is no JSON-RPC":                       {answers(503, "busy"), call(1), 503, "503 POST", 0, true},
		"a call that a bridge refuses":              {answers(404, busy), call(1), 404, "404 POST", -31008, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := front(t, Config{}, tc.backend)
			b.upstream.Bridged = tc.bridged
			path, method := "/mcp", strings.Fields(tc.counts)[1]
			if name == "a client of HTTP+SSE" {
				path += "?" + protocol.QuerySession + "=a"
			}
			response := b.call(method, path, tc.body)
			body := text(t, response)
			var got struct {
				ID    any `json:"id"`
				Error struct {
					Code    int    `json:"code"`
					Message string `json:"message"`
					Data    any    `json:"data"`
				} `json:"error"`
			}
			if err := json.Unmarshal([]byte(body), &got); err != nil && tc.code != 0 {
				t.Fatalf("HTTP %d %q: %v", response.StatusCode, body, err)
			}
			if answered := got.ID == 7.0; response.StatusCode != tc.status || answered != (tc.status == 200) ||
				got.Error.Code != tc.code || tc.code != 0 && (got.Error.Message == "" || got.Error.Data == nil) {
				t.Errorf("HTTP %d %s, want HTTP %d and code %d", response.StatusCode, body, tc.status, tc.code)
			}
			if counted, _ := counts(t, b.proxy); counted["requests_total "+tc.counts] != 1 {
				t.Errorf("counted as %v", counted)
			}
		})
	}
}

package era

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// Servers and gateways keep streams alive with events that are no messages: clients pass over them, and so does whoever
// reads for one.
func TestWhatIsNoMessageIsPassedOver(t *testing.T) {
	for name, noise := range map[string]string{
		"a comment":         ": ping\n\n",
		"a retry":           "retry: 3000\n\n",
		"an id alone":       "id: 1\ndata:\n\n",
		"a text by name":    "event: ping\ndata: 2026-01-01 00:00:00.1\n\n",
		"an object by name": "event: heartbeat\ndata: {\"type\":\"heartbeat\"}\n\n",
		"a response by name": "event: heartbeat\ndata: " +
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"no\"}}\n\n",
		"a text":                    "data: ping\n\n",
		"an object":                 "data: {\"type\":\"heartbeat\"}\n\n",
		"what begins as an object":  "data: {ping}\n\n",
		"a list that is none of it": "data: [\"ping\"]\n\n",
	} {
		for era, speaks := range map[string]*found{"modern": {legacy: true}, "legacy": {modern: true}} {
			t.Run(name+", to a client of the "+era+" era", func(t *testing.T) {
				backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					messages, _, _ := jsonrpc.Parse(body)
					if len(messages) == 0 || !messages[0].Identified() {
						return
					}
					result := `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"n","version":"1"}}`
					switch messages[0].Method {
					case protocol.MethodDiscover:
						result = `{"supportedVersions":["2026-07-28"],"capabilities":{}}`
						if speaks.legacy {
							w.WriteHeader(http.StatusBadRequest)
							return
						}
					case "prompts/get":
						result = `{"messages":[]}`
					}
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = io.WriteString(w, noise+"event: message\ndata: "+
						string(response(messages[0].ID, jsontext.Value(result)))+"\n\n")
				})
				translator := New(Config{Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler)},
					backend, backend)
				body := modernRequest(1, "prompts/get", jsonrpc.Object{"name": encoded("a")}, nil)
				header := modernHeaders("prompts/get", "a")
				if era == "legacy" {
					speaks.until = time.Now().Add(time.Hour)
					translator.state.Store(speaks)
					body, header = request(1, "prompts/get", jsonrpc.Object{"name": encoded("a")}), http.Header{}
				}
				r := httptest.NewRequest(http.MethodPost, "/mcp", body)
				r.Header = header
				w := httptest.NewRecorder()
				begun(translator).ServeHTTP(w, r)
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"messages":[]`) {
					t.Errorf("HTTP %d with %.300s", w.Code, w.Body)
				}
				if known := translator.state.Load(); known == nil || known.legacy != speaks.legacy ||
					known.modern != speaks.modern {
					t.Errorf("the backend is taken for %+v", known)
				}
			})
		}
	}
}

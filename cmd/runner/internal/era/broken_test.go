package era

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// Why there is no answer is said, to clients of either era; whatever happens ends that call alone.
func TestAnAnswerThatIsNotWhole(t *testing.T) {
	long := strings.Repeat("x", maxAnswer+1)
	for name, tc := range map[string]struct {
		answer func(http.ResponseWriter)
		want   string
	}{
		"JSON that is too long": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, `"`)
			if _, err := io.WriteString(w, long); err != nil {
				panic(http.ErrAbortHandler) // as ReverseProxy does
			}
		}, "longer than the 16 MiB"},
		"an event that is too long": {func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			if _, err := io.WriteString(w, "data: "+long); err != nil {
				panic(http.ErrAbortHandler)
			}
		}, "longer than the 16 MiB"},
		"one that breaks off": {func(w http.ResponseWriter) {
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		}, "broke its answer off"},
		"a panic": {func(http.ResponseWriter) { panic("oh") }, "broke its answer off"},
		"another thing": {
			func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":99,"result":{}}`) },
			"is not one to this request",
		},
	} {
		for era, speaks := range map[string]*found{"modern": {legacy: true}, "legacy": {modern: true}} {
			t.Run(name+", to a client of the "+era+" era", func(t *testing.T) {
				send := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					messages, _, _ := jsonrpc.Parse(body)
					if m := messages[0]; m.Method == "prompts/get" {
						tc.answer(w)
					} else if m.Identified() {
						_, _ = w.Write(response(m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{}}`)))
					}
				})
				translator := New(Config{
					Caller: func(*http.Request) string { return "" }, Log: slog.New(slog.DiscardHandler),
				}, nil, send)
				speaks.until = time.Now().Add(time.Hour)
				translator.state.Store(speaks)
				body := request(1, "prompts/get", jsonrpc.Object{"name": encoded("a")})
				if era == "modern" {
					body = modernRequest(1, "prompts/get", jsonrpc.Object{"name": encoded("a")}, nil)
				}
				r := httptest.NewRequest(http.MethodPost, "/mcp", body)
				if era == "modern" {
					r.Header = modernHeaders("prompts/get", "a")
				}
				w := httptest.NewRecorder()
				begun(translator).ServeHTTP(w, r)
				if w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), tc.want) {
					t.Errorf("HTTP %d with %.300s", w.Code, w.Body)
				}
			})
		}
	}
}

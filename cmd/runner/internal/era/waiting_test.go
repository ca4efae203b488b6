package era

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A call that waits for its client holds nothing of the request, which comes again.
func TestACallThatWaitsIsSmall(t *testing.T) {
	c := &call{
		id: jsontext.Value("1"), method: "tools/call", held: &held{},
		origin: httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody),
		params: jsonrpc.Object{"arguments": encoded(strings.Repeat("x", 1<<20))},
		meta:   jsonrpc.Object{protocol.MetaCapabilities: jsontext.Value(`{"roots":{}}`)},
	}
	digest, translator, w := c.digest(), New(Config{}, nil, nil), httptest.NewRecorder()
	if !translator.asked(&output{w: w}, c, jsonrpc.Message{ID: jsontext.Value("7"), Method: "roots/list"}) {
		t.Fatal("it does not wait")
	}
	if c.id != nil || c.params != nil || c.meta != nil {
		t.Error("it holds its request")
	}
	for _, q := range translator.pending.calls {
		q.end.Stop()
		if q.digest != digest {
			t.Error("it is found under another digest")
		}
	}
	if !strings.Contains(w.Body.String(), `"id":1`) || len(translator.pending.calls) != 1 {
		t.Errorf("the client gets %s", w.Body)
	}
}

// A backend that asks while a session begins, and leaves what answers it unanswered, is waited for a while.
func TestAQuestionIsAnsweredInItsSessionForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		send := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), `"initialize"`) {
				told = append(told, r.Header.Get(protocol.HeaderSession)+" "+string(body))
				<-r.Context().Done()
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set(protocol.HeaderSession, "s")
			_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n\ndata: "+
				"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
		})
		began := time.Now()
		answer, err := New(Config{}, nil, send).
			ask(t.Context(), httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody),
				request(1, "initialize", jsonrpc.Object{}), nil)
		if err != nil || string(answer.message.Result) != "{}" || time.Since(began) != probeTime {
			t.Errorf("got %s, %v after %s", answer.message.Result, err, time.Since(began))
		}
		if want := `s {"id":7,"jsonrpc":"2.0","result":{}}`; len(told) != 1 || told[0] != want {
			t.Errorf("the backend was told %q, want %q", told, want)
		}
	})
}

// A stream of a session that ends as soon as it has begun is opened again for the call that it was opened for.
func TestAStreamIsOpenedForACallThatHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &held{session: &session{id: "s", version: protocol.Legacy}}
		opened := make(chan int, 2)
		send := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h.standing.mu.Lock()
			hear := len(h.standing.calls)
			h.standing.mu.Unlock()
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": hello\n\n")
			opened <- hear
		})
		c := &call{
			held: h, origin: httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody),
			meta: jsonrpc.Object{protocol.MetaCapabilities: jsontext.Value(`{"roots":{}}`)},
		}
		_, leave := New(Config{}, nil, send).join(t.Context(), c)
		for range 2 {
			if hear := <-opened; hear != 1 {
				t.Errorf("it is opened while %d calls hear", hear)
			}
		}
		leave()
		h.standing.close()
	})
}

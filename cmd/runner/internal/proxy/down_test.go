package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// While the backend is known not to answer, who connects reads why at once, and of other calls one at a time goes there
// all the same. The first that is answered takes it back.
func TestWhatIsAnsweredWhileTheBackendIsKnownNotToAnswer(t *testing.T) {
	const why = "the backend at port 8080 does not answer MCP at /mcp within 5s: look at its log"
	came, answers := make(chan struct{}, 9), make(chan struct{})
	var hangs atomic.Bool
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if came <- struct{}{}; hangs.Load() && strings.Contains(string(body), "tools/call") {
			<-answers
		}
		if !strings.Contains(string(body), `"id"`) {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":7,"result":{}}`)
	}))
	of := func(method string) string { return `{"jsonrpc":"2.0","id":7,"method":"` + method + `"}` }
	is := func(what, body string, status int, says string, reaches bool) {
		t.Helper()
		response := b.call(http.MethodPost, "/mcp", body)
		got, text := response.StatusCode, text(t, response)
		fits := got == status && strings.Contains(text, says) && len(came) > 0 == reaches
		if again := response.Header.Get("Retry-After"); !fits || got == http.StatusServiceUnavailable && again == "" {
			t.Errorf("%s is answered with HTTP %d: %s (and reaches the backend: %t)", what, got, text, len(came) > 0)
		}
		for len(came) > 0 {
			<-came
		}
	}
	hangs.Store(true)
	asked := b.proxy.Asked("/mcp", false)
	asked.Down("NotAnswering", why)
	is("a client that connects", of("initialize"), 503, `"NotAnswering: `+why, false)
	is("a modern client that connects", of("server/discover"), 503, `"reason":"NotAnswering"`, false)
	is("what nobody waits for", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, "", true)
	first := make(chan int)
	go func() { first <- statusOf(b.url+"/mcp", of("tools/call")) }()
	if <-came; !asked.IsBusy() {
		t.Error("a call on its way does not keep it busy")
	}
	is("a call beside one on its way", of("tools/list"), 200,
		`"id":7,"error":{"code":-32012,"message":"NotAnswering: `+why, false)
	is("a client that connects beside it", of("initialize"), 503, why, false)
	inside := httptest.NewRecorder()
	b.proxy.Inside().ServeHTTP(inside, httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(of("initialize"))))
	if <-came; inside.Code != http.StatusOK {
		t.Errorf("the process itself gets HTTP %d", inside.Code)
	}
	is("a client that connects after that", of("initialize"), 503, why, false)
	hangs.Store(false)
	close(answers)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the call that goes there is answered with HTTP %d", status)
	}
	is("a client that connects once a call was answered", of("initialize"), 200, "result", true)
	asked.Down("NotMCP", why)
	is("another reason", of("initialize"), 503, `"NotMCP: `, false)
	asked.Down("", "")
	is("what is taken back", of("initialize"), 200, "result", true)
}

// statusOf is that of the whole answer to a modern call of a tool, 0 where there is none.
func statusOf(url, body string) int {
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0
	}
	request.Header.Set("MCP-Protocol-Version", "2026-07-28")
	request.Header.Set("Mcp-Method", "tools/call")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// A switch ends what was said of either content, and what is found of the one before is not said of the next.
func TestASwitchEndsWhatIsSaidOfABackend(t *testing.T) {
	two := twoOf(t)
	connects := func(when string, want int) {
		t.Helper()
		if status := two.call(http.MethodPost, "/mcp", initialize).StatusCode; status != want {
			t.Errorf("%s a client that connects gets HTTP %d, want %d", when, status, want)
		}
	}
	two.to(0)
	asked := two.proxy.Asked("/mcp", false)
	asked.Pods(t.Context())
	asked.Down("NotAnswering", "it hangs")
	connects("before the switch", http.StatusServiceUnavailable)
	two.to(1)
	connects("after the switch", http.StatusOK)
	asked.Down("NotAnswering", "it hangs")
	connects("after what was asked before it", http.StatusOK)
	two.to(0)
	connects("after the way back", http.StatusOK)
	asked.Down("NotAnswering", "it hangs")
	asked.Pods(t.Context())
	asked.Down("", "")
	connects("after an answer", http.StatusOK)
}

package bridge

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A server may forget a session whose stream it holds open, or listen no more. Its connection ends then: those who use
// it begin anew.
func TestAConnectionWhoseEndpointIsGoneIsNotUsed(t *testing.T) {
	for says, status := range map[string]int32{"HTTP 404": 404, "HTTP 410": 410, "connection refused": 0} {
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, shared %t", says, shared), func(t *testing.T) {
				var gone atomic.Bool
				waits := make(chan struct{}, 1)
				server := &saying{take: func(m said, say func(string)) {
					switch {
					case m.Method == "initialize":
						say(answerOf(m, agreed))
					case m.Method == "wait":
						waits <- struct{}{}
					case m.ID != nil:
						say(answerOf(m, `{"content":[]}`))
					}
				}}
				up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Connection", "close")
					if r.Method == http.MethodPost && gone.Load() && r.URL.Query().Get("session") == "0" {
						w.WriteHeader(int(status))
						return
					}
					server.ServeHTTP(w, r)
				}))
				t.Cleanup(func() { up.CloseClientConnections(); up.Close() })
				at, err := url.Parse(up.URL + "/sse")
				if err != nil {
					t.Fatal(err)
				}
				f := serve(t, Config{Shared: shared, Server: Server{Open: Events(at, nil), Junk: func() string { return "" }}})
				session := f.begin()
				other := make(chan answer, 1)
				go func() { other <- f.call(session, "1", "wait") }()
				next(t, "call", waits)
				if gone.Store(true); status == 0 {
					_ = up.Listener.Close()
				}
				f.wantFailed(f.call(session, "2", "tools/call"), "-31007", says, "the call has not run")
				f.wantFailed(next(t, "answer to the other call", other), "-31006", says, "the call may have run")
				within(t, 5*time.Second, "the session is over", func() bool {
					return f.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call"}`, protocol.HeaderSession, session).
						status == http.StatusNotFound
				})
				if status == 0 {
					f.want(f.post(hello), http.StatusBadGateway, "-31007", "connection refused")
				} else {
					f.want(f.call(f.begin(), "1", "tools/call"), http.StatusOK, "content")
				}
			})
		}
	}
}

package bridge

import (
	"bufio"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A trace goes on in the server, and what it says of how long a list stands is its own: nothing is kept.
func TestWhatIsOfNoConcernPasses(t *testing.T) {
	const traced = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01","tracestate":"a=b"`
	bothEras(t, func(t *testing.T, s sharing) {
		for _, c := range []client{s.client(), s.client()} {
			answered := c.calls(t.Context(), "1", "prompts/list", `"_meta":{`+traced+`}`)
			m := s.readsOnly(t, "prompts/list")
			if !strings.Contains(string(m.Params), traced) {
				t.Errorf("the server gets %s", m.Params)
			}
			s.answer(m, `"result":{"prompts":[],"ttlMs":60000,"cacheScope":"public"}`)
			s.want(next(t, "answer", answered), http.StatusOK, `"ttlMs":60000,"cacheScope":"public"`)
		}
	})
}

// Load balancers end streams that are silent.
func TestIdleStreamsAreKeptAlive(t *testing.T) {
	before := keepAlive
	keepAlive = 50 * time.Millisecond
	t.Cleanup(func() { keepAlive = before })
	f := serve(t, Config{Server: child("modern")})
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"` + protocol.MetaVersion + `":"` +
		protocol.Modern + `"}}}`
	for name, response := range map[string]*http.Response{
		"a subscription": f.do(http.MethodPost, body, protocol.HeaderVersion, protocol.Modern, protocol.HeaderMethod,
			protocol.MethodListen),
		"a GET stream": f.do(http.MethodGet, "", protocol.HeaderSession, f.begin()),
	} {
		stop := time.AfterFunc(time.Minute, func() { _ = response.Body.Close() })
		lines, comments := bufio.NewScanner(response.Body), 0
		for comments < 2 && lines.Scan() {
			if strings.HasPrefix(lines.Text(), ":") {
				comments++
			}
		}
		if comments < 2 {
			t.Errorf("%s ends after %d comments: %v", name, comments, lines.Err())
		}
		stop.Stop()
		_ = response.Body.Close()
	}
}

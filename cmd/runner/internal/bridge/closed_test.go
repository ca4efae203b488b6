package bridge

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// sumOf is what a bridge is told of a credential.
func sumOf(credential string) string {
	sum := sha256.Sum256([]byte(credential))
	return hex.EncodeToString(sum[:])
}

// Who does not show what the proxies have is answered the same, whatever it asks, and reaches no session: it learns
// neither which there are, nor whether the server runs.
func TestWhoIsNoProxyIsRefused(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	for transport, f := range map[string]front{
		"stdio": serve(t, Config{Server: child("echo")}),
		"sse":   behind(t, mcp.NewSSEHandler(func(*http.Request) *mcp.Server { return server }, nil)),
	} {
		guard := func(sum string) string {
			closed := httptest.NewServer(Closed(sum, f.Bridge))
			t.Cleanup(closed.Close)
			return closed.URL
		}
		mine, none, odd := guard(sumOf("mine")), guard(""), guard("mine")
		ask := func(to, method, body, shows, session string) (status int, text, id string) {
			r, err := http.NewRequestWithContext(t.Context(), method, to+"/mcp", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			if shows != "" {
				r.Header[protocol.HeaderProxy] = []string{shows}
			}
			if session != "" {
				r.Header[protocol.HeaderSession] = []string{session}
			}
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") && method == http.MethodGet {
				return response.StatusCode, "", "" // it stays open
			}
			data, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, string(data), response.Header.Get(protocol.HeaderSession)
		}
		status, text, session := ask(mine, http.MethodPost, hello, "mine", "")
		if status != http.StatusOK || session == "" {
			t.Fatalf("%s: a proxy begins a session: HTTP %d with %s", transport, status, text)
		}
		requests := map[string]struct{ method, body, session string }{
			"initialize":       {http.MethodPost, hello, ""},
			"a call":           {http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, session},
			"no JSON":          {http.MethodPost, `{`, ""},
			"a stream":         {http.MethodGet, "", session},
			"an old stream":    {http.MethodGet, "", ""},
			"an answer of old": {http.MethodPut, `{}`, ""},
			"the end":          {http.MethodDelete, "", session},
			"another method":   {http.MethodOptions, "", ""},
		}
		for shown, tc := range map[string]struct{ to, shows string }{
			"nothing":                      {mine, ""},
			"another server's":             {mine, "theirs"},
			"a part":                       {mine, "min"},
			"more":                         {mine, "mine2"},
			"the sum":                      {mine, sumOf("mine")},
			"too many":                     {mine, strings.Repeat("x ", maxShown) + "mine"},
			"nothing, and no sum is known": {none, ""},
			"any, and no sum is known":     {none, "mine"},
			"any, and the sum is none":     {odd, "mine"},
		} {
			for what, r := range requests {
				status, text, id := ask(tc.to, r.method, r.body, tc.shows, r.session)
				if status != http.StatusMisdirectedRequest || id != "" || !strings.Contains(text, `"code":-31009`) ||
					strings.Contains(text, sumOf("mine")) {
					t.Errorf("%s, %s: %s gets HTTP %d with %s", transport, shown, what, status, text)
				}
			}
		}
		for what, shows := range map[string]string{"alone": "mine", "beside one of before": "old mine"} {
			for _, request := range []string{"a call", "a stream"} {
				r := requests[request]
				if status, text, _ := ask(mine, r.method, r.body, shows, r.session); status != http.StatusOK {
					t.Errorf("%s: the proxy's, %s: %s gets HTTP %d with %s", transport, what, request, status, text)
				}
			}
		}
	}
}

// What proves a proxy stays at the door.
func TestTheServerBehindSeesNothingOfWhatIsShown(t *testing.T) {
	closed := Closed(sumOf("mine"), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Header)
	}))
	r := httptest.NewRequest(http.MethodPost, "/mcp", http.NoBody)
	r.Header.Set(protocol.HeaderProxy, "mine")
	w := httptest.NewRecorder()
	if closed.ServeHTTP(w, r); w.Body.String() != "map[]" {
		t.Error(w.Body)
	}
}

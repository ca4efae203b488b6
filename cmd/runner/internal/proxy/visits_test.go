package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
)

// What is known of contents is bounded, and that of one which takes calls stays.
func TestWhatIsKnownOfContentsIsBounded(t *testing.T) {
	two := twoOf(t, func(c *Config) { c.ServerUID = "uid-1" })
	two.to(0)
	two.open()
	other := two.contents[1]
	for i := range 3 * mostUsed {
		two.contents[0] = two.contents[0].Holds(two.contents[0].Content)
		two.contents[1] = other.Holds(Content{Hash: fmt.Sprintf("%016x", i), Slot: 2})
		two.to(0)
		two.alone(0)
		if two.told().Of(hashes[0]).SessionSeen.IsZero() {
			t.Fatalf("after %d contents its session is forgotten", i)
		}
	}
	s := &two.target.switching
	if len(s.used) > mostUsed+2 || len(s.unnamed) > mostUsed+2 {
		t.Errorf("it knows %d, and %d that are gone", len(s.used), len(s.unnamed))
	}
}

// A call that the backend has answered as MCP has it shows that it answers. What the proxy answers does not, nor what
// is no answer of a call, nor what the process asks itself.
func TestWhenTheBackendLastAnsweredACall(t *testing.T) {
	const call, result = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`
	says := func(status int, kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			if w.Header().Set("Content-Type", kind); status == 0 {
				_, _ = io.WriteString(w, text)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			if strings.HasPrefix(text, ":") {
				_ = http.NewResponseController(w).Flush() // of no stated length
			}
		}
	}
	for name, tc := range map[string]struct {
		backend http.HandlerFunc
		body    string
		inside  bool
		want    bool
	}{
		"an answer":                    {says(200, "application/json", result), call, false, true},
		"an answer in a stream":        {says(200, "text/event-stream", "data: "+result+"\n\n"), call, false, true},
		"an answer, and more":          {says(0, "text/event-stream", "data: "+result+"\n\n: more\n\n"), call, false, true},
		"a stream without the answer":  {says(200, "text/event-stream", ": soon\n\n"), call, false, false},
		"a stream that breaks off":     {says(0, "text/event-stream", ": soon\n\n"), call, false, false},
		"an answer that breaks off":    {says(0, "application/json", `{"jsonrpc":`), call, false, false},
		"a page":                       {says(200, "text/html", "<p>"), call, false, false},
		"a failure":                    {says(500, "application/json", result), call, false, false},
		"a refusal":                    {says(401, "application/json", result), call, false, false},
		"nothing, for a notification":  {says(202, "application/json", ""), `{"jsonrpc":"2.0","method":"a"}`, false, false},
		"a question of the process":    {says(200, "application/json", result), call, true, false},
		"a backend that breaks it off": {says(0, "", ""), call, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := serve(t, Config{Own: "0123456789abcdef"}, tc.backend)
			if tc.inside {
				b.server.Handler = b.proxy.Inside()
			}
			response := b.call(http.MethodPost, "/mcp", tc.body, "Content-Type", "application/json")
			_, _ = io.ReadAll(response.Body)
			if err := b.server.Shutdown(t.Context()); err != nil { // the call has ended
				t.Fatal(err)
			}
			if at := b.proxy.Asked("/mcp", false).LastAnswer(netip.Addr{}); !at.IsZero() != tc.want ||
				b.proxy.Asked("/mcp", true).LastAnswer(netip.Addr{}) != at {
				t.Errorf("the backend answered at %v", at)
			}
		})
	}
}

package era_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What a client says about its connection takes no header of the proxy's own away: neither of the question which eras
// there are, nor of a call.
func TestAConnectionHeaderTakesNothingAway(t *testing.T) {
	for name, tc := range map[string]struct {
		speaks eras
		named  string
	}{
		"the question": {both, "Mcp-Protocol-Version, Mcp-Method"},
		"a call":       {legacyOnly, "Mcp-Session-Id"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, tc.speaks)
			endpoint := front(t, b)
			for _, more := range [][]string{{"Connection", tc.named}, nil} {
				status, m := send(t, endpoint, modern("1", "tools/call", echo, ""),
					append(asModern("tools/call", "echo"), more...)...)
				if more == nil && status != http.StatusOK {
					t.Errorf("the next caller gets HTTP %d with %+v", status, m.Error)
				}
			}
			if tc.speaks == both && len(b.got("initialize")) > 0 {
				t.Error("the backend is taken for one of the legacy era")
			}
			if calls := b.got("tools/call"); tc.speaks == legacyOnly && (len(calls) == 0 || calls[0].session == "") {
				t.Errorf("the call goes out without its session: %+v", calls)
			}
		})
	}
}

func TestWhatAClientSaysAboutItselfIsShort(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...)
	began := len(b.got("initialize"))
	for _, member := range []string{
		`"io.modelcontextprotocol/clientInfo":{"name":"%","version":"1"}`, `"io.modelcontextprotocol/logLevel":"%"`,
	} {
		long := strings.Replace(member, "%", strings.Repeat("x", 16<<10), 1)
		status, m := send(t, endpoint, modern("1", "server/discover", "", long), asModern("server/discover", "")...)
		if status != http.StatusBadRequest || m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("%.40s: HTTP %d with %+v", member, status, m.Error)
		}
	}
	if n := len(b.got("initialize")); n != began {
		t.Errorf("%d sessions began", n-began)
	}
}

// Subscriptions stay for long; however many there are, other bodies without a length, and long ones, find their place.
func TestSubscriptionsTakeNoPlaceOfLongBodies(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	chunked := func(body string, headers ...string) *http.Request {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		return r
	}
	for range 16 {
		response, err := http.DefaultClient.Do(
			chunked(modern("1", "subscriptions/listen", `"notifications":{}`, ""), asModern("subscriptions/listen", "")...))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
	}
	long := strings.Repeat("x", 70<<10)
	status, m := send(t, endpoint,
		modern("1", "subscriptions/listen", `"notifications":{"resourceSubscriptions":["`+long+`"]}`, ""),
		asModern("subscriptions/listen", "")...)
	if status != http.StatusRequestEntityTooLarge || m.Error == nil {
		t.Errorf("a long subscription: HTTP %d with %+v", status, m.Error)
	}
	client := &http.Client{Timeout: patience}
	began := time.Now()
	for _, text := range []string{"x", long} {
		response, err := client.Do(chunked(modern("1", "tools/call", `"name":"echo","arguments":{"text":"`+text+`"}`, ""),
			asModern("tools/call", "echo")...))
		if err != nil {
			t.Fatalf("a call of %d bytes: %v after %s", len(text), err, time.Since(began))
		}
		response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Errorf("a call of %d bytes: HTTP %d", len(text), response.StatusCode)
		}
	}
}

package era_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// flood holds calls of a caller at a backend until the test ends, and returns once so many have arrived there.
func flood(t *testing.T, b *backend, endpoint string, calls int, body func(i int) string, headers ...string) {
	t.Helper()
	hold := make(chan struct{})
	b.answers(func(_ http.ResponseWriter, r *http.Request, body []byte) bool {
		if strings.Contains(string(body), `"flood`) {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		return false
	})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); close(hold); all.Wait() })
	arrived := func() int {
		n := 0
		for _, r := range b.got("tools/call") {
			if strings.Contains(r.body, `"flood`) {
				n++
			}
		}
		return n
	}
	call := func(body string) (status int) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Header.Set("Content-Type", "application/json")
		for j := 0; j < len(headers); j += 2 {
			r.Header.Set(headers[j], headers[j+1])
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	for i := range calls {
		all.Go(func() {
			// A machine that is busy may take longer to connect than the proxy waits.
			for call(body(i)) == http.StatusBadGateway && ctx.Err() == nil {
				continue
			}
		})
	}
	for end := time.Now().Add(time.Minute); arrived() < calls; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d calls arrive", arrived(), calls)
		}
	}
}

// The login's name, and the API key, which may be another one with each call.
func by(caller string, more ...string) []string {
	return append(append(asModern("tools/call", "echo"), "X-Login", caller, "X-Api-Key", caller), more...)
}

// A caller whose calls take half of the sessions gets an error, and another one is served.
func TestACallerLeavesOthersTheirSessions(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	client := func(name string) string {
		return `"io.modelcontextprotocol/clientInfo":{"name":"` + name + `","version":"1"}`
	}
	call := func(id, name, text string) string {
		return modern(id, "tools/call", `"name":"echo","arguments":{"text":"`+text+`"}`, client(name))
	}
	if status, got := send(t, endpoint, call("1", "first", "x"), by("ann")...); status != 200 {
		t.Fatal(got)
	}
	flood(t, b, endpoint, 128, func(i int) string { return call("1", fmt.Sprint("c", i), "flood") }, by("mallory")...)
	status, got := send(t, endpoint, call("2", "another", "x"), by("mallory")...)
	if status != http.StatusServiceUnavailable || got.Error == nil ||
		!strings.HasPrefix(got.Error.Message, "TooManySessions: ") {
		t.Errorf("the caller that floods gets HTTP %d with %+v", status, got.Error)
	}
	began := len(b.got("initialize"))
	for _, name := range []string{"first", "second"} {
		if status, got := send(t, endpoint, call("3", name, "x"), by("ann")...); status != 200 {
			t.Errorf("another caller gets HTTP %d with %+v", status, got.Error)
		}
	}
	if n := len(b.got("initialize")) - began; n != 1 {
		t.Errorf("%d sessions begin for one new client: that of the first was ended", n)
	}
}

// A call that its server has asked about has begun: a client that is told to send it again later would have it run
// twice.
func TestACallThatHasBegunIsNotToBeSentAgain(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	for i := range 128 {
		if status, got := send(t, endpoint, asking(fmt.Sprint(i), ""),
			by("mallory", "Mcp-Name", "ask")...); got.Result["resultType"] != "input_required" {
			t.Fatalf("call %d gets HTTP %d with %+v", i, status, got)
		}
	}
	status, header, got := answerOf(t, endpoint, asking("128", ""), by("mallory", "Mcp-Name", "ask")...)
	if status != http.StatusInternalServerError || header.Get("Retry-After") != "" || len(got) != 1 ||
		got[0].Error == nil ||
		!strings.HasPrefix(got[0].Error.Message, "TooManyQuestions: ") ||
		!strings.HasSuffix(got[0].Error.Message, "may have run") {
		t.Errorf("HTTP %d with %v and %+v", status, header, got)
	}
	if n := len(b.got("tools/call")); n != 129 {
		t.Errorf("the server got %d calls", n)
	}
	if status, got := send(t, endpoint, asking("1", ""),
		by("ann", "Mcp-Name", "ask")...); got.Result["resultType"] != "input_required" {
		t.Errorf("another caller gets HTTP %d with %+v", status, got)
	}
}

// Nor do long bodies of calls that take long.
func TestACallerLeavesOthersTheirLongBodies(t *testing.T) {
	t.Parallel()
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	long := strings.Repeat("x", 500<<10)
	call := func(text string) string {
		return modern("1", "tools/call", `"name":"echo","arguments":{"text":"`+text+long+`"}`, "")
	}
	if status, got := send(t, endpoint, call("x"), by("ann")...); status != 200 {
		t.Fatal(got)
	}
	flood(t, b, endpoint, 8, func(int) string { return call("flood\",\"x\":\"") }, by("mallory")...)
	refused := make(chan string, 1)
	go func() {
		status, got := send(t, endpoint, call("x"), by("mallory")...)
		refused <- fmt.Sprintf("HTTP %d with %+v", status, got.Error)
	}()
	served := make(chan string, 1)
	go func() {
		status, got := send(t, endpoint, call("x"), by("ann")...)
		served <- fmt.Sprintf("HTTP %d with %+v", status, got.Error)
	}()
	select {
	case got := <-served:
		if got != "HTTP 200 with <nil>" {
			t.Error("another caller gets", got)
		}
	case <-time.After(patience):
		t.Error("another caller waits")
	}
	if got := <-refused; !strings.HasPrefix(got, "HTTP 503 ") || !strings.Contains(got, "TooManyLongBodies: ") {
		t.Error("the caller that floods gets", got)
	}
}

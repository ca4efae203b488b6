package era_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	b, endpoint := behind(t, legacyOnly)
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
	_, endpoint := behind(t, legacyOnly)
	chunked := func(body string, headers ...string) *http.Request {
		r := requestOf(t, endpoint, body, headers...)
		r.ContentLength = -1
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

// A session stays for minutes after its first request: of that it keeps by what the backend lets its client in, and no
// other header.
func TestASessionKeepsNothingElseOfItsFirstRequest(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	ballast := strings.Repeat("x", 1<<10)
	call := func(n int) {
		headers := append(asModern("tools/list", ""), "X-Api-Key", "secret")
		for i := range 14 {
			headers = append(headers, fmt.Sprintf("X-Ballast-%d", i), ballast)
		}
		client := fmt.Sprintf(`"io.modelcontextprotocol/clientInfo":{"name":"%d","version":"1"}`, n)
		if status, m := send(t, endpoint, modern("1", "tools/list", "", client), headers...); status != http.StatusOK {
			t.Fatalf("HTTP %d with %+v", status, m.Error)
		}
	}
	live := func() int64 {
		b.mu.Lock()
		b.received = nil
		b.mu.Unlock()
		http.DefaultClient.CloseIdleConnections()
		var m runtime.MemStats
		for range 3 {
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for n := range 20 {
		call(n)
	}
	before := live()
	const sessions = 100
	for n := range sessions {
		call(100 + n)
	}
	// The backend is in this process, and keeps its end of each session.
	if each := (live() - before) / sessions; each > 20<<10 {
		t.Errorf("a session keeps %d bytes: want none of the 14 KiB of headers, of which there were several copies", each)
	} else {
		t.Logf("a session, with the backend's end of it, keeps %d bytes", each)
	}
}

// Clients that leave in the middle of a call or of a subscription leave nothing behind.
func TestNothingIsLeftOfClientsThatLeave(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	// A cancellation that the server hears of before its call is lost: clients leave once the tool runs.
	var runs atomic.Int64
	b.server.AddTool(&mcp.Tool{Name: "hang", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			runs.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		})
	// Who leaves in the middle of initialize leaves a session that the backend alone knows: both leave later.
	leave := func(method, params, name string, arrived func() bool) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		go func() {
			for !arrived() && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		r := requestOf(t, endpoint, modern("1", method, params, ""), asModern(method, name)...).WithContext(ctx)
		if response, err := http.DefaultClient.Do(r); err == nil {
			_, _ = response.Body.Read(make([]byte, 1<<16))
			_ = response.Body.Close()
		}
	}
	leaveBoth := func() {
		began := runs.Load()
		leave("tools/call", `"name":"hang"`, "hang", func() bool { return runs.Load() > began })
		leave("subscriptions/listen", `"notifications":{"toolsListChanged":true}`, "", func() bool { return false })
	}
	// The stream of the session stays once a call could hear something of it, as one does beside a subscription.
	send(t, endpoint, modern("1", "tools/call", echo, `"progressToken":"p"`), asModern("tools/call", "echo")...)
	leaveBoth()
	settle := func() int {
		runtime.GC()
		http.DefaultClient.CloseIdleConnections()
		return runtime.NumGoroutine()
	}
	time.Sleep(4 * time.Second) // idle connections to the backend close
	before := settle()
	for range 20 {
		leaveBoth()
	}
	after := 0
	for end := time.Now().Add(2 * patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if after = settle(); after <= before+5 {
			return
		}
	}
	all := make([]byte, 1<<20)
	t.Errorf("%d goroutines became %d\n%s", before, after, all[:runtime.Stack(all, true)])
}

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
		response, err := http.DefaultClient.Do(requestOf(t, endpoint, body, headers...).WithContext(ctx))
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
	b, endpoint := behind(t, legacyOnly)
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
	if status != http.StatusOK || got.Error == nil || !strings.HasPrefix(got.Error.Message, "TooManySessions: ") {
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
	b, endpoint := behind(t, legacyOnly)
	for i := range 128 {
		if status, got := send(t, endpoint, asking(fmt.Sprint(i), ""),
			by("mallory", "Mcp-Name", "ask")...); got.Result["resultType"] != "input_required" {
			t.Fatalf("call %d gets HTTP %d with %+v", i, status, got)
		}
	}
	status, header, got := answerOf(t, endpoint, asking("128", ""), by("mallory", "Mcp-Name", "ask")...)
	if status != http.StatusOK || header.Get("Retry-After") != "" || len(got) != 1 ||
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
	b, endpoint := behind(t, legacyOnly)
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

// A server may start a process for each session, and count them.
func TestADrainEndsTheSessionsWithTheBackend(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint, drain := drainable(t, b, 0)
	for _, caller := range []string{"ann", "bob"} {
		if status, got := send(t, endpoint, modern("1", "tools/call", echo, ""),
			append(asModern("tools/call", "echo"), "X-Api-Key", caller)...); status != 200 {
			t.Fatal(got)
		}
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		sendAll(t, endpoint, modern("1", "subscriptions/listen", `"notifications":{"toolsListChanged":true}`, ""),
			asModern("subscriptions/listen", "")...)
	}()
	await(t, func() bool { return len(b.got(http.MethodGet)) == 1 })
	drain(time.Second)
	<-listening
	begun, ended := map[string]bool{}, map[string]bool{}
	for _, r := range b.got("notifications/initialized") {
		begun[r.session] = true
	}
	for _, r := range b.got(http.MethodDelete) {
		ended[r.session] = true
	}
	if len(begun) < 3 { // and one to find out what the backend speaks
		t.Errorf("%d sessions have begun", len(begun))
	}
	for session := range begun {
		if !ended[session] {
			t.Errorf("session %s stays", session)
		}
	}
}

// A session that could not begin is no later caller's business.
func TestAnErrorOfABeginIsForgottenWithItsCallers(t *testing.T) {
	b, endpoint := behind(t, legacyOnly)
	send(t, endpoint, modern("1", "tools/call", echo, ""), asModern("tools/call", "echo")...)
	before := len(b.got("initialize"))
	refuse, refused := make(chan struct{}), make(chan struct{})
	b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !strings.Contains(string(body), `"initialize"`) {
			return false
		}
		<-refuse
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return true
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		_, _ = conn.Read(make([]byte, 1)) // until the proxy has read it
		close(refused)
		return true
	})
	ann := append(asModern("tools/call", "echo"), "X-Api-Key", "ann")
	desert(t, endpoint, modern("1", "tools/call", echo, ""), func() bool { return len(b.got("initialize")) > before },
		ann...)
	b.answers(nil)
	close(refuse)
	<-refused
	time.Sleep(200 * time.Millisecond) // it arrives where nobody waits
	if status, got := send(t, endpoint, modern("2", "tools/call", echo, ""), ann...); status != 200 {
		t.Errorf("HTTP %d with %+v", status, got)
	}
}

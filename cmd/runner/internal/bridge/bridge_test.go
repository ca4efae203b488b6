package bridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

func TestEachSessionHasAProcessOfItsOwn(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	one, two := f.begin(), f.begin()
	first, second := result[int](t, f.call(one, "1", "pid")), result[int](t, f.call(two, "1", "pid"))
	if first == second || first != result[int](t, f.call(one, `"b"`, "pid")) {
		t.Errorf("processes %d and %d", first, second)
	}
	f.want(f.call(one, "5", "echo"), http.StatusOK, `"id":5`, `\"id\":5,`)
	if a := f.do(http.MethodDelete, "", protocol.HeaderSession, one); a.StatusCode != http.StatusNoContent {
		t.Error(a.Status)
	}
	within(t, time.Minute, "its process ends", func() bool { return gone(first) })
	f.want(f.call(one, "1", "pid"), http.StatusNotFound)
	f.want(f.call(two, "1", "pid"), http.StatusOK)
}

func TestSessionsShareAProcess(t *testing.T) {
	f := serve(t, Config{Server: child(""), Shared: true})
	one, two := f.begin(), f.begin()
	if a, b := result[int](t, f.call(one, "1", "pid")), result[int](t, f.call(two, "1", "pid")); a != b {
		t.Errorf("processes %d and %d", a, b)
	}
	// Equal ids and tokens at a time do not meet.
	var all sync.WaitGroup
	for _, session := range []string{one, two} {
		for range 20 {
			all.Go(func() {
				a := f.post(`{"jsonrpc":"2.0","id":"same","method":"progress","params":{"_meta":{"progressToken":"mine"}}}`,
					protocol.HeaderSession, session)
				f.want(a, http.StatusOK, `"id":"same"`, `"progressToken":"mine"`)
				if n := strings.Count(a.body, "progressToken"); n != 1 {
					t.Errorf("%d notifications in %s", n, a.body)
				}
			})
		}
	}
	all.Wait()
}

// Clients refuse revisions that they do not know, and those of another revision than they asked for are new to old
// ones.
func TestSessionsThatShareAProcessAgreeOnTheRevisionOfEachClient(t *testing.T) {
	f := serve(t, Config{Server: child(""), Shared: true})
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2099-01-01": "2025-11-25",
	} {
		a := f.post(strings.Replace(hello, "2025-11-25", asked, 1))
		f.want(a, http.StatusOK, `"protocolVersion":"`+want+`"`, `"name":"stdiotest"`)
		session := a.header.Get(protocol.HeaderSession)
		if got := f.sessions.Get(session).revision(); got != want {
			t.Errorf("a client that asks for %s has a session of %s", asked, got)
		}
		f.want(f.post(`{"jsonrpc":"2.0","id":1,"method":"pid"}`, protocol.HeaderSession, session, protocol.HeaderVersion,
			want), http.StatusOK)
	}
}

// A server may speak a revision that nobody here knows.
func TestASessionTakesTheRevisionThatItsServerAgreedTo(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	session := f.begin()
	in := func(revision string) answer {
		return f.post(`{"jsonrpc":"2.0","id":1,"method":"pid"}`, protocol.HeaderSession, session, protocol.HeaderVersion,
			revision)
	}
	f.want(in("2024-10-07"), http.StatusBadRequest, "in a session write one of")
	f.sessions.Get(session).version = "2024-10-07"
	f.want(in("2024-10-07"), http.StatusOK)
}

func TestTheModernEraIsServedFromOneProcess(t *testing.T) {
	f := serve(t, Config{Server: child("modern")})
	a, b := f.modernly("1", "pid", ""), f.modernly(`"x"`, "pid", "")
	if result[int](t, a) != result[int](t, b) || !strings.Contains(b.body, `"id":"x"`) {
		t.Errorf("%s and %s", a.body, b.body)
	}
	f.want(f.modernly("7", "progress", `,"progressToken":"mine"`), http.StatusOK, `"progressToken":"mine"`, `"id":7`)
	meta := `"params":{"_meta":{"` + protocol.MetaVersion + `":"` + protocol.Modern + `"}}`
	for name, tc := range map[string]struct {
		body    string
		headers []string
		status  int
		says    string
	}{
		"no version": {
			`{"jsonrpc":"2.0","id":1,"method":"pid",` + meta + `}`,
			[]string{"Mcp-Method", "pid"},
			400,
			"-32020",
		},
		"another name": {
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"` + protocol.MetaVersion + `":"` +
				protocol.Modern + `"}}}`,
			[]string{protocol.HeaderVersion, protocol.Modern, "Mcp-Method", "tools/call", "Mcp-Name", "b"},
			400, "-32020",
		},
		"a batch": {
			`[{"jsonrpc":"2.0","id":1,"method":"pid",` + meta + `}]`,
			[]string{protocol.HeaderVersion, protocol.Modern},
			400, "batches",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := front{f.Bridge, t, f.url}
			f.want(f.post(tc.body, tc.headers...), tc.status, tc.says)
		})
	}
}

// Which revision that is has not been agreed on yet.
func TestInitializeBeginsASessionWhateverItsHeaderSays(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	for _, says := range []string{"2024-11-05", protocol.Modern, "2099-01-01"} {
		a := f.post(hello, protocol.HeaderVersion, says)
		f.want(a, http.StatusOK, `"protocolVersion":"2025-11-25"`)
		f.want(f.call(a.header.Get(protocol.HeaderSession), "1", "pid"), http.StatusOK, "result")
	}
}

func TestAServerOfTheLegacyEraSaysSo(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	a := f.modernly("1", "pid", "")
	f.want(a, http.StatusBadRequest, "-32022", `"supported":["2025-11-25"`, `"requested":"2026-07-28"`)
	a = f.post(`{"jsonrpc":"2.0","id":1,"result":{}}`, protocol.HeaderVersion, "\xff") // which no JSON can have
	f.want(a, http.StatusBadRequest, "-32022", "\"requested\":\"\ufffd\"")
}

// A client that leaves cancels its call in the modern era; in the legacy one the answer
// waits for it.
func TestAClientThatLeaves(t *testing.T) {
	f := serve(t, Config{Server: child("modern")})
	f.modernly("0", "pid", "") // the server has started
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	request, _ := http.NewRequestWithContext(ctx, http.MethodPost, f.url, strings.NewReader(
		`{"jsonrpc":"2.0","id":1,"method":"silent","params":{"_meta":{"`+protocol.MetaVersion+`":"`+protocol.Modern+`"}}}`))
	request.Header.Set(protocol.HeaderVersion, protocol.Modern)
	request.Header.Set("Mcp-Method", "silent")
	if r, err := http.DefaultClient.Do(request); err == nil {
		r.Body.Close()
	}
	within(t, time.Minute, "the call is cancelled", func() bool {
		all := len(f.modern.all.peer.mine(nil))
		return all == 0
	})
}

func TestAStreamThatBreaksOffIsResumed(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	session := f.begin()
	response := f.do(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"silent"}`, protocol.HeaderSession, session)
	reader := bufio.NewReader(response.Body)
	line, err := reader.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "id: ") {
		t.Fatal(line, err)
	}
	last := strings.TrimSpace(strings.TrimPrefix(line, "id: "))
	response.Body.Close()
	s := f.sessions.Get(session)
	within(t, time.Minute, "it is noticed", func() bool { return !s.stream(strings.Split(last, "_")[0]).isAttached() })
	mine := s.peer.mine(s)
	if len(mine) != 1 {
		t.Fatalf("%d calls wait", len(mine))
	}
	s.peer.dispatch(jsonrpc.Message{ID: []byte("1"), Result: []byte(`"late"`)})
	again := f.do(http.MethodGet, "", protocol.HeaderSession, session, protocol.HeaderLast, last)
	defer again.Body.Close()
	all := make([]byte, 4<<10)
	n, _ := bufio.NewReader(again.Body).Read(all)
	if !strings.Contains(string(all[:n]), `"result":"late"`) {
		t.Errorf("HTTP %d %s", again.StatusCode, all[:n])
	}
}

// Clients resume the stream of a call that they have cancelled, again and again unless HTTP 405 tells them that there
// is none.
func TestTheStreamOfACallThatIsOverIsNotResumed(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	session := f.begin()
	response := f.do(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"silent"}`, protocol.HeaderSession, session)
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "id: ") {
		t.Fatal(line, err)
	}
	last := strings.TrimSpace(strings.TrimPrefix(line, "id: "))
	f.want(f.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, protocol.HeaderSession,
		session), http.StatusAccepted)
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	for id, want := range map[string]int{
		last: http.StatusMethodNotAllowed, "ANOTHER_0": http.StatusMethodNotAllowed,
		"5": http.StatusBadRequest, "ANOTHER_x": http.StatusBadRequest, "_0": http.StatusBadRequest,
	} {
		again := f.do(http.MethodGet, "", protocol.HeaderSession, session, protocol.HeaderLast, id)
		_ = again.Body.Close()
		allow := ""
		if want == http.StatusMethodNotAllowed {
			allow = "GET, POST, DELETE"
		}
		if again.StatusCode != want || again.Header.Get("Allow") != allow {
			t.Errorf("%s: HTTP %d, Allow %q", id, again.StatusCode, again.Header.Get("Allow"))
		}
	}
}

func TestTheServerAsksItsClient(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	session := f.begin()
	response := f.do(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"ask"}`, protocol.HeaderSession, session)
	defer response.Body.Close()
	found := false
	for lines := bufio.NewScanner(response.Body); !found && lines.Scan(); {
		found = strings.Contains(lines.Text(), `"method":"sampling/createMessage"`)
	}
	if !found {
		t.Error("the question did not come")
	}
}

// The stream of a call whose client has not answered yet may be read by nobody: the
// translator of the proxy keeps it while it waits for a client of the modern era.
func TestAQuestionIsNotAskedInACallThatWaitsForAnAnswer(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	session := f.begin()
	lines := map[string]*bufio.Scanner{}
	ask := func(id string) {
		response := f.do(http.MethodPost, `{"jsonrpc":"2.0","id":`+id+`,"method":"ask"}`, protocol.HeaderSession, session)
		t.Cleanup(func() { response.Body.Close() })
		lines[id] = bufio.NewScanner(response.Body)
	}
	asked := func(call, question string) {
		t.Helper()
		for lines[call].Scan() {
			if strings.Contains(lines[call].Text(), `"method":"sampling/createMessage"`) {
				if !strings.Contains(lines[call].Text(), `"id":"`+question+`"`) {
					t.Errorf("call %s asks %s", call, lines[call].Text())
				}
				return
			}
		}
		t.Errorf("call %s does not ask %s", call, question)
	}
	ask("1")
	asked("1", "q1")
	ask("2")
	asked("2", "q2")
	// Once the first is answered, nothing says that the next is not its own.
	f.want(f.post(`{"jsonrpc":"2.0","id":"q1","result":{}}`, protocol.HeaderSession, session), http.StatusAccepted)
	ask("3")
	asked("1", "q3")
}

func TestAProcessThatEndsFailsItsCalls(t *testing.T) {
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared %v", shared), func(t *testing.T) {
			f := serve(t, Config{Server: child(""), Shared: shared})
			session := f.begin()
			var waiting sync.WaitGroup
			waiting.Go(func() {
				f.want(f.call(session, "1", "silent"), 200, "-31006", "exit status 3", `"id":1`, "the call may have run")
			})
			time.Sleep(2 * quickLegacy)
			a := f.call(session, "2", "exit")
			f.wantFailed(a, "-31006", `"id":2`)
			waiting.Wait()
			within(t, time.Minute, "the session has ended", func() bool { return f.sessions.Get(session) == nil })
			f.want(f.call(session, "3", "pid"), http.StatusNotFound)
			f.want(f.call(f.begin(), "1", "pid"), http.StatusOK) // it was started again
		})
	}
}

func TestAServerThatEndsAtOnceIsStartedAgainWithPauses(t *testing.T) {
	f := serve(t, Config{Server: child("crash")})
	// noted waits until a start has led to a pause, and has it last until next.
	noted := func(pause time.Duration, next time.Time) {
		t.Helper()
		within(t, time.Minute, "the pause is "+pause.String(), func() bool {
			f.starter.mu.Lock()
			defer f.starter.mu.Unlock()
			noted := f.starter.pauses[""]
			if noted.lasts != pause {
				return false
			}
			noted.until = next
			f.starter.pauses[""] = noted
			return true
		})
	}
	f.want(f.post(hello), http.StatusBadGateway, "-31006")
	noted(firstPause, time.Now().Add(time.Hour))
	a := f.post(hello)
	f.want(a, http.StatusServiceUnavailable, "-31008", "exit status 3")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	noted(firstPause, time.Now())
	f.want(f.post(hello), http.StatusBadGateway, "-31006")
	noted(2*firstPause, time.Now())
	if err := serve(t, Config{Server: child("crash")}).Start(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("Start: %v", err)
	}
}

func TestAServerThatOnlyPrintsIsDiagnosed(t *testing.T) {
	prints := func(c *Config, _ *programs) { c.Server.Junk = func() string { return "still starting" } }
	bubble(t, legacyProgram, prints, func(f front, _ *programs) {
		begin := time.Now()
		f.want(f.post(hello), http.StatusBadGateway, "-31007", "prints on its standard output what is not MCP",
			"still starting")
		if took := time.Since(begin); took < junkPatience || took >= firstWords {
			t.Errorf("after %s", took)
		}
	})
	f := serve(t, Config{Server: child("junk")})
	f.want(f.post(hello), http.StatusOK, "stdiotest")
}

func TestLongMessages(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	session := f.begin()
	if a := f.call(session, "1", "big 4194304"); len(a.json()) != 4<<20 {
		t.Errorf("HTTP %d with %d bytes", a.status, len(a.json()))
	}
	a := f.call(session, "2", "big 4194305")
	f.wantFailed(a, "-31007", "longer than 4194304 bytes", `"id":2`)
	f.want(f.call(session, "3", "pid"), http.StatusOK)
	body := `{"jsonrpc":"2.0","id":1,"method":"silent","params":{"a":"` + strings.Repeat("x", budget.MaxBody) + `"}}`
	f.want(f.post(body, protocol.HeaderSession, session), http.StatusRequestEntityTooLarge)
}

// A client that does not read keeps its server waiting, and no more in memory than a
// bound.
func TestAClientThatDoesNotReadCostsABoundedMemory(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	session := f.begin()
	// 30 MiB
	response := f.do(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"flood 3000"}`, protocol.HeaderSession, session)
	defer response.Body.Close()
	time.Sleep(time.Second)
	s := f.sessions.Get(session)
	mine := s.peer.mine(s)
	if len(mine) != 1 {
		t.Fatalf("%d calls wait: the server was not held up", len(mine))
	}
	to := mine[0].to
	to.mu.Lock()
	if to.unsent > maxUnsent+20<<10 || to.sent > maxReplay+20<<10 {
		t.Errorf("%d bytes wait and %d are kept", to.unsent, to.sent)
	}
	to.mu.Unlock()
	// It goes on as it is read.
	lines, events := bufio.NewScanner(response.Body), 0
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "data: {") {
			events++
		}
	}
	if events != 3001 {
		t.Errorf("%d events", events)
	}
}

func TestSessionsAreBounded(t *testing.T) {
	f := serve(t, Config{Server: child(""), Sessions: 2})
	one, two := f.begin(), f.begin()
	f.want(f.post(hello), http.StatusServiceUnavailable, "-31008", "all 2 sessions of this pod are in use")
	f.sessions.Get(one).used = time.Now().Add(-2 * makeRoom)
	three := f.begin()
	f.want(f.call(one, "1", "pid"), http.StatusNotFound)
	f.want(f.call(two, "1", "pid"), http.StatusOK)
	f.sweepAt(time.Now().Add(2 * IdleTime))
	f.want(f.call(three, "1", "pid"), http.StatusNotFound)
}

// What sessions took is given back.
func TestAThousandSessionsLeaveNothing(t *testing.T) {
	f := serve(t, Config{Server: child(""), Sessions: 40})
	f.call(f.begin(), "1", "pid")
	files := func() int {
		all, _ := os.ReadDir("/proc/self/fd")
		return len(all)
	}
	http.DefaultClient.CloseIdleConnections()
	time.Sleep(100 * time.Millisecond)
	goroutines, descriptors := runtime.NumGoroutine(), files()
	count := 1000
	if testing.Short() {
		count = 100
	}
	var clients sync.WaitGroup
	for range 10 {
		clients.Go(func() {
			for range count / 10 {
				session := f.begin()
				f.do(http.MethodDelete, "", protocol.HeaderSession, session).Body.Close()
			}
		})
	}
	clients.Wait()
	http.DefaultClient.CloseIdleConnections()
	within(t, time.Minute, "goroutines, descriptors and processes are back", func() bool {
		return runtime.NumGoroutine() <= goroutines+3 && files() <= descriptors+3 && len(f.starter.running()) <= 2
	})
	if n := f.sessions.Len(); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

func gone(pid int) bool {
	_, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	return err != nil
}

// A client of the SDK's over the transport before streamable HTTP, which everything of
// a session comes by.
func TestOldClients(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	client := mcp.NewClient(&mcp.Implementation{Name: "old", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: f.url},
		&mcp.ClientSessionOptions{ProtocolVersion: "2024-11-05"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := session.Ping(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.Close(); err != nil {
		t.Error(err)
	}
	within(t, time.Minute, "its session ends", func() bool {
		return f.sessions.Len() == 0
	})
}

// A subscription ends as the specification has it when the pod goes.
func TestSubscriptionsEndGracefully(t *testing.T) {
	f := serve(t, Config{Server: child("modern")})
	f.modernly("0", "pid", "")
	var waiting sync.WaitGroup
	waiting.Go(func() {
		a := f.modernly("9", "subscriptions/listen", "")
		f.want(a, http.StatusOK, `"id":9`, `"resultType":"complete"`, `"io.modelcontextprotocol/subscriptionId":9`)
	})
	within(t, time.Minute, "the call waits", func() bool {
		all := len(f.modern.all.peer.mine(nil))
		return all == 1
	})
	f.Drain()
	waiting.Wait()
}

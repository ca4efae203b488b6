package bridge

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// holding is a bridge before a server whose tool is done when it is told, and a session of it.
func holding(t *testing.T) (f front, session string, done chan<- string) {
	t.Helper()
	results := make(chan string, 1)
	f = behind(t, &saying{take: func(m said, say func(string)) {
		switch m.Method {
		case "initialize":
			say(answerOf(m, agreed))
		case "tools/call":
			say(answerOf(m, <-results))
		case "note":
			say("data: " + `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n\n")
		}
	}})
	return f, f.begin(), results
}

// primed is the id with which a stream begins.
func primed(t *testing.T, response *http.Response) (id string, rest *bufio.Reader) {
	t.Helper()
	rest = bufio.NewReader(response.Body)
	line, err := rest.ReadString('\n')
	id, found := strings.CutPrefix(strings.TrimSpace(line), "id: ")
	if response.StatusCode != http.StatusOK || !found {
		t.Fatalf("HTTP %d begins with %q, %v", response.StatusCode, line, err)
	}
	return id, rest
}

const silentCall = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}`

// A client may be gone for long before that is noticed: it comes back on another connection, and has its answer there.
func TestAStreamIsTakenOverByItsClient(t *testing.T) {
	f, session, done := holding(t)
	older := f.do(http.MethodPost, silentCall, protocol.HeaderSession, session)
	defer older.Body.Close()
	id, rest := primed(t, older)
	newer := f.do(http.MethodGet, "", protocol.HeaderSession, session, protocol.HeaderLast, id)
	defer newer.Body.Close()
	if got, err := io.ReadAll(rest); newer.StatusCode != http.StatusOK || err != nil ||
		strings.Contains(string(got), "result") {
		t.Errorf("HTTP %d, and the older ends with %q, %v", newer.StatusCode, got, err)
	}
	done <- `{"content":["yes"]}`
	until(t, newer.Body, `"id":7,"result":{"content":["yes"]}`)
}

// What was written need not have arrived.
func TestAStreamThatIsOverIsResumed(t *testing.T) {
	f, session, done := holding(t)
	older := f.do(http.MethodPost, silentCall, protocol.HeaderSession, session)
	defer older.Body.Close()
	id, rest := primed(t, older)
	done <- `{"content":["yes"]}`
	if got, err := io.ReadAll(rest); err != nil || !strings.Contains(string(got), "yes") {
		t.Fatalf("%q, %v", got, err)
	}
	for range 2 {
		newer := f.do(http.MethodGet, "", protocol.HeaderSession, session, protocol.HeaderLast, id)
		got, err := io.ReadAll(newer.Body)
		newer.Body.Close()
		if newer.StatusCode != http.StatusOK || !strings.Contains(string(got), `"id":7,"result":{"content":["yes"]}`) ||
			err != nil {
			t.Errorf("HTTP %d with %q, %v", newer.StatusCode, got, err)
		}
	}
	for range maxKept {
		f.finished.keep(f.stream("", true, ""))
	}
	f.want(f.postLast(session, id), http.StatusMethodNotAllowed, "of no stream that can be resumed")
}

// Of what is kept for clients whose connections are dead one caller has half, and lets go of its own for more.
func TestACallerLeavesOthersWhatIsKept(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	kept := func(caller string) *stream {
		s := f.stream("", true, caller)
		f.finished.keep(s)
		return s
	}
	bobs := kept("bob")
	anns := kept("ann")
	for range maxKept {
		kept("ann")
	}
	if bobs.isFreed() || !anns.isFreed() || len(f.finished.all) != 1+maxKept/2 {
		t.Errorf("bob's is gone: %t, ann's oldest is gone: %t, and %d are kept", bobs.isFreed(), anns.isFreed(),
			len(f.finished.all))
	}
}

// postLast asks for the rest of a stream.
func (f front) postLast(session, id string) answer {
	f.t.Helper()
	response := f.do(http.MethodGet, "", protocol.HeaderSession, session, protocol.HeaderLast, id)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}

func TestAStandingStreamIsTakenOver(t *testing.T) {
	f, session, _ := holding(t)
	older := f.do(http.MethodGet, "", protocol.HeaderSession, session)
	defer older.Body.Close()
	id, rest := primed(t, older)
	for name, last := range map[string]string{"from anew": "", "from where it was": id} {
		t.Run(name, func(t *testing.T) {
			headers := []string{protocol.HeaderSession, session}
			if last != "" {
				headers = append(headers, protocol.HeaderLast, last)
			}
			newer := f.do(http.MethodGet, "", headers...)
			defer newer.Body.Close()
			if got, err := io.ReadAll(rest); newer.StatusCode != http.StatusOK || err != nil ||
				strings.Contains(string(got), "changed") {
				t.Errorf("HTTP %d, and the older ends with %q, %v", newer.StatusCode, got, err)
			}
			f.want(f.post(`{"jsonrpc":"2.0","method":"note"}`, protocol.HeaderSession, session), http.StatusAccepted)
			until(t, newer.Body, "list_changed")
		})
	}
}

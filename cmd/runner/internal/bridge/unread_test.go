package bridge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// roomy waits until all room for events is free.
func (f front) roomy(t *testing.T) {
	t.Helper()
	within(t, 2*time.Minute, "all room is free", func() bool {
		leave, err := f.unread.Take("", maxUnread)
		if err == nil {
			leave()
		}
		return err == nil
	})
}

// settled reports whether no call of the sessions waits for its answer.
func (f front) settled(sessions []string) bool {
	for _, id := range sessions {
		s := f.sessions.Get(id)
		s.mu.Lock()
		open := slices.ContainsFunc(s.streams, func(to *stream) bool {
			to.mu.Lock()
			defer to.mu.Unlock()
			return to.open > 0
		})
		s.mu.Unlock()
		if open {
			return false
		}
	}
	return true
}

// longest is the length of the longest answer, in bytes.
const longest = 4 << 20

// asks asks for the longest answer, and reads its head.
func (f front) asks(t *testing.T, session, id, caller string) *http.Response {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"big %d"}`, id, longest)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json",
		protocol.HeaderSession: session, protocol.HeaderCaller: caller,
	} {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

// Clients that read nothing of long answers take no more memory than there is room for, and none of what is another
// caller's.
func TestAnswersThatNobodyReadsHaveABoundAndAShare(t *testing.T) {
	was := roomTime
	t.Cleanup(func() { roomTime = was }) // once the bridge has ended
	roomTime = 50 * time.Millisecond
	f := serve(t, Config{Server: child("")})
	var unread []*http.Response
	var sessions []string
	for range share.Half(maxUnread)/longest + 3 {
		sessions = append(sessions, f.post(hello, protocol.HeaderCaller, "mallory").header.Get(protocol.HeaderSession))
	}
	for _, session := range sessions {
		unread = append(unread, f.asks(t, session, "1", "mallory"))
	}
	if leave, err := f.unread.Take("", int64(share.Half(maxUnread))); err != nil {
		t.Errorf("one caller has more than half: %v", err)
	} else {
		leave()
	}
	ann := f.post(hello, protocol.HeaderCaller, "ann").header.Get(protocol.HeaderSession)
	if got, err := io.ReadAll(f.asks(t, ann, "7", "ann").Body); err != nil || len(got) < longest {
		t.Errorf("another caller got %d bytes, %v", len(got), err)
	}
	within(t, time.Minute, "all calls are answered", func() bool { return f.settled(sessions) })
	whole, lost := 0, 0
	for _, response := range unread {
		got, err := io.ReadAll(response.Body)
		switch {
		case err != nil:
			t.Error(err)
		case len(got) >= longest:
			whole++
		case strings.Contains(string(got), "AnswerLost: ") && strings.Contains(string(got), `"id":1`):
			lost++
		default:
			t.Errorf("got %d bytes: %.200s", len(got), got)
		}
	}
	if whole == 0 || lost == 0 {
		t.Errorf("%d answers came and %d were lost", whole, lost)
	}
	for _, id := range append(sessions, ann) {
		response := f.do(http.MethodDelete, "", protocol.HeaderSession, id)
		_ = response.Body.Close()
	}
	f.roomy(t)
}

// However clients come and go, the room of what they were sent is given back.
func TestRoomIsGivenBack(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	sessions := make([]string, 0, 10)
	for range cap(sessions) {
		sessions = append(sessions, f.begin())
	}
	for i, session := range sessions {
		f.want(f.call(session, "1", "big 100000"), http.StatusOK)
		ctx, cancel := context.WithCancel(t.Context())
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url,
			strings.NewReader(`{"jsonrpc":"2.0","id":2,"method":"flood 100"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(protocol.HeaderSession, session)
		if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
			_, _ = io.CopyN(io.Discard, response.Body, int64(i)*1000)
			cancel()
			_ = response.Body.Close()
		}
		cancel()
	}
	for _, session := range sessions {
		response := f.do(http.MethodDelete, "", protocol.HeaderSession, session)
		_ = response.Body.Close()
	}
	f.roomy(t)
	modern := serve(t, Config{Server: child("modern")})
	for range 5 {
		modern.want(modern.modernly("1", "pid", ""), http.StatusOK)
	}
	modern.roomy(t)
}

// apart is a stream beside which there is nothing, and its room.
func apart(places int, replays bool) (*stream, *share.Places) {
	all := share.New(places, places)
	return (&Bridge{unread: all}).stream("s", replays, "ann"), all
}

func free(all *share.Places, n int64) bool {
	leave, err := all.Take("", n)
	if err == nil {
		leave()
	}
	return err == nil
}

func message(n int) event { return event{data: []byte(strings.Repeat("x", n))} }

// reset is a client whose connection was reset.
type reset struct{ http.ResponseWriter }

func (reset) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (reset) FlushError() error         { return io.ErrClosedPipe }

func TestWhatAClientThatIsGoneWasToReadIsKept(t *testing.T) {
	s, all := apart(100, true)
	s.push(message(40), true)
	by := s.reader
	if (reading{s: s, by: by, quick: time.Second, events: true}).
		serve(reset{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/mcp", http.NoBody)) {
		t.Error("all of it was written")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	e, _, ok := s.take(ctx, by)
	if !ok {
		t.Fatal("what was to be read is lost")
	}
	e.hold.part()
	if s.free(); !free(all, 100) {
		t.Error("its room is not given back")
	}
}

func TestAStreamMakesRoomOfItsOwn(t *testing.T) {
	nobody, all := apart(100, true)
	for range 5 {
		if !nobody.push(message(40), true) {
			t.Error("a stream that nobody reads did not lose its oldest")
		}
	}
	if !free(all, 20) || free(all, 21) {
		t.Error("other than two of five wait")
	}
	if e, n, ok := nobody.take(t.Context(), nobody.reader); !ok || n != 3 {
		t.Errorf("%d is next, %v", n, ok)
	} else {
		e.hold.part()
	}
	if !nobody.push(message(40), true) || !nobody.push(message(90), true) {
		t.Error("what is kept for a client that resumes makes no room")
	}
	nobody.free()
	if !free(all, 100) {
		t.Error("not all is given back")
	}
	if !nobody.push(message(40), true) || !free(all, 100) {
		t.Error("it takes room after its end")
	}
}

func TestAnAnswerWithoutRoomBecomesAnError(t *testing.T) {
	read, all := apart(100, false)
	read.attach(false, 0)
	read.push(message(90), true)
	if read.push(message(40), false) {
		t.Error("there was room for more than there is")
	}
	if !read.push(event{data: []byte(`{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("x", 90) + `"}`), status: 200},
		false) {
		t.Error("an answer is lost without a word")
	}
	first, _, _ := read.take(t.Context(), read.reader)
	second, _, _ := read.take(t.Context(), read.reader)
	if second.status != http.StatusBadGateway || !strings.Contains(string(second.data), `"id":7`) ||
		!strings.Contains(string(second.data), "AnswerLost") {
		t.Errorf("got %d %s", second.status, second.data)
	}
	read.free()
	read.detach(read.reader)
	if free(all, 11) {
		t.Error("room is given back while it is written")
	}
	first.hold.part()
	second.hold.part()
	if !free(all, 100) {
		t.Error("not all is given back")
	}
}

// Who resumes the stream of a call is told that its answer was lost.
func TestAnAnswerWithoutRoomIsToldToWhoResumes(t *testing.T) {
	left, all := apart(100, true)
	leave, err := all.Take("bob", 90)
	if err != nil {
		t.Fatal(err)
	}
	left.begin(1)
	answerTo(left)([]byte(`{"jsonrpc":"2.0","id":7,"result":"long"}`), http.StatusOK, true)
	leave()
	left.attach(true, -1)
	e, _, ok := left.take(t.Context(), left.reader)
	if !ok || !strings.Contains(string(e.data), `"id":7`) || !strings.Contains(string(e.data), "AnswerLost") ||
		!left.last() {
		t.Errorf("got %s, %v", e.data, ok)
	}
}

// What others leave no room for costs a call its progress, and not itself.
func TestANotificationWithoutRoomIsLostAlone(t *testing.T) {
	read, all := apart(100, false)
	if _, err := all.Take("bob", 90); err != nil {
		t.Fatal(err)
	}
	read.attach(false, 0)
	if !read.push(event{data: []byte(`{"jsonrpc":"2.0","method":"notifications/progress"}`)}, false) {
		t.Error("the call of a notification ends")
	}
	if len(read.events) != 0 {
		t.Errorf("%d events wait", len(read.events))
	}
	if read.push(event{data: []byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`)}, false) {
		t.Error("a question is lost without a word")
	}
}

// Whoever resumes a stream that nobody read for long gets what is left of it, and no event
// without data, which clients before 2025-11-25 take for a message.
func TestWhatWasDroppedIsNotResumed(t *testing.T) {
	b, _ := peered(t, newPipe(t), true)
	s := b.stream(standingID, true, "")
	long := `"` + strings.Repeat("a", maxUnsent-10) + `"`
	s.attach(false, 0)
	s.push(event{data: []byte("{}")}, false)
	e, _, _ := s.take(t.Context(), s.reader)
	e.hold.part()
	s.detach(s.reader)
	for range 3 { // the third has the second dropped
		s.push(event{data: []byte(long)}, false)
	}
	s.end()
	s.attach(true, -1)
	var got []string
	for {
		e, n, ok := s.take(t.Context(), s.reader)
		if !ok {
			break
		}
		got = append(got, fmt.Sprintf("%d %.4s", n, e.data))
		e.hold.part()
	}
	if want := []string{"0 {}", `3 "aaa`}; !slices.Equal(got, want) {
		t.Errorf("whoever resumes reads %q, want %q", got, want)
	}
	if !s.last() {
		t.Error("the stream has not ended")
	}
}

// holding is a bridge before a server whose tool is done when it is told, and a session of it.
func holding(t *testing.T) (f front, session string, done chan<- string) {
	t.Helper()
	results := make(chan string, 1)
	f = behind(t, &saying{take: func(m jsonrpc.Message, say func(string)) {
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
		f.keepFinished(f.stream("", true, ""))
	}
	f.want(f.postLast(session, id), http.StatusMethodNotAllowed, "of no stream that can be resumed")
}

// Of what is kept for clients whose connections are dead one caller has half, and lets go of its own for more.
func TestACallerLeavesOthersWhatIsKept(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	kept := func(caller string) *stream {
		s := f.stream("", true, caller)
		f.keepFinished(s)
		return s
	}
	bobs := kept("bob")
	anns := kept("ann")
	for range maxKept {
		kept("ann")
	}
	if bobs.isFreed() || !anns.isFreed() || f.finished.Len() != 1+maxKept/2 {
		t.Errorf("bob's is gone: %t, ann's oldest is gone: %t, and %d are kept", bobs.isFreed(), anns.isFreed(),
			f.finished.Len())
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

// Of the streams of a session that are over the oldest give their room back.
func TestASessionKeepsItsLastStreams(t *testing.T) {
	s, all := &session{}, share.New(1000, 1000)
	for range maxFinished + 2 {
		to := &stream{replays: true, unread: unread{all, ""}, changed: make(chan struct{})}
		to.push(message(10), false)
		s.keep(to)
	}
	if len(s.streams) != maxFinished || !free(all, 1000-10*maxFinished) {
		t.Errorf("of %d streams the room is kept", len(s.streams))
	}
}

// Of what was written no more than maxReplay is kept, if anything is: who resumes before that hears what comes.
func TestAStreamThatKeepsNothingIsResumed(t *testing.T) {
	to, _ := apart(1<<20, true)
	to.push(message(maxReplay+1), false)
	if e, _, ok := to.take(t.Context(), to.attach(false, 0)); !ok || len(e.data) <= maxReplay || len(to.events) > 0 {
		t.Fatalf("%d bytes are written, and %d events kept", len(e.data), len(to.events))
	}
	by := to.attach(true, -1)
	to.push(message(1), false)
	if e, n, ok := to.take(t.Context(), by); !ok || len(e.data) != 1 || n != 1 {
		t.Errorf("event %d has %d bytes", n, len(e.data))
	}
}

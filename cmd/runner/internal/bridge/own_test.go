package bridge

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// programs start slowly: each answers what it has got, in order, once all are up.
type programs struct {
	up      chan struct{}
	answers func(m jsonrpc.Message) string // to a request; "" is none

	mu  sync.Mutex
	all []*program
}

type program struct {
	*wire
	of *programs
	in chan string

	mu  sync.Mutex
	got []string
}

func (p *programs) open() (Conn, error) {
	c := &program{wire: newWire(100), of: p, in: make(chan string, 100)}
	p.mu.Lock()
	p.all = append(p.all, c)
	p.mu.Unlock()
	go c.run()
	return c, nil
}

func (p *programs) started() []*program {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.all)
}

func (c *program) run() {
	select {
	case <-c.of.up:
	case <-c.over:
		return
	}
	for {
		var m jsonrpc.Message
		select {
		case line := <-c.in:
			_ = json.Unmarshal([]byte(line), &m)
		case <-c.over:
			return
		}
		c.mu.Lock()
		c.got = append(c.got, m.Method)
		c.mu.Unlock()
		if member := c.of.answers(m); m.ID != nil && member != "" {
			c.answer(m, member)
		}
	}
}

func (c *program) Send(_ context.Context, m []byte, _ *Waiting) error { c.in <- string(m); return nil }

func (c *program) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// legacyProgram answers as one of the legacy era that knows no server/discover.
func legacyProgram(m jsonrpc.Message) string {
	switch m.Method {
	case protocol.MethodDiscover:
		return `"error":{"code":-32601,"message":"unknown"}`
	case "initialize":
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"instructions":"for you","serverInfo":{"name":"slow","version":"1"}}`
	}
	return `"result":{"of":"` + m.Method + `"}`
}

func slowly(t *testing.T, answers func(jsonrpc.Message) string) (front, *programs) {
	t.Helper()
	p := &programs{up: make(chan struct{}), answers: answers}
	return serve(t, Config{Server: Server{Modern: true, Open: p.open, Junk: func() string { return "" }}}), p
}

var ownHello = strings.Replace(hello, `"name":"t"`, `"name":"`+protocol.OwnClient+`"`, 1)

// together asks all at a time, and returns when each of them has been sent.
func together(f front, bodies ...string) chan answer {
	answers := make(chan answer, len(bodies))
	for _, body := range bodies {
		go func() {
			if strings.Contains(body, protocol.MethodDiscover) {
				answers <- f.modernly("1", protocol.MethodDiscover, "")
				return
			}
			answers <- f.post(body)
		}()
	}
	return answers
}

// A program that starts slowly is started once, however often proxies ask meanwhile and after that; and for each
// client.
func TestTheQuestionsOfProxiesStartOneProgram(t *testing.T) {
	f, p := slowly(t, legacyProgram)
	go func() { _ = f.Start(t.Context()) }()
	answers := together(f, ownHello, ownHello, ownHello, protocol.MethodDiscover)
	select {
	case a := <-answers:
		t.Fatalf("HTTP %d %s, before the program is up", a.status, a.body)
	case <-time.After(2 * junkPause):
	}
	close(p.up)
	var sessions []string
	for range 4 {
		a := next(t, "answer", answers)
		if session := a.header.Get(protocol.HeaderSession); session != "" {
			f.want(a, http.StatusOK, `"protocolVersion":"2025-11-25"`, `"capabilities":{"tools":{}}`, `"name":"slow"`)
			sessions = append(sessions, session)
			continue
		}
		f.want(a, http.StatusBadRequest, `"code":-32022`)
	}
	if len(sessions) != 3 {
		t.Fatalf("%d sessions", len(sessions))
	}
	for _, session := range sessions {
		f.want(f.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, protocol.HeaderSession, session),
			http.StatusAccepted)
		f.want(f.call(session, "1", "ping"), http.StatusOK, `"result":{}`)
		f.want(f.call(session, "2", "tools/list"), http.StatusOK, `"id":2,"result":{"of":"tools/list"}`)
	}
	if n := len(p.started()); n != 1 {
		t.Fatalf("%d programs are started", n)
	}
	f.want(f.call(f.begin(), "1", "tools/list"), http.StatusOK, `"of":"tools/list"`)
	if n := len(p.started()); n != 2 {
		t.Errorf("with a client's own %d programs are started", n)
	}
	// What is not needed ends, and is there again when it is.
	f.sweepAt(time.Now().Add(ownIdle / 2))
	if p.started()[0].ended() {
		t.Error("it ends while it may still be asked")
	}
	f.sweepAt(time.Now().Add(2 * ownIdle))
	if !p.started()[0].ended() || p.started()[1].ended() {
		t.Error("another one ends than that for proxies")
	}
	within(t, time.Minute, "its end is known", func() bool { return len(f.starter.running()) == 1 })
	f.want(f.post(ownHello), http.StatusOK, `"name":"slow"`)
	f.want(f.call(sessions[0], "3", "ping"), http.StatusOK)
	if n := len(p.started()); n != 2 {
		t.Errorf("a question that is known starts one")
	}
	f.want(f.call(sessions[0], "4", "tools/list"), http.StatusOK, `"of":"tools/list"`)
	if n := len(p.started()); n != 3 {
		t.Errorf("%d programs are started", n)
	}
}

// What a program says to a client it says to the proxy.
func TestAClientsOwnInitializeAnswersTheProxys(t *testing.T) {
	f, p := slowly(t, func(m jsonrpc.Message) string {
		if m.Method == protocol.MethodDiscover {
			return ""
		}
		return legacyProgram(m)
	})
	answers := together(f, ownHello)
	within(t, time.Minute, "the proxy's question starts a program", func() bool { return len(p.started()) == 1 })
	close(p.up)
	f.begin()
	a := next(t, "answer", answers)
	f.want(a, http.StatusOK, `"name":"slow"`)
	if strings.Contains(a.body, "for you") {
		t.Error("the proxy is told what may be for one client")
	}
	if n := len(p.started()); n != 2 {
		t.Errorf("%d programs are started", n)
	}
}

// An answer in a revision that an old client asked for does not tell which one the program has.
func TestWhatAnOldClientIsToldIsNotAllThatIsKnown(t *testing.T) {
	f, p := slowly(t, func(m jsonrpc.Message) string {
		if asked := jsonrpc.TextAt(m.Params, "protocolVersion"); asked != "" {
			return strings.Replace(legacyProgram(m), protocol.Legacy, asked, 1)
		}
		return legacyProgram(m)
	})
	close(p.up)
	f.want(f.post(strings.Replace(hello, "2025-11-25", "2024-11-05", 1)), http.StatusOK, "2024-11-05")
	f.want(f.post(ownHello), http.StatusOK, `"protocolVersion":"2025-11-25"`)
}

// A client of the modern era waits for a slow start.
func TestAServerThatStartsSlowlySaysItsEra(t *testing.T) {
	bubble(t, legacyProgram, nil, func(f front, p *programs) {
		time.AfterFunc(13*time.Second, func() { close(p.up) })
		f.want(f.modernly("1", protocol.MethodDiscover, ""), http.StatusBadRequest, `"code":-32022`, `"supported":["2025-11-25"`)
	})
}

// A server of the legacy era need not answer a question that it does not know.
func TestAServerThatNeverSaysItsEra(t *testing.T) {
	silent := func(m jsonrpc.Message) string {
		if m.Method == protocol.MethodDiscover {
			return ""
		}
		return legacyProgram(m)
	}
	bubble(t, silent, nil, func(f front, p *programs) {
		close(p.up)
		began := time.Now()
		f.want(f.modernly("1", protocol.MethodDiscover, ""), http.StatusBadRequest, `"code":-32022`)
		if took := time.Since(began); took != discoverTime+besidesTime {
			t.Errorf("after %s", took)
		}
		a := f.post(ownHello)
		f.want(a, http.StatusOK, `"name":"slow"`)
		f.want(f.call(a.header.Get(protocol.HeaderSession), "1", "tools/list"), http.StatusOK)
		if n := len(p.started()); n != 1 {
			t.Errorf("%d programs are started", n)
		}
	})
}

// A server of the modern era that was asked for a session, too, because it started slowly, may take its connection for
// the other era.
func TestASlowServerOfTheModernEraIsAskedForNoSession(t *testing.T) {
	modern := func(m jsonrpc.Message) string {
		if m.Method == protocol.MethodDiscover {
			return `"result":{"supportedVersions":["2026-07-28"]}`
		}
		return `"result":{"of":"` + m.Method + `"}`
	}
	bubble(t, modern, nil, func(f front, p *programs) {
		time.AfterFunc(discoverTime+time.Second, func() {
			if all := p.started(); len(all) != 1 || len(all[0].in) != 2 {
				t.Error("it is not asked for a session")
			}
			close(p.up)
		})
		f.want(f.modernly("1", protocol.MethodDiscover, ""), http.StatusOK, "2026-07-28")
		f.want(f.modernly("2", "tools/list", ""), http.StatusOK, `"of":"tools/list"`)
		all := p.started()
		if len(all) != 2 || !all[0].ended() {
			t.Fatalf("%d programs are started", len(all))
		}
		all[1].mu.Lock()
		defer all[1].mu.Unlock()
		if slices.Contains(all[1].got, "initialize") {
			t.Errorf("the second gets %s", all[1].got)
		}
	})
}

// What is known is of no use once programs fail to start: the proxy is told why.
func TestWhatIsKnownIsForgottenWhenAStartFails(t *testing.T) {
	f, p := slowly(t, legacyProgram)
	close(p.up)
	f.want(f.post(ownHello), http.StatusOK)
	f.sweepAt(time.Now().Add(2 * ownIdle))
	f.starter.mu.Lock()
	f.starter.failed("", time.Now(), "exit status 3", nil)
	// it has failed more than once
	f.starter.pauses[""] = pause{lasts: lastPause, until: time.Now().Add(lastPause), why: "exit status 3"}
	f.starter.mu.Unlock()
	f.want(f.post(ownHello), http.StatusServiceUnavailable, "exit status 3")
}

// A server of the modern era alone refuses initialize, with the status that the revision in the header asks for.
func TestARefusedInitialize(t *testing.T) {
	f, p := slowly(t, func(jsonrpc.Message) string { return `"error":{"code":-32601,"message":"unknown"}` })
	close(p.up)
	f.want(f.post(hello), http.StatusOK, `"code":-32601`)
	f.want(f.post(hello, protocol.HeaderVersion, protocol.Modern), http.StatusNotFound, `"code":-32601`)
}

// Who calls with a proxy's name shares no program, neither with proxies nor with another who does.
func TestACallerOfAProxysNameHasAProgramApart(t *testing.T) {
	ps := &programs{up: make(chan struct{}), answers: func(m jsonrpc.Message) string {
		if m.Method == protocol.MethodDiscover {
			return `"error":{"code":-32601,"message":"no"}`
		}
		return `"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"p","version":"1"}}`
	}}
	close(ps.up)
	f := serve(t, Config{Server: Server{Modern: true, Junk: func() string { return "" }, Open: ps.open}})
	own := strings.Replace(hello, `"name":"t"`, `"name":"`+protocol.OwnClient+`"`, 1)
	for _, caller := range []string{"ann", "bob", ""} {
		id := f.post(own, protocol.HeaderCaller, caller).header.Get(protocol.HeaderSession)
		f.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+caller+`"}}`, protocol.HeaderSession, id,
			protocol.HeaderCaller, caller)
	}
	calls := 0
	for _, p := range ps.started() {
		p.mu.Lock()
		n := len(slices.DeleteFunc(slices.Clone(p.got), func(method string) bool { return method != "tools/call" }))
		p.mu.Unlock()
		if calls += n; n > 1 {
			t.Errorf("a program has the calls of %d callers", n)
		}
	}
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
}

// A ping asks whether the program answers that all share: one that has ended is started for it, and where it cannot be,
// the proxy is told why. Where each session has a program none is started for a ping.
func TestAPingAsksTheSharedProgram(t *testing.T) {
	const ping = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for _, shared := range []bool{true, false} {
		p := &programs{up: make(chan struct{}), answers: legacyProgram}
		close(p.up)
		f := serve(t, Config{Shared: shared, Server: Server{Modern: true, Open: p.open, Junk: func() string { return "" }}})
		id := f.post(ownHello).header.Get(protocol.HeaderSession)
		end := func() {
			f.sharing.Lock()
			all := f.shared
			f.sharing.Unlock()
			for _, c := range p.started() {
				c.End()
			}
			if all != nil {
				<-all.peer.done
			}
		}
		end()
		before := len(p.started())
		f.want(f.post(ping, protocol.HeaderSession, id), http.StatusOK, `"result"`)
		if n := len(p.started()) - before; shared && n != 1 || !shared && n != 0 {
			t.Errorf("shared %t: a ping starts %d programs", shared, n)
		}
		end()
		f.starter.mu.Lock()
		f.starter.failed("", time.Now(), "exit status 3", nil)
		f.starter.pauses[""] = pause{lasts: lastPause, until: time.Now().Add(lastPause), why: "exit status 3"}
		f.starter.mu.Unlock()
		if shared {
			f.want(f.post(ping, protocol.HeaderSession, id), http.StatusServiceUnavailable, "exit status 3")
		}
	}
}

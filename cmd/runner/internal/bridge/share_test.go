package bridge

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// A caller that begins sessions without end has half of them: it ends its own idle ones, and nobody else's.
func TestACallerEndsNoSessionOfOthers(t *testing.T) {
	f := serve(t, Config{Server: child(""), Sessions: 4})
	by := func(caller string) answer { return f.post(hello, protocol.HeaderCaller, caller) }
	quiet := by("ann").header.Get(protocol.HeaderSession)
	f.want(by("mallory"), http.StatusOK)
	f.want(by("mallory"), http.StatusOK)
	f.want(by("mallory"), http.StatusServiceUnavailable, "-31008", "this caller has 2 of 4 sessions")
	f.age()
	s := f.sessions.Get(quiet)
	s.mu.Lock()
	s.used = time.Now().Add(-3 * makeRoom) // the idlest of all
	s.mu.Unlock()
	for range 3 {
		f.want(by("mallory"), http.StatusOK)
		f.age()
	}
	f.want(f.call(quiet, "1", "pid"), http.StatusOK, "result")
	f.want(by("bob"), http.StatusOK)
	if n := f.sessions.Len(); n != 4 {
		t.Errorf("there are %d sessions", n)
	}
}

// age has all sessions be idle for longer.
func (f front) age() {
	f.sessions.Each(func(s *session) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.used = s.used.Add(-2 * makeRoom)
	})
}

// Nor are all bytes of bodies one caller's.
func TestACallerLeavesOthersTheirBodies(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	if _, err := f.inFlight.Take("mallory", int64(share.Half(maxInFlight))); err != nil {
		t.Fatal(err)
	}
	f.want(f.post(hello, protocol.HeaderCaller, "mallory"), http.StatusServiceUnavailable, "-31008",
		"33554432 of this caller")
	f.want(f.post(hello, protocol.HeaderCaller, "ann"), http.StatusOK)
}

// Calls and subscriptions of one caller leave others their places with a server that all share.
func TestACallerLeavesOthersTheirCalls(t *testing.T) {
	for _, method := range []string{"other", protocol.MethodListen} {
		t.Run(method, func(t *testing.T) {
			s := sharedBy(t, true)
			mallory, ann := s.client(), s.client()
			mallory.headers = append(mallory.headers, protocol.HeaderCaller, "mallory")
			ann.headers = append(ann.headers, protocol.HeaderCaller, "ann")
			for i := range share.Half(maxCalls) {
				mallory.calls(t.Context(), fmt.Sprint(i), method, `"notifications":{}`)
				s.reads(t)
			}
			s.want(mallory.sends("1000", method, `"notifications":{}`), http.StatusServiceUnavailable, "-31008",
				"of this caller wait")
			answered := ann.calls(t.Context(), "1", method, `"notifications":{}`)
			select {
			case a := <-answered:
				t.Fatalf("HTTP %d %s", a.status, a.body)
			case m := <-s.got:
				s.answer(m, `"result":{}`)
			}
			s.want(next(t, "answer", answered), http.StatusOK, "result")
		})
	}
}

// crashing is a server that ends at what a client writes of itself.
type crashing struct{ *scripted }

func (c crashing) Send(ctx context.Context, line []byte, waits *Waiting) error {
	if bytes.Contains(line, []byte("crash")) {
		c.End()
		return nil
	}
	return c.scripted.Send(ctx, line, waits)
}

// A caller at whose initialize the server ends waits for the next start, and no other does.
func TestACallerDelaysNoStartOfOthers(t *testing.T) {
	f := serve(t, Config{Server: Server{
		Junk: func() string { return "" },
		Open: func() (Conn, error) { return crashing{script()}, nil },
	}})
	by := func(caller, body string) answer { return f.post(body, protocol.HeaderCaller, caller) }
	f.want(by("mallory", strings.Replace(hello, `"t"`, `"crash"`, 1)), http.StatusBadGateway, "-31006",
		`before it answered (the end)"`)
	// noted waits until a pause is noted, and has it end after a time.
	noted := func(caller string, ends time.Duration) {
		t.Helper()
		within(t, time.Minute, "a pause of "+caller, func() bool {
			f.starter.mu.Lock()
			defer f.starter.mu.Unlock()
			p, ok := f.starter.pauses[caller]
			p.until = time.Now().Add(ends)
			if ok {
				f.starter.pauses[caller] = p
			}
			return ok
		})
	}
	noted("mallory", time.Hour)
	f.want(by("ann", hello), http.StatusOK)
	f.want(by("mallory", hello), http.StatusServiceUnavailable, "-31008", "the end")
	noted("mallory", -time.Second)
	f.want(by("mallory", hello), http.StatusOK)
	within(t, time.Minute, "the pause is forgotten at the first word", func() bool {
		f.starter.mu.Lock()
		defer f.starter.mu.Unlock()
		return len(f.starter.pauses) == 0
	})
	// Nor are those remembered who do not come back.
	f.want(by("mallory", strings.Replace(hello, `"t"`, `"crash"`, 1)), http.StatusBadGateway)
	noted("mallory", -2*lastPause)
	f.want(by("eve", strings.Replace(hello, `"t"`, `"crash"`, 1)), http.StatusBadGateway)
	noted("eve", 0)
	f.starter.mu.Lock()
	defer f.starter.mu.Unlock()
	if len(f.starter.pauses) != 1 {
		t.Errorf("%d pauses are remembered", len(f.starter.pauses))
	}
}

// One start is for all who wait for the server that they share, also where who asked first has left.
func TestAStartIsForAllWhoWaitForIt(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("fails %t", fails), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &programs{up: make(chan struct{}), answers: legacyProgram}
				b := New(Config{
					Shared: true, Log: slog.New(slog.DiscardHandler),
					Server: Server{Open: p.open, Junk: func() string { return "" }},
				})
				defer b.Close()
				told := make(chan *jsonrpc.Fault)
				asks := func(ctx context.Context) {
					_, f := b.open(ctx, "", false, b.stream(standingID, true, ""))
					told <- f
				}
				ctx, leave := context.WithCancel(t.Context())
				go asks(ctx)
				synctest.Wait()
				for range 3 {
					go asks(t.Context())
				}
				synctest.Wait()
				leave()
				if f := <-told; f == nil || f.Code != CodeBusy {
					t.Errorf("who has left is told %v", f)
				}
				synctest.Wait()
				if fails {
					p.started()[0].End()
				}
				close(p.up)
				for range 3 {
					if f := <-told; fails != (f != nil && f.Code == CodeServerEnded &&
						strings.Contains(f.Message, "before it answered (the end)")) {
						t.Errorf("who waits is told %v", f)
					}
				}
				if n := len(p.started()); n != 1 {
					t.Errorf("%d programs are started", n)
				}
				go asks(t.Context())
				if f := <-told; f != nil {
					t.Errorf("who comes later is told %s", f.Message)
				}
			})
		})
	}
}

// Without a login a caller is anybody, and one at whose initialize the server ends keeps nobody out.
func TestAStartThatFailedIsNotHeldAgainstTheNext(t *testing.T) {
	f := serve(t, Config{Server: Server{
		Junk: func() string { return "" },
		Open: func() (Conn, error) { return crashing{script()}, nil },
	}})
	f.want(f.post(strings.Replace(hello, `"t"`, `"crash"`, 1)), http.StatusBadGateway, "-31006")
	f.want(f.post(hello), http.StatusOK, `"name":"x"`)
}

func TestStartsThatFailTogetherCountAsOne(t *testing.T) {
	s, began := &starter{}, time.Now()
	for range 5 {
		s.failed("", began, "the end", nil)
	}
	if got := s.pauses[""].lasts; got != firstPause {
		t.Errorf("the next start waits for %s", got)
	}
}

func TestPausesGrowToTheLongest(t *testing.T) {
	t.Parallel()
	for longest, want := range map[time.Duration]time.Duration{0: lastPause, 2 * time.Second: 2 * time.Second} {
		s := &starter{server: Server{LongestPause: longest}}
		for range 10 {
			began := time.Now()
			if p, some := s.pauses[""]; some {
				p.until = began // it is over
				s.pauses[""] = p
			}
			s.failed("", began, "it does not answer", nil)
		}
		if got := s.pauses[""].lasts; got != want {
			t.Errorf("with %s it is %s, not %s", longest, got, want)
		}
	}
}

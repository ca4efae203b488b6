package bridge

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// What a slow client has sent so far is counted, too, and it gets its answer while it
// still sends.
func TestBodiesAreCountedAsTheyCome(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	leave, err := f.inFlight.Take("", maxInFlight-10)
	if err != nil {
		t.Fatal(err)
	}
	body, send := io.Pipe()
	t.Cleanup(func() { _ = send.Close() })
	go func() { _, _ = io.WriteString(send, hello) }() // and no end
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("HTTP %d, %v", response.StatusCode, response.Header)
	}
	leave()
	f.want(f.post(hello), http.StatusOK)
	within(t, time.Minute, "nothing is in flight",
		func() bool { _, err := f.inFlight.Take("", maxInFlight); return err == nil })
}

// A body that comes byte by byte costs no more to count than what it is.
func TestABodyOfManyPiecesIsCountedCheaply(t *testing.T) {
	const size = 100 * leastTaken
	all := share.New(maxInFlight, share.Half(maxInFlight))
	c := &counted{from: iotest.OneByteReader(strings.NewReader(strings.Repeat("x", size))), all: all, caller: "mallory"}
	if body, err := io.ReadAll(c); err != nil || len(body) != size {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	if len(c.taken) != 100 {
		t.Errorf("%d pieces are remembered", len(c.taken))
	}
	if _, err := all.Take("", maxInFlight-size+1); err == nil {
		t.Error("less is counted than was read")
	}
	c.leave()
	if _, err := all.Take("", maxInFlight); err != nil {
		t.Error(err)
	}
}

// Only a client that asks for a stream by its name starts a server with a GET.
func TestWhatStartsNoServer(t *testing.T) {
	f := serve(t, Config{Server: Server{Open: func() (Conn, error) {
		t.Error("a server was started")
		return nil, errors.New("not here")
	}, Junk: func() string { return "" }}})
	for name, tc := range map[string]struct {
		method, accept, version string
		status                  int
	}{
		"a probe":               {http.MethodGet, "*/*", "", http.StatusNotAcceptable},
		"a browser":             {http.MethodGet, "text/html,application/xml;q=0.9,*/*;q=0.8", "", http.StatusNotAcceptable},
		"none":                  {http.MethodGet, "", "", http.StatusNotAcceptable},
		"the modern era":        {http.MethodGet, "text/event-stream", protocol.Modern, http.StatusMethodNotAllowed},
		"its end of no session": {http.MethodDelete, "*/*", protocol.Modern, http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			response := front{f.Bridge, t, f.url}.do(tc.method, "", "Accept", tc.accept, protocol.HeaderVersion, tc.version)
			defer response.Body.Close()
			if response.StatusCode != tc.status {
				t.Errorf("HTTP %d", response.StatusCode)
			}
			if allow := response.Header.Get("Allow"); tc.status == http.StatusMethodNotAllowed && allow != http.MethodPost {
				t.Errorf("Allow: %s", allow)
			}
		})
	}
}

// A server that starts slowly may speak the era; one that never answers the question
// is of the legacy one.
func TestAServerThatHasNotSaidItsEra(t *testing.T) {
	bubble(t, legacyProgram, nil, func(f front, _ *programs) {
		ask := func() (*peer, *jsonrpc.Fault) {
			ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
			defer cancel()
			return f.modern.server(ctx)
		}
		if p, fault := ask(); p != nil || fault == nil || fault.Code != CodeBusy ||
			fault.Status != http.StatusServiceUnavailable {
			t.Errorf("%v, %v", p, fault)
		}
		time.Sleep(firstWords)
		if p, fault := ask(); p != nil || fault != nil {
			t.Errorf("%v, %v", p, fault)
		}
	})
}

// What a server has said of its era is not asked for again, however long ago it was.
func TestAServerOfTheModernEraStaysOne(t *testing.T) {
	f := serve(t, Config{Server: child("modern")})
	f.want(f.modernly("1", "pid", ""), http.StatusOK, `"id":1`)
	f.modern.all.peer.started = time.Now().Add(-2 * firstWords)
	for range 50 {
		f.want(f.modernly("1", "pid", ""), http.StatusOK, `"id":1`)
	}
}

// Many clients leave without ending their session: they close the stream that they held open. One that closes it and
// asks on has not left.
func TestASessionWhoseClientHasLeftEndsSooner(t *testing.T) {
	for name, tc := range map[string]struct {
		set            time.Duration
		streams, calls bool // before the wait
		lasts          time.Duration
	}{
		"it has left":               {0, true, false, LeftTime},
		"it asks on":                {0, true, true, IdleTime},
		"it never held one":         {0, false, true, IdleTime},
		"as the spec says":          {2 * time.Minute, true, false, 2 * time.Minute},
		"as the spec says, no left": {time.Hour, true, false, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, Config{Server: child(""), Idle: tc.set})
			id := f.begin()
			kept := func() (found *session) {
				f.sessions.Each(func(s *session) { found = s })
				return found
			}
			if tc.streams {
				f.do(http.MethodGet, "", protocol.HeaderSession, id).Body.Close()
				within(t, time.Minute, "its end is noticed", func() bool { s := kept(); return s.standing.idle() && s.isLeft() })
			}
			if tc.calls {
				f.want(f.call(id, "1", "pid"), http.StatusOK)
			}
			f.sweepAt(time.Now().Add(tc.lasts - time.Second))
			if kept() == nil {
				t.Errorf("it ends before %s", tc.lasts)
			}
			f.sweepAt(time.Now().Add(tc.lasts + time.Second))
			if kept() != nil {
				t.Errorf("it lasts longer than %s", tc.lasts)
			}
		})
	}
}

func (s *session) isLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.left
}

// mute is a server that never answers.
type mute struct {
	*wire
	asked chan struct{}
}

func newMute() mute { return mute{newWire(0), make(chan struct{}, 10)} }

func (c mute) Send(context.Context, []byte, *Waiting) error { c.asked <- struct{}{}; return nil }

// A server that ends at the question for its era is started again after a pause.
func TestAnEndAtTheQuestionIsNoted(t *testing.T) {
	c := newMute()
	f := serve(t, Config{Server: Server{
		Modern: true, Open: func() (Conn, error) { return c, nil },
		Junk: func() string { return "" },
	}})
	answered := make(chan struct{})
	go func() { _, _ = f.modern.server(t.Context()); close(answered) }()
	<-c.asked
	c.End()
	<-answered
	f.starter.mu.Lock()
	defer f.starter.mu.Unlock()
	if why := f.starter.pauses[""].why; why != "the end" {
		t.Errorf("noted is %q", why)
	}
}

// A server that is slow to connect to holds up nothing else, and failures at a time are
// one.
func TestASlowConnectionHoldsUpNothing(t *testing.T) {
	opens, let := make(chan struct{}, 2), make(chan struct{})
	f := serve(t, Config{Server: Server{Open: func() (Conn, error) {
		opens <- struct{}{}
		<-let
		return nil, errors.New("not now")
	}, Junk: func() string { return "" }}})
	answers := make(chan answer, 2)
	for range 2 {
		go func() { answers <- f.post(hello) }()
	}
	drained := make(chan struct{})
	go func() {
		<-opens
		<-opens
		f.Drain()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(time.Minute):
		t.Error("a connection waits for another, or the drain for it")
	}
	close(let)
	for range 2 {
		f.want(<-answers, http.StatusBadGateway, "not now")
	}
	if lasts := f.starter.pauses[""].lasts; lasts != firstPause {
		t.Errorf("the pause is %s", lasts)
	}
}

// What the drain has left is for ending the servers in order, and none of it for the first
// words of one.
func TestTheEndWaitsForNoFirstWords(t *testing.T) {
	c := newMute()
	f := serve(t, Config{
		Shared: true,
		Server: Server{Open: func() (Conn, error) { return c, nil }, Junk: func() string { return "" }},
	})
	t.Cleanup(c.End) // also where the test fails
	answered := make(chan answer, 1)
	go func() { answered <- f.post(hello) }()
	next(t, "initialize", c.asked)
	began, closed := time.Now(), make(chan struct{})
	go func() { f.Close(); close(closed) }()
	next(t, "end of the bridge", closed)
	if took := time.Since(began); took > firstWords/2 {
		t.Errorf("after %s", took)
	}
	next(t, "end of the server", c.over)
	f.want(next(t, "answer", answered), http.StatusBadGateway, "-31006")
}

// What is opened while the bridge ends, ends with it.
func TestTheEndIsOfALateConnection(t *testing.T) {
	c, opens, let := newMute(), make(chan struct{}), make(chan struct{})
	s := &starter{
		log:    slog.New(slog.DiscardHandler),
		server: Server{Open: func() (Conn, error) { opens <- struct{}{}; <-let; return c, nil }},
	}
	refused := make(chan *jsonrpc.Fault)
	open := func() { _, f := s.open(t.Context(), "", oneSession, func(*peer, jsonrpc.Message) {}); refused <- f }
	go open()
	next(t, "start", opens)
	s.close()
	close(let)
	for range 2 {
		if f := next(t, "answer", refused); f == nil || f.Code != CodeBusy {
			t.Errorf("it gets %v", f)
		}
		go open() // that one starts nothing
	}
	<-refused
	next(t, "end of the connection", c.over)
}

// A process takes as much memory while it ends as before, and some take their time.
func TestAProcessHasItsPlaceUntilItHasEnded(t *testing.T) {
	one := func(c *Config, p *programs) {
		close(p.up)
		c.Sessions, c.Server.Open = 1, func() (Conn, error) {
			conn, err := p.open()
			return stubborn{conn}, err
		}
	}
	bubble(t, legacyProgram, one, func(f front, _ *programs) {
		session := f.begin()
		for what, end := range map[string]func(){
			"an end":     func() { f.do(http.MethodDelete, "", protocol.HeaderSession, session).Body.Close() },
			"a newcomer": func() { f.sessions.Get(session).used = time.Now().Add(-2 * makeRoom) },
		} {
			end()
			session = f.begin()
			if n := len(f.starter.running()); n != 1 {
				t.Errorf("after %s %d processes run", what, n)
			}
		}
		f.want(f.post(hello), http.StatusServiceUnavailable, "-31008", "all 1 sessions of this pod are in use")
	})
}

// stubborn is a connection that needs a while to end.
type stubborn struct{ Conn }

func (s stubborn) End() { time.AfterFunc(5*time.Second, s.Conn.End) }

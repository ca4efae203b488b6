package bridge

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// lines are what is logged, and written while it is read.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) have(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		has := 0
		for _, part := range parts {
			if strings.Contains(line, part) {
				has++
			}
		}
		if has == len(parts) {
			return true
		}
	}
	return false
}

// Whoever reads the log learns when a server began and ended, why, and whether that was to be.
func TestStartsAndEndsAreLogged(t *testing.T) {
	for how, ends := range map[string][]string{
		"":      {`"level":"INFO"`},
		"crash": {`"level":"WARN"`, `"detail":"exit status 3"`},
	} {
		log := &lines{}
		b := New(Config{Server: child(how), Log: slog.New(slog.NewJSONHandler(log, nil))})
		t.Cleanup(func() { b.Close(); b.Wait(10 * time.Second) })
		p, f := b.starter.open(t.Context(), "", oneSession, func(*peer, jsonrpc.Message) {})
		if f != nil {
			t.Fatal(f)
		}
		within(t, time.Minute, "the start is logged",
			func() bool { return log.have(`"msg":"server started"`, `"for":"a session"`) })
		if how == "" {
			p.stop()
		}
		within(t, time.Minute, "the end is logged",
			func() bool { return log.have(append(ends, `"msg":"server ended"`, `"lived":`)...) })
	}
}

// The first of a server tells its era, and then serves whom it is good for.
func TestTheLogSaysWhatAServerIsFor(t *testing.T) {
	for ends, tc := range map[string]struct {
		shared  bool
		answers func(jsonrpc.Message) string
	}{
		`"for":"what proxies ask"`: {false, legacyProgram},
		`"for":"all sessions"`:     {true, legacyProgram},
		`"for":"requests without a session"`: {
			false,
			func(jsonrpc.Message) string { return `"result":{"supportedVersions":["2026-07-28"]}` },
		},
	} {
		log, p := &lines{}, &programs{up: make(chan struct{}), answers: tc.answers}
		close(p.up)
		b := New(Config{
			Shared: tc.shared, Server: Server{Modern: true, Open: p.open, Junk: func() string { return "" }},
			Log: slog.New(slog.NewJSONHandler(log, nil)),
		})
		if _, f := b.modern.server(t.Context()); f != nil {
			t.Error(f)
		}
		b.Close()
		within(t, time.Minute, "the end is logged", func() bool { return log.have(`"msg":"server ended"`, ends) })
		if !log.have(`"msg":"server started"`, `"for":"its era"`) {
			t.Error(log.text.String())
		}
	}
}

func TestTheEndOfIdleSessionsIsLogged(t *testing.T) {
	log := &lines{}
	f := serve(t, Config{Server: child("")})
	f.config.Log = slog.New(slog.NewJSONHandler(log, nil))
	f.begin()
	f.begin()
	f.sweepAt(time.Now().Add(2 * IdleTime))
	if !log.have(`"msg":"idle sessions ended"`, `"sessions":2`) {
		t.Error(log.text.String())
	}
}

// Whoever is told of a crash may end the session before the log has it.
func TestACrashIsLoggedAsOneThoughItsSessionIsEndedThen(t *testing.T) {
	c := newPipe(t)
	p := newPeer(c, true, func(jsonrpc.Message) {}, func(p *peer) { p.stop() })
	c.End()
	<-p.done
	if p.stopped.Load() {
		t.Error("it is noted as ended by the bridge")
	}
}

func TestCallsOfAServerWhoseLineDoesNotEndFail(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	f.wantFailed(f.call(f.begin(), "1", "endless"), "-31006", "its standard output has a line that does not end")
}

package bridge

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
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
	for how, ends := range map[string][]string{"": {`"level":"INFO"`}, "crash": {`"level":"WARN"`, `"detail":"exit status 3"`}} {
		log := &lines{}
		b := New(Config{Server: child(how), Log: slog.New(slog.NewJSONHandler(log, nil))})
		t.Cleanup(func() { b.Close(); b.Wait(10 * time.Second) })
		p, f := b.starter.open("", true, func(*peer, said) {})
		if f != nil {
			t.Fatal(f)
		}
		within(t, time.Minute, "the start is logged", func() bool { return log.have(`"msg":"server started"`, `"shared":false`) })
		if how == "" {
			p.stop()
		}
		within(t, time.Minute, "the end is logged", func() bool { return log.have(append(ends, `"msg":"server ended"`, `"lived":`)...) })
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
	c := &pipe{says: make(chan string), sent: make(chan string, 1)}
	p := newPeer(c, true, func(said) {}, func(p *peer) { p.stop() })
	close(c.says)
	<-p.done
	if p.stopped.Load() {
		t.Error("it is noted as ended by the bridge")
	}
}

func TestCallsOfAServerWhoseLineDoesNotEndFail(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	f.wantFailed(f.call(f.begin(), "1", "endless"), "-31006", "its standard output has a line that does not end")
}

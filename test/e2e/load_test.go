package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// load calls a server of testdata/tools as clients of both eras do until it is told to stop, and remembers what
// answered.
type load struct {
	stop context.CancelFunc
	done sync.WaitGroup
	mu   sync.Mutex
	// answers are those to calls that need no session, and to what begins a session with its first call.
	answers []answered
	// ends are those of sessions that the server ended.
	ends []answered
	// inSessions are how many later calls of sessions were answered.
	inSessions int
	wrong      []string
}

// answered is which round answered between two times.
type answered struct {
	round        int
	begun, ended time.Time
}

// load begins when the first call is answered.
func (s story) load(ctx context.Context) *load {
	GinkgoHelper()
	url := s.server(ctx).Status.URL
	running, stop := context.WithCancel(ctx)
	l, modern := &load{stop: stop}, modernWays()
	DeferCleanup(l.end)
	Eventually(ctx, func() (string, error) { return modern[0].call(ctx, url, nil) }).Should(Equal("answer"))
	for _, w := range modern {
		l.work(running, func() { l.callOnce(ctx, w, url) })
		l.work(running, func() { l.liveSession(ctx, running, url) })
	}
	return l
}

// pause is how long a client waits between two calls.
const pause = 40 * time.Millisecond

func (l *load) work(running context.Context, do func()) {
	l.done.Go(func() {
		for ; running.Err() == nil; time.Sleep(pause) {
			do()
		}
	})
}

func (l *load) callOnce(ctx context.Context, w way, url string) {
	begun := time.Now()
	got, err := w.ask(ctx, url, nil)
	if err == nil && got.Error != nil {
		err = fmt.Errorf("got the error %q", got.Error.Message)
	}
	l.note(begun, string(got.Result), err)
}

// liveSession calls in one session until the server ends that, or the load is told to stop.
func (l *load) liveSession(ctx, running context.Context, url string) {
	begun := time.Now()
	session, err := begin(ctx, url)
	text := ""
	if err == nil {
		text, err = session.call(ctx)
	}
	round := l.note(begun, text, err)
	for round > 0 && running.Err() == nil {
		time.Sleep(pause)
		called := time.Now()
		if text, err = session.call(ctx); err == nil {
			l.noteInSession(called, round, text)
			continue
		}
		if gone, _ := unknownSession.Match(err.Error()); !gone {
			l.note(called, "", err)
			continue // it may go on
		}
		l.mu.Lock()
		l.ends = append(l.ends, answered{round, begun, time.Now()})
		l.mu.Unlock()
		return
	}
}

var roundSaid = regexp.MustCompile(`round (\d+)\.`)

// roundOf is the round that answered, 0 where none did.
func roundOf(text string) int {
	found := roundSaid.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	round, _ := strconv.Atoi(found[1]) // digits
	return round
}

// note remembers an answer, and returns its round.
func (l *load) note(begun time.Time, text string, err error) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	round := roundOf(text)
	switch {
	case err != nil:
		l.wrong = append(l.wrong, fmt.Sprintf("%s %s", begun.Format(time.StampMilli), err))
	case round == 0:
		l.wrong = append(l.wrong, fmt.Sprintf("%s %q is no answer", begun.Format(time.StampMilli), text))
	default:
		l.answers = append(l.answers, answered{round, begun, time.Now()})
	}
	return round
}

func (l *load) noteInSession(called time.Time, round int, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inSessions++; roundOf(text) != round {
		l.wrong = append(l.wrong,
			fmt.Sprintf("%s a session of round %d got %q", called.Format(time.StampMilli), round, text))
	}
}

// end stops the calls and waits for the last.
func (l *load) end() {
	l.stop()
	l.done.Wait()
}

// judged ends the calls, none of which went wrong.
func (l *load) judged(turns []turn) {
	GinkgoHelper()
	l.end()
	AddReportEntry(l.String())
	Expect(l.judge(turns)).To(BeEmpty())
}

// told says how far it is.
func (l *load) told(at turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	GinkgoWriter.Printf("%s round %d has had the calls since %s: %s\n", time.Now().Format(time.TimeOnly), at.round,
		at.since.Format(time.TimeOnly), l)
}

func (l *load) String() string {
	return fmt.Sprintf("%d answers without a session, %d more in sessions of which %d were ended; wrong: %q",
		len(l.answers), l.inSessions, len(l.ends), l.wrong)
}

// judge says what was wrong: a call that failed, or was answered by a round before it had got the calls or after all
// proxies called the next; a session that was ended before its time, or not at all.
func (l *load) judge(turns []turn) []string {
	wrong := slices.Clone(l.wrong)
	after := func(round int) *turn {
		if i := slices.IndexFunc(turns, func(t turn) bool { return t.round == round }); i >= 0 && i+1 < len(turns) {
			return &turns[i+1]
		}
		return nil
	}
	for _, a := range l.answers {
		i := slices.IndexFunc(turns, func(t turn) bool { return t.round == a.round })
		next := after(a.round)
		if i < 0 || a.ended.Before(turns[i].since) || next != nil && a.begun.After(next.acknowledged) {
			wrong = append(wrong, fmt.Sprintf("round %d answered what was asked from %s to %s", a.round,
				a.begun.Format(time.StampMilli), a.ended.Format(time.StampMilli)))
		}
	}
	ended := map[int]bool{}
	for _, e := range l.ends {
		ended[e.round] = true
		if next := after(e.round); next == nil || e.ended.Before(next.since.Add(sessionsEnd)) {
			wrong = append(wrong, fmt.Sprintf("a session of round %d ended at %s", e.round, e.ended.Format(time.StampMilli)))
		}
	}
	for _, t := range turns {
		if after(t.round) != nil && !ended[t.round] {
			wrong = append(wrong, fmt.Sprintf("no session of round %d has ended", t.round))
		}
	}
	if len(wrong) > 0 {
		wrong = append(wrong, fmt.Sprintf("turns were %+v", turns))
	}
	return wrong
}

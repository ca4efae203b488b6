package stdio

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/stdio/stdiotest"
)

func TestMain(m *testing.M) {
	stdiotest.Main()
	os.Exit(m.Run())
}

// start starts a server that behaves in a way, and ends it with the test.
func start(t *testing.T, how string, junk func([]byte)) *Process {
	t.Helper()
	args, env := stdiotest.Command(how)
	p, err := Command{Args: args, Env: env, Words: NewWords(io.Discard), Junk: junk}.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.End()
		p.Why()
	})
	return p
}

// ask sends a request and returns the next message.
func ask(t *testing.T, p *Process, method string) string {
	t.Helper()
	if err := p.Send(t.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q}`, method)); err != nil {
		t.Fatal(err)
	}
	line, err := p.Receive()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func within(t *testing.T, most time.Duration, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(most); !happened(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within " + most.String() + ": " + what)
		}
	}
}

func TestMessagesPass(t *testing.T) {
	p := start(t, "", nil)
	if got := ask(t, p,
		"x"); got != `{"jsonrpc":"2.0","id":1,"result":"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}"}` {
		t.Error(got)
	}
}

func TestAMessageOf4MiBPassesAndALongerOneIsAnError(t *testing.T) {
	p := start(t, "", nil)
	if got := ask(t, p, fmt.Sprintf("big %d", MaxMessage)); len(got) != MaxMessage {
		t.Errorf("got %d bytes", len(got))
	}
	for _, size := range []int{MaxMessage + 1, 3 * MaxMessage} {
		if err := p.Send(t.Context(), fmt.Appendf(nil, `{"jsonrpc":"2.0","id":7,"method":"big %d"}`, size)); err != nil {
			t.Fatal(err)
		}
		_, err := p.Receive()
		var tooLong *TooLong
		if !errors.As(err, &tooLong) || !bytes.HasPrefix(tooLong.Begin, []byte(`{"jsonrpc":"2.0","id":7,`)) ||
			!bytes.HasSuffix(bytes.TrimSpace(tooLong.End), []byte(`x"}`)) {
			t.Errorf("%d bytes: %v %+v", size, err, tooLong)
		}
		if got := ask(t, p, "x"); !strings.Contains(got, `"result"`) {
			t.Errorf("the next message: %s", got)
		}
	}
	if got := cap(p.lines.buffer); got > keep {
		t.Errorf("an idle child keeps %d bytes", got)
	}
}

func TestWhatIsNoMessageIsToldAndPassedOver(t *testing.T) {
	var junk []string
	p := start(t, "junk", func(line []byte) { junk = append(junk, string(line)) })
	if got := ask(t, p, "x"); !strings.Contains(got, `"result"`) {
		t.Error(got)
	}
	if diff := cmp.Diff([]string{"Welcome to the server!"}, junk); diff != "" {
		t.Error(diff)
	}
}

func TestHowAChildEndedIsTold(t *testing.T) {
	for how, want := range map[string]string{"crash": "exit status 3", "": "exit code 0"} {
		p := start(t, how, nil)
		if how == "" {
			p.End()
		}
		if _, err := p.Receive(); !errors.Is(err, ErrEnded) {
			t.Errorf("%q: %v", how, err)
		}
		if got := p.Why(); got != want {
			t.Errorf("%q: %s", how, got)
		}
		if err := p.Send(t.Context(), []byte("{}")); !errors.Is(err, ErrEnded) {
			t.Errorf("%q: sending: %v", how, err)
		}
	}
}

func TestAProgramThatIsNotThereCannotBeStarted(t *testing.T) {
	const times = 50 // children of other tests may still let go of some descriptors
	before := descriptors(t)
	for range times {
		if _, err := (Command{Args: []string{"/no/such/program"}, Words: NewWords(io.Discard)}).
			Start(); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("%v", err)
		}
	}
	if after := descriptors(t); after-before >= times {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// A child that ends leaves others behind that hold its pipes.
func TestAGroupEndsWhole(t *testing.T) {
	for _, end := range []string{"by itself", "when told"} {
		t.Run(end, func(t *testing.T) {
			p := start(t, "", nil)
			var answer struct{ Result []int }
			if err := json.Unmarshal([]byte(ask(t, p, "fork")), &answer); err != nil || len(answer.Result) != 4 {
				t.Fatal(err, answer)
			}
			if end == "by itself" {
				_ = p.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"exit"}`))
			} else {
				p.End()
			}
			if _, err := p.Receive(); !errors.Is(err, ErrEnded) {
				t.Error(err)
			}
			for _, pid := range answer.Result {
				within(t, time.Minute, "its process ends", func() bool { return gone(pid) })
			}
		})
	}
}

// gone reports whether a process does nothing any more: an orphan of this program may
// stay as a zombie where nobody reaps.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.HasPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" Z"))
}

func TestAStubbornChildIsKilled(t *testing.T) {
	p := start(t, "stubborn", nil)
	ask(t, p, "x")
	begin := time.Now()
	p.End()
	if why := p.Why(); why != "signal: killed" || time.Since(begin) < closePatience+termPatience {
		t.Errorf("%s after %s", why, time.Since(begin))
	}
}

// One that reads nothing must not hold up who sends for ever, nor be sent half a
// message and then another one.
func TestAChildThatDoesNotReadHoldsUpOneMessage(t *testing.T) {
	p := start(t, "deaf", nil)
	var sends sync.WaitGroup
	sends.Go(func() {
		if err := p.Send(t.Context(), make([]byte, 1<<20)); !errors.Is(err, ErrEnded) {
			t.Errorf("the first: %v", err)
		}
	})
	within(t, time.Minute, "the first is on its way", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err := p.Send(ctx, []byte("{}"))
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the second: %v", err)
		}
		return err != nil
	})
	p.signal(syscall.SIGKILL)
	sends.Wait()
}

// Such a child is ended, and its end says why.
func TestAChildThatDoesNotReadIsEnded(t *testing.T) {
	defer func(before time.Duration) { sendTime = before }(sendTime)
	sendTime = 100 * time.Millisecond
	p := start(t, "deaf", nil)
	if err := p.Send(t.Context(), make([]byte, 1<<20)); !errors.Is(err, ErrNotReading) {
		t.Error(err)
	}
	if why := p.Why(); !strings.Contains(why, ErrNotReading.Error()) {
		t.Errorf("it ended: %s", why)
	}
}

// A line that does not end may be before any answer: nothing else of the child is ever read.
func TestAChildWhoseLineDoesNotEndIsEnded(t *testing.T) {
	p := start(t, "", nil)
	if err := p.Send(t.Context(), []byte(`{"jsonrpc":"2.0","id":1,"method":"endless"}`)); err != nil {
		t.Fatal(err)
	}
	over := time.AfterFunc(20*time.Second, func() { t.Error("its line is read on"); p.signal(syscall.SIGKILL) })
	defer over.Stop()
	if _, err := p.Receive(); !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
	if why := p.Why(); !strings.Contains(why, errEndless.Error()) {
		t.Errorf("it ended: %s", why)
	}
}

func TestWordsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes but where it sleeps
		var log bytes.Buffer
		words := NewWords(&log)
		words.relay(io.NopCloser(strings.NewReader("one\n" + strings.Repeat("x", MaxWord+5) + "\n" +
			strings.Repeat("more\n", linesAtOnce+50) + "last")))
		lines := strings.Split(log.String(), "\n")
		if lines[0] != "one" || lines[1] != strings.Repeat("x", MaxWord)+" … (6 bytes more)" {
			t.Errorf("got %q, %d bytes, …%q", lines[0], len(lines[1]), lines[1][max(0, len(lines[1])-40):])
		}
		if got := strings.Count(log.String(), "\n"); got != linesAtOnce {
			t.Errorf("%d lines passed", got)
		}
		time.Sleep(time.Second / linesPerSecond)
		words.Say([]byte("later"), 0)
		if text := log.String(); !strings.HasSuffix(text,
			"freehold-runner: 53 lines were left out, more than 200 a second\nlater\n") {
			t.Errorf("…%q", text[max(0, len(text)-100):])
		}
	})
}

func TestAChildGetsWhatIsDeclaredAlone(t *testing.T) {
	got, withheld := Environment([]string{
		"PATH=/bin", "HOME=/", "LANG=C", "TMPDIR=/tmp", "KUBERNETES_SERVICE_HOST=10.0.0.1", "NODE_VERSION=22",
		"FREEHOLD_DECLARED_KEY=from", "FREEHOLD_DECLARED_MODE=from", "HOSTNAME=backend-0", "MODE=own", "EMPTY=", "WITH=a=b",
		"URL=a:$(FREEHOLD_DECLARED_NO)@",
	}, []string{"MODE", "EMPTY", "WITH", "ABSENT", "URL"})
	want := []string{
		"PATH=/bin", "HOME=/", "LANG=C", "TMPDIR=/tmp", "KEY=from", "MODE=own", "EMPTY=", "WITH=a=b",
		"URL=a:$(NO)@",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"NODE_VERSION"}, withheld); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
}

// A process whose parent has ended is this one's, where it is the first of its
// container; here it is one by nature.
func TestOrphansAreReapedAndChildrenAreNot(t *testing.T) {
	args, env := stdiotest.Command("crash")
	orphan, err := os.StartProcess(args[0], args, &os.ProcAttr{Env: env})
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "crash", nil)
	within(t, time.Minute, "the orphan has ended", func() bool { return gone(orphan.Pid) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go Reap(ctx)
	within(t, time.Minute, "the orphan is reaped", func() bool {
		start(t, "crash", nil).Why() // its end wakes who listens by then
		_, err := os.Stat(fmt.Sprintf("/proc/%d", orphan.Pid))
		return err != nil
	})
	if got := p.Why(); got != "exit status 3" {
		t.Errorf("the child's end was taken: %s", got)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(files)
}

func FuzzLines(f *testing.F) {
	for _, seed := range []string{"{}\n", "hello\n{\"a\":1}\n[1]", "\r\n{\n", "{\"a\":\"\xff\"}\n", "\x00{}\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		from, to, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		go func() {
			_, _ = to.Write(text)
			_ = to.Close()
		}()
		told := 0
		l := newLines(from, func(line []byte) {
			if told++; len(line) > shown || len(line) == 0 {
				t.Errorf("junk of %d bytes", len(line))
			}
		})
		found := 0
		for {
			line, err := l.next()
			if err != nil {
				break
			}
			found++
			if !json.Valid(line) || bytes.ContainsRune(line, '\n') || line[0] != '{' && line[0] != '[' {
				t.Errorf("no message: %q", line)
			}
		}
		full := 0
		for line := range bytes.SplitSeq(text, []byte("\n")) {
			if len(bytes.TrimSpace(line)) > 0 {
				full++
			}
		}
		if found+told != full {
			t.Errorf("%d messages and %d others of %d lines", found, told, full)
		}
	})
}

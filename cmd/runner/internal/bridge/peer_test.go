package bridge

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// pipe is a connection to a server that says what a test writes, and of which a test may
// have the messages of one method wait.
type pipe struct {
	*wire
	sent  chan string
	stuck string // the method that the server does not read
}

func newPipe(t *testing.T) *pipe {
	t.Helper()
	c := &pipe{wire: newWire(0), sent: make(chan string, 1000)}
	t.Cleanup(c.End)
	return c
}

func (c *pipe) Send(ctx context.Context, m []byte, _ *Waiting) error {
	if c.stuck != "" && strings.Contains(string(m), c.stuck) {
		<-ctx.Done()
		return ctx.Err()
	}
	c.sent <- string(m)
	return nil
}

// peered is a bridge, and a connection of its to a server, that of one client or not.
func peered(t *testing.T, conn Conn, alone bool) (*Bridge, *peer) {
	t.Helper()
	b := New(Config{Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(b.Close)
	return b, newPeer(conn, alone, func(jsonrpc.Message) {}, nil)
}

// sessionOf is a session with the server of a connection.
func sessionOf(b *Bridge, p *peer) *session {
	return &session{
		peer: p, standing: b.stream(standingID, true, ""), gone: make(chan struct{}), asked: map[string]bool{},
	}
}

// A server that does not read while it writes goes on once what it wrote was read: the
// reader of all clients does not wait until the server takes that one call is cancelled.
func TestAClientThatDoesNotReadDoesNotHoldUpTheReaderOfAll(t *testing.T) {
	conn := newPipe(t)
	conn.stuck = "notifications/cancelled"
	b, p := peered(t, conn, false)
	x := b.stream("t", false, "")
	x.begin(1)
	x.attach(false, 0)
	c := &call{id: []byte("1"), method: "tools/call", owner: x, to: x, answer: answerTo(x)}
	if err := p.ask(t.Context(), c, []byte(`{"_meta":{"progressToken":1}}`)); err != nil {
		t.Fatal(err)
	}
	line := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"message":"` +
		strings.Repeat("a", 100<<10) + `"}}`
	for i := range 3 * maxUnsent / len(line) {
		select {
		case conn.says <- line:
		case <-time.After(time.Minute / 2):
			t.Fatalf("after %d messages the server is not read any more", i)
		}
	}
	if calls := p.mine(x); len(calls) != 0 {
		t.Error("its call still waits")
	}
}

// Some libraries write all members of an answer, of which one is null.
func TestAnAnswerKeepsItsResultBesideAnErrorThatIsNull(t *testing.T) {
	conn := newPipe(t)
	b, p := peered(t, conn, false)
	s, x := sessionOf(b, p), b.stream("t", false, "")
	x.begin(1)
	if f := s.post(t.Context(), []jsonrpc.Message{{ID: []byte(`"a"`), Method: "tools/call"}}, x); f != nil {
		t.Fatal(f)
	}
	next(t, "call", conn.sent)
	conn.says <- `{"jsonrpc":"2.0","id":1,"result":{"content":[]},"error":null}`
	if e, _, _ := x.take(t.Context(), x.reader); string(e.data) != `{"jsonrpc":"2.0","id":"a","result":{"content":[]}}` {
		t.Errorf("the client gets %s", e.data)
	}
	answer, _, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":7,"result":{"roots":[]},"error":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if f := s.post(t.Context(), answer, nil); f != nil {
		t.Fatal(f)
	}
	if m := next(t, "answer", conn.sent); m != `{"jsonrpc":"2.0","id":7,"result":{"roots":[]}}` {
		t.Errorf("the server gets %s", m)
	}
}

// A client would take it for an answer.
func TestAQuestionOfTheServersHasNoResult(t *testing.T) {
	conn := newPipe(t)
	asked := make(chan string, 1)
	newPeer(conn, true, func(m jsonrpc.Message) { asked <- string(m.Text()) }, nil)
	conn.says <- `{"jsonrpc":"2.0","id":1,"method":"roots/list","result":{},"error":{"code":1}}`
	if m := next(t, "question", asked); m != `{"jsonrpc":"2.0","id":1,"method":"roots/list"}` {
		t.Errorf("the client gets %s", m)
	}
}

// The server is told the id that it knows, of which a client's own server knows no other.
func TestACallWhoseClientDoesNotReadIsCancelledByItsID(t *testing.T) {
	for _, alone := range []bool{false, true} {
		conn := newPipe(t)
		b, p := peered(t, conn, alone)
		x := b.stream("t", false, "")
		x.begin(1)
		c := &call{id: []byte(`"mine"`), method: "tools/call", owner: x, to: x, answer: answerTo(x)}
		if err := p.ask(t.Context(), c, nil); err != nil {
			t.Fatal(err)
		}
		next(t, "call", conn.sent)
		p.lose(c)
		if m := next(t, "cancellation", conn.sent); !strings.Contains(m, `,"requestId":`+string(c.wire)+`}`) {
			t.Errorf("the id of the call is %s, and the server gets %s", c.wire, m)
		}
	}
}

// Where the server knows other ids, a client may have two calls of one. A cancellation is
// of both, and nobody else's.
func TestCallsOfOneIDAreCancelledTogether(t *testing.T) {
	conn := newPipe(t)
	b, p := peered(t, conn, false)
	s, other := sessionOf(b, p), sessionOf(b, p)
	post := func(s *session, id string) *stream {
		x := b.stream("t", false, "")
		x.begin(1)
		if f := s.post(t.Context(), []jsonrpc.Message{{ID: []byte(id), Method: "tools/call"}}, x); f != nil {
			t.Fatal(f)
		}
		next(t, "call", conn.sent)
		return x
	}
	first, second, others := post(s, `"a"`), post(s, `"\u0061"`), post(other, `"a"`)
	p.cancel(t.Context(), s, []byte(`"a"`), []byte(`{"requestId":"a","reason":"bored"}`))
	told := []string{next(t, "cancellation", conn.sent), next(t, "cancellation", conn.sent)}
	slices.Sort(told)
	for i, m := range told {
		if want := fmt.Sprintf(`"params":{"reason":"bored","requestId":%d}`, i+1); !strings.Contains(m, want) {
			t.Errorf("the server gets %s, want %s", m, want)
		}
	}
	if !first.idle() || !second.idle() {
		t.Error("a call that was cancelled waits for ever")
	}
	if others.idle() {
		t.Error("another client's call of the id does not wait any more")
	}
}

// Some clients use one id for all their calls. Of those that wait at a time the first has it at a server of its
// client's own, too.
func TestCallsOfOneIDAtATimeGetEachItsOwnAnswer(t *testing.T) {
	conn := newPipe(t)
	b, p := peered(t, conn, true)
	s := sessionOf(b, p)
	var wires []string
	var streams []*stream
	for range 3 {
		x := b.stream("t", false, "")
		x.begin(1)
		call := jsonrpc.Message{ID: []byte("1"), Method: "tools/call", Params: []byte(`{"_meta":{"progressToken":1}}`)}
		if f := s.post(t.Context(), []jsonrpc.Message{call}, x); f != nil {
			t.Fatal(f)
		}
		m := []byte(next(t, "call", conn.sent))
		wire := string(jsonrpc.At(m, "id"))
		if slices.Contains(wires, wire) || wire != string(jsonrpc.At(m, "params", "_meta", "progressToken")) {
			t.Fatalf("the server gets %s after %s", m, wires)
		}
		wires, streams = append(wires, wire), append(streams, x)
	}
	if wires[0] != "1" {
		t.Errorf("the server knows the first as %s", wires[0])
	}
	for _, i := range []int{1, 0} {
		conn.says <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + wires[i] +
			`,"progress":1}}`
		conn.says <- `{"jsonrpc":"2.0","id":` + wires[i] + `,"result":{"of":` + fmt.Sprint(i) + `}}`
		for _, want := range []string{`"progressToken":1,`, `"id":1,"result":{"of":` + fmt.Sprint(i) + `}`} {
			if e, _, _ := streams[i].take(t.Context(), streams[i].reader); !strings.Contains(string(e.data), want) {
				t.Errorf("call %d gets %s, want %s", i, e.data, want)
			}
		}
	}
	// The server is told of the id that it knows.
	p.cancel(t.Context(), s, []byte("1"), []byte(`{"requestId":1}`))
	if m := next(t, "cancellation", conn.sent); !strings.Contains(m, `"requestId":`+wires[2]) {
		t.Errorf("the server gets %s", m)
	}
}

// Questions of the bridge's own have one id, and are cancelled one by one.
func TestAQuestionOfTheBridgesIsCancelledAlone(t *testing.T) {
	conn := newPipe(t)
	_, p := peered(t, conn, false)
	ask := func() <-chan jsonrpc.Message {
		answer, err := p.question(t.Context(), "tools/list", struct{}{})
		if err != nil {
			t.Fatal(err)
		}
		next(t, "question", conn.sent)
		return answer
	}
	first, second := ask(), ask()
	p.cancel(t.Context(), second, ownID, nil)
	if m := next(t, "cancellation", conn.sent); !strings.Contains(m, `"requestId":2`) {
		t.Error(m)
	}
	conn.says <- `{"jsonrpc":"2.0","id":1,"result":{}}`
	if m := next(t, "answer", first); m.Result == nil {
		t.Errorf("%+v", m)
	}
}

// Whoever is told that nothing was run sends all again.
func TestABatchOfWhichSomethingRanIsNotRefused(t *testing.T) {
	for _, alone := range []bool{false, true} {
		conn := newPipe(t)
		b, p := peered(t, conn, alone)
		s, id := sessionOf(b, p), 0
		post := func(calls int) (*stream, *jsonrpc.Fault) {
			x := b.stream("t", false, "")
			x.begin(calls)
			x.attach(false, 0)
			var all []jsonrpc.Message
			for range calls {
				id++
				all = append(all, jsonrpc.Message{ID: fmt.Append(nil, id), Method: "tools/call"})
			}
			return x, s.post(t.Context(), all, x)
		}
		if _, f := post(maxCalls - 2); f != nil {
			t.Fatal(f)
		}
		x, f := post(5)
		if f != nil || len(conn.sent) != maxCalls {
			t.Fatalf("%d calls were sent, and the batch is answered %v", len(conn.sent), f)
		}
		for n := maxCalls + 1; n <= id; n++ {
			e, _, ok := x.take(t.Context(), x.reader)
			if want := fmt.Sprintf(`"id":%d,"error":{"code":%d`, n, CodeBusy); !ok || !strings.Contains(string(e.data), want) {
				t.Errorf("%s is no %s", e.data, want)
			}
		}
		if x.open != 2 || x.ended {
			t.Errorf("%d calls wait, the stream has ended: %v", x.open, x.ended)
		}
		if _, f := post(2); f == nil || f.Code != CodeBusy {
			t.Errorf("a batch of which nothing ran gets %v", f)
		}
	}
}

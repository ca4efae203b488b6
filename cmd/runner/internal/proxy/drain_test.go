package proxy

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// quick is a budget for tests: generous for what must finish, short for what
// must be ended.
var quick = DrainTimes{Propagation: 100 * time.Millisecond, Calls: 400 * time.Millisecond, Last: 2 * time.Second}

// drain starts a drain and returns a channel that closes at its end.
func (b *bench) drain(times DrainTimes) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.proxy.Drain(b.server, times)
	}()
	return done
}

// during waits until the drain has begun.
func (b *bench) during() {
	for !b.proxy.draining.Load() {
		time.Sleep(time.Millisecond)
	}
}

func TestTheBudgetFitsTheGracePeriod(t *testing.T) {
	for _, grace := range []time.Duration{15 * time.Second, time.Minute, time.Hour} { // the least, the default, the most
		b := DrainTimesOf(grace)
		if sum := b.Propagation + b.Calls + b.Last; sum != grace-spared || b.Calls < 2*time.Second {
			t.Errorf("of %s a drain takes %s, calls %s", grace, sum, b.Calls)
		}
	}
}

func TestCallsOfADrainAreAnswered(t *testing.T) {
	started, finish := make(chan struct{}), make(chan struct{})
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "slow" {
			close(started)
			select {
			case <-finish:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "answer")
	}))
	answers := make(chan string, 1)
	go func() { answers <- text(t, b.call(http.MethodPost, "/mcp", "slow")) }()
	wait(t, "the slow call to arrive", started)

	done := b.drain(DrainTimes{Propagation: time.Second, Calls: patience, Last: time.Second})
	b.during()
	late := b.call(http.MethodPost, "/mcp", "late")
	if got := text(t, late); got != "answer" || !late.Close {
		t.Errorf("a call during propagation: got %q, and connection kept: %v", got, !late.Close)
	}
	for err := error(nil); err == nil; time.Sleep(10 * time.Millisecond) {
		var response *http.Response
		if response, err = http.DefaultTransport.RoundTrip(b.request(http.MethodPost, "/mcp", "x")); err == nil {
			_ = response.Body.Close()
		}
	}
	select {
	case <-done:
		t.Fatal("the drain ended before the slow call")
	default:
	}
	close(finish)
	if got := <-answers; got != "answer" {
		t.Errorf("the slow call got %q", got)
	}
	wait(t, "the drain to end", done)
	if err := <-b.served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("the server ended with %v", err)
	}
}

func TestStreamsEndWithTheLastAnswer(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		events(w)("data: {\"id\":5,\"result\":{}}\n\n")
		<-r.Context().Done()
	}))
	get := b.call(http.MethodGet, "/mcp", "")
	listen := b.call(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":"l1","method":"subscriptions/listen"}`, "Mcp-Method",
		"subscriptions/listen")
	call := b.call(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":5,"method":"tools/call"}`)
	streams := []*bufio.Reader{bufio.NewReader(get.Body), bufio.NewReader(listen.Body), bufio.NewReader(call.Body)}
	for _, stream := range streams {
		nextEvent(t, stream)
	}

	began := time.Now()
	done := b.drain(DrainTimes{Propagation: 50 * time.Millisecond, Calls: 2 * patience, Last: patience})
	for i, want := range []string{
		"retry: 1000\n\n",
		"event: message\ndata: " +
			`{"jsonrpc":"2.0","id":"l1","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"l1"}}}` + "\n\n",
		"", // it has its answer
	} {
		if got, err := io.ReadAll(streams[i]); string(got) != want || err != nil {
			t.Errorf("got %q, %v\nwant %q", got, err, want)
		}
	}
	wait(t, "the drain to end", done)
	if took := time.Since(began); took > patience {
		t.Errorf("streams without calls held the drain up for %s", took)
	}
}

func TestCallsOverTheBudgetEndInAnError(t *testing.T) {
	started := make(chan struct{}, 1)
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "stream") {
			events(w)("data: 1\n\n")
		}
		started <- struct{}{}
		<-r.Context().Done()
	}))
	silent := make(chan *http.Response, 1)
	go func() { silent <- b.call(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"silent"}`) }()
	<-started
	streaming := b.call(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"stream"}`)
	<-started

	done := b.drain(quick)
	if got, want := text(t, <-silent), string(errDraining.Response([]byte("1"))); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	want := "data: 1\n\nevent: message\ndata: " + string(errDraining.Response([]byte("2"))) + "\n\n"
	if got := text(t, streaming); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	wait(t, "the drain to end", done)
}

func TestWhatBeginsAfterTheEndIsEnded(t *testing.T) {
	traffic := newTraffic()
	traffic.cancel()
	flight := traffic.begin(t.Context(), new(http.Request), nil)
	if !flight.drained() || flight.ctx.Err() == nil {
		t.Error("it was let go")
	}
	traffic.end(flight)
}

func TestWaitCountsCallsAndNotStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := newTraffic()
		traffic.begin(t.Context(), &http.Request{Method: http.MethodGet}, nil)
		call := traffic.begin(t.Context(), &http.Request{Method: http.MethodPost}, nil)
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			traffic.wait(t.Context())
		}()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("it did not wait for the call")
		default:
		}
		traffic.end(call)
		<-waited
	})
}

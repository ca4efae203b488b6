package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// script is a backend that does as it is told with each connection.
func script(t testing.TB, serve func(conn net.Conn, calls *bufio.Reader)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn, bufio.NewReader(conn))
			}()
		}
	}()
	return listener.Addr().String()
}

// next reads a call and returns its body.
func next(calls *bufio.Reader) (string, error) {
	request, err := http.ReadRequest(calls)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(request.Body)
	return string(body), err
}

func dialled(ctx context.Context, network, address string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, network, address)
}

func wired(t *testing.T) *wires {
	t.Helper()
	w := newWires(time.Hour, dialled)
	t.Cleanup(w.close)
	return w
}

func callTo(ctx context.Context, t *testing.T, address, body string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := gather(request, nil); err != nil {
		t.Fatal(err)
	}
	return request
}

// answered makes a call and returns its answer.
func (w *wires) answered(t *testing.T, address, body string) string {
	t.Helper()
	response, err := w.RoundTrip(callTo(t.Context(), t, address, body))
	if err != nil {
		t.Fatal(err)
	}
	return text(t, response)
}

func (w *wires) waiting(address string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.idle[address])
}

// arrives waits until what a backend has done to the connection that waits is to be seen. It leaves it there.
func (w *wires) arrives(t *testing.T, address string) {
	t.Helper()
	w.mu.Lock()
	raw := w.idle[address][0].raw
	w.mu.Unlock()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) {
		var failed error
		if err := raw.Read(func(fd uintptr) bool {
			_, _, failed = syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
			return true
		}); err != nil || !errors.Is(failed, syscall.EAGAIN) {
			return
		}
	}
	t.Fatal("nothing arrives")
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestWhichCallsAreMadeInTheirGoroutine(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*http.Request)
		want   bool
	}{
		"a short one": {func(*http.Request) {}, true},
		"as long as may be": {func(r *http.Request) {
			r.Body, r.ContentLength = bodyOf(longestDirect), longestDirect
		}, true},
		"a longer one": {func(r *http.Request) {
			r.Body, r.ContentLength = bodyOf(longestDirect+1), longestDirect+1
		}, false},
		"of no stated length":        {func(r *http.Request) { r.ContentLength = -1 }, false},
		"none":                       {func(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }, false},
		"one that waits to be asked": {func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, false},
		"another method":             {func(r *http.Request) { r.Method = http.MethodDelete }, false},
		"one that ends a connection": {func(r *http.Request) { r.Close = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			request, _ := http.NewRequest(http.MethodPost, "http://b/mcp", strings.NewReader("{}"))
			tc.change(request)
			body := request.Body
			if err := gather(request, nil); err != nil {
				t.Fatal(err)
			}
			if _, got := request.Body.(*readBody); got != tc.want || !got && request.Body != body {
				t.Errorf("read beforehand: %v, want %v", got, tc.want)
			}
		})
	}
}

func bodyOf(n int) io.ReadCloser { return io.NopCloser(strings.NewReader(strings.Repeat("x", n))) }

func TestABodyThatIsNotAsLongAsItSays(t *testing.T) {
	for n, want := range map[int64]error{1: errLongBody, 3: io.ErrUnexpectedEOF} {
		request, _ := http.NewRequest(http.MethodPost, "http://b/mcp", io.NopCloser(strings.NewReader("{}")))
		request.ContentLength = n
		if err := gather(request, nil); !errors.Is(err, want) {
			t.Errorf("of %d bytes: got %v, want %v", n, err, want)
		}
	}
}

func TestCallsFollowOnAConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  string
		follows bool
	}{
		"of a stated length": {ok, true},
		"chunked":            {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		"with a trailer": {"HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n" +
			"0\r\nX: y\r\n\r\n", true},
		"without a body":              {"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n", true},
		"204":                         {"HTTP/1.1 204 No Content\r\n\r\n", true},
		"behind interim ones":         {"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + ok, true},
		"that closes":                 {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", false},
		"of HTTP/1.0":                 {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", false},
		"with something behind it":    {ok + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", false},
		"with a body that is unasked": {"HTTP/1.1 204 No Content\r\n\r\nevil", false},
	} {
		t.Run(name, func(t *testing.T) {
			address := script(t, func(conn net.Conn, calls *bufio.Reader) {
				for {
					if _, err := next(calls); err != nil {
						return
					}
					_, _ = io.WriteString(conn, tc.answer)
				}
			})
			w := wired(t)
			if got := w.answered(t, address, "x"); strings.Contains(got, "evil") {
				t.Errorf("the answer has what is behind it: %q", got)
			}
			if got := w.waiting(address) == 1; got != tc.follows {
				t.Errorf("the connection is kept: %v, want %v", got, tc.follows)
			}
			if got := w.answered(t, address, "x"); strings.Contains(got, "evil") {
				t.Errorf("the next answer is %q", got)
			}
		})
	}
}

// What a backend does to a connection that waits is seen before a call begins on it: none is lost, and none is answered
// by what nobody asked for.
func TestAConnectionIsLookedAtBeforeACallBegins(t *testing.T) {
	for name, after := range map[string]func(net.Conn){
		"closed":      func(conn net.Conn) { _ = conn.Close() },
		"reset":       func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0); _ = conn.Close() },
		"half closed": func(conn net.Conn) { _ = conn.(*net.TCPConn).CloseWrite() },
		"something comes": func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
		},
	} {
		t.Run(name, func(t *testing.T) {
			read := make(chan struct{})
			address := script(t, func(conn net.Conn, calls *bufio.Reader) {
				body, _ := next(calls)
				_, _ = io.WriteString(conn, ok)
				if body == "first" {
					<-read
					after(conn)
				}
				_, _ = next(calls)
			})
			w := wired(t)
			if got := w.answered(t, address, "first"); got != "ok" {
				t.Fatalf("got %q", got)
			}
			close(read)
			w.arrives(t, address)
			if got := w.answered(t, address, "second"); got != "ok" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// A connection may break between the look at it and the call. What has not been sent goes by another.
func TestACallThatItsConnectionDoesNotTakeGoesByAnother(t *testing.T) {
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	var connections atomic.Int32
	address := script(t, func(conn net.Conn, calls *bufio.Reader) {
		connections.Add(1)
		if body, err := next(calls); err == nil {
			_, _ = io.WriteString(conn, strings.Replace(ok, "ok", body[:2], 1))
		}
		<-over
	})
	w := wired(t)
	w.answered(t, address, "first")
	if err := w.idle[address][0].Conn.(*net.TCPConn).CloseWrite(); err != nil {
		// as if it were reset, which a look would show
		t.Fatal(err)
	}
	if got := w.answered(t, address, "second"); got != "se" || connections.Load() != 2 {
		t.Errorf("got %q over %d connections", got, connections.Load())
	}
}

func TestACallIsSentOnceWhateverBecomesOfItsConnection(t *testing.T) {
	for name, last := range map[string]func(net.Conn){
		"closed": func(net.Conn) {},
		"reset":  func(conn net.Conn) { _ = conn.(*net.TCPConn).SetLinger(0) },
		"half":   func(conn net.Conn) { _, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Le") },
	} {
		t.Run(name, func(t *testing.T) {
			ran := make(chan string, 10)
			address := script(t, func(conn net.Conn, calls *bufio.Reader) {
				for {
					body, err := next(calls)
					if err != nil {
						return
					}
					if ran <- body; body == "last" {
						last(conn)
						return
					}
					_, _ = io.WriteString(conn, ok)
				}
			})
			w := wired(t)
			w.answered(t, address, "first")
			response, err := w.RoundTrip(callTo(t.Context(), t, address, "last"))
			if err == nil {
				t.Errorf("got %s", response.Status)
			}
			if first, second := <-ran, <-ran; first != "first" || second != "last" || len(ran) > 0 {
				t.Errorf("%q and %q ran, and %d more", first, second, len(ran))
			}
			if n := w.waiting(address); n != 0 {
				t.Errorf("%d connections are kept", n)
			}
		})
	}
}

func TestACallThatIsCancelledEndsWithItsCause(t *testing.T) {
	cause := errors.New("enough")
	for name, answer := range map[string]string{
		"before the answer": "",
		"in its body":       "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok",
	} {
		t.Run(name, func(t *testing.T) {
			left, started := make(chan struct{}), make(chan struct{})
			address := script(t, func(conn net.Conn, calls *bufio.Reader) {
				body, _ := next(calls)
				if body == "other" {
					_, _ = io.WriteString(conn, ok)
					return
				}
				_, _ = io.WriteString(conn, answer)
				close(started)
				_, _ = calls.ReadByte()
				close(left)
			})
			w := wired(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-started; cancel(cause) }()
			response, err := w.RoundTrip(callTo(ctx, t, address, "x"))
			if err == nil {
				_, err = io.ReadAll(response.Body)
			}
			if !errors.Is(err, cause) {
				t.Errorf("got %v, want %v", err, cause)
			}
			wait(t, "the backend to be told", left)
			if n := w.waiting(address); n != 0 {
				t.Errorf("%d connections are kept", n)
			}
			if got := w.answered(t, address, "other"); got != "ok" {
				t.Errorf("the next call got %q", got)
			}
		})
	}
}

// Nobody reads an answer whose client is slow, or whose handler has panicked. Its end is told all the same.
func TestTheEndOfACallIsToldWhereNobodyReads(t *testing.T) {
	left := make(chan struct{})
	address := script(t, func(conn net.Conn, calls *bufio.Reader) {
		_, _ = next(calls)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok")
		_, _ = calls.ReadByte()
		close(left)
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	response, err := wired(t).RoundTrip(callTo(ctx, t, address, "x"))
	if err != nil {
		t.Fatal(err)
	}
	cancel(cause)
	wait(t, "the backend to be told", left)
	if got, err := io.ReadAll(response.Body); !errors.Is(err, cause) {
		t.Errorf("got %q and %v, want %v", got, err, cause)
	}
}

func TestAnAnswerThatNobodyReadsToItsEndEndsItsConnection(t *testing.T) {
	left := make(chan struct{})
	address := script(t, func(conn net.Conn, calls *bufio.Reader) {
		_, _ = next(calls)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nok")
		_, _ = calls.ReadByte()
		close(left)
	})
	w := wired(t)
	response, err := w.RoundTrip(callTo(t.Context(), t, address, "x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(response.Body, make([]byte, 2)); err != nil { // all that has come
		t.Fatal(err)
	}
	_ = response.Body.Close()
	wait(t, "the backend to be told", left)
	if n := w.waiting(address); n != 0 {
		t.Errorf("%d connections are kept", n)
	}
}

// A backend may answer, at length, before it has read the call. Neither waits for the other.
func TestABackendThatAnswersBeforeItHasReadTheCall(t *testing.T) {
	const long = 8 << 20
	address := script(t, func(conn net.Conn, calls *bufio.Reader) {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n")
		_, _ = conn.Write(make([]byte, long))
		_, _ = next(calls)
	})
	w := newWires(time.Hour, func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialled(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetWriteBuffer(1) // as little as the system allows
		}
		return conn, err
	})
	defer w.close()
	request := callTo(t.Context(), t, address, strings.Repeat("x", longestDirect))
	request.Header.Set("Mcp-Param-Long", strings.Repeat("y", 4<<20)) // more than a receiver takes that does not read
	response, err := w.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(text(t, response)); got != long {
		t.Errorf("%d bytes came", got)
	}
	if n := w.waiting(address); n != 0 {
		t.Errorf("a connection is kept on which a call may still be on its way")
	}
}

func TestConnectionsThatWaitHaveBounds(t *testing.T) {
	address := script(t, func(conn net.Conn, calls *bufio.Reader) {
		_, _ = next(calls)
		_, _ = io.WriteString(conn, ok)
		_, _ = calls.ReadByte()
	})
	w := wired(t)
	var responses []*http.Response
	for range idleWires + 10 {
		response, err := w.RoundTrip(callTo(t.Context(), t, address, "x"))
		if err != nil {
			t.Fatal(err)
		}
		responses = append(responses, response)
	}
	for _, response := range responses {
		if got := text(t, response); got != "ok" {
			t.Fatalf("got %q", got)
		}
	}
	if n := w.waiting(address); n != idleWires {
		t.Errorf("%d connections wait, want %d", n, idleWires)
	}
	w.close()
	if got := w.answered(t, address, "x"); got != "ok" || w.waiting(address) != 0 {
		t.Errorf("got %q, and %d connections wait after the end", got, w.waiting(address))
	}
}

// A client that is slow to send a call must not hold up a drain.
func TestADrainEndsACallThatIsStillBeingSent(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
	}))
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
	begun := func() bool {
		b.proxy.traffic.mu.Lock()
		defer b.proxy.traffic.mu.Unlock()
		return len(b.proxy.traffic.flights) > 0
	}
	for end := time.Now().Add(patience); !begun(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the call does not begin")
		}
	}
	done := b.drain(quick)
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	wantFault(t, response, http.StatusServiceUnavailable, CodeDraining, "shutting down")
	wait(t, "the drain to end", done)
}

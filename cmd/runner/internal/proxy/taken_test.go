package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// dial opens a connection to the proxy, on which a test waits for at most a minute.
func (b *bench) dial() (net.Conn, *bufio.Reader) {
	b.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn, bufio.NewReader(conn)
}

// taken is how many streams have left the server.
func (b *bench) taken() int {
	b.proxy.traffic.mu.Lock()
	defer b.proxy.traffic.mu.Unlock()
	return b.proxy.traffic.taken
}

func TestWhatComesOverATakenStreamIsWhatWasSent(t *testing.T) {
	source := rand.New(rand.NewPCG(1, 2))
	var sent strings.Builder
	for sent.Len() < 4<<20 {
		n := source.IntN(3000)
		if source.IntN(20) == 0 {
			n = source.IntN(200_000) // more than any buffer
		}
		fmt.Fprintf(&sent, "data: %s\n\n", strings.Repeat(string(rune('a'+source.IntN(26))), n))
	}
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Of-The-Backend", "yes")
		send := events(w)
		for rest := sent.String(); rest != ""; {
			n := min(len(rest), 1+source.IntN(70_000))
			send(rest[:n])
			rest = rest[n:]
		}
	}))
	response := b.call(http.MethodGet, "/mcp", "")
	if got := text(t, response); got != sent.String() {
		t.Errorf("%d bytes came, other than the %d that were sent", len(got), sent.Len())
	}
	h := response.Header
	if h.Get("X-Of-The-Backend") != "yes" || h.Get("Content-Type") != "text/event-stream" ||
		h.Get("X-Accel-Buffering") != "no" || h.Get("Date") == "" || !response.Close {
		t.Errorf("got %v, and that the connection ends: %v", h, response.Close)
	}
}

// A filter is between the proxy and the client: a stream that is taken would pass by it.
func TestAStreamThatIsFilteredIsNotTaken(t *testing.T) {
	b := serve(t, Config{Authenticate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(shouting{w}, r) })
	}}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { events(w)("data: secret\n\n") }))
	if got := text(t, b.call(http.MethodGet, "/mcp", "")); got != "DATA: SECRET\n\n" {
		t.Errorf("got %q", got)
	}
}

type shouting struct{ http.ResponseWriter }

func (s shouting) Write(p []byte) (int, error) {
	return s.ResponseWriter.Write([]byte(strings.ToUpper(string(p))))
}

func (s shouting) Unwrap() http.ResponseWriter { return s.ResponseWriter }

func TestWhichStreamsAreTaken(t *testing.T) {
	opened := make(chan struct{}, 1)
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.URL.RawQuery == "refused" {
			http.Error(w, "no streams", http.StatusMethodNotAllowed)
			return
		}
		events(w)("data: 1\n\n")
		opened <- struct{}{}
		<-r.Context().Done()
	}))
	for name, tc := range map[string]struct {
		request, status string
		taken           int
	}{
		"a GET":        {"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 200 OK", 1},
		"of HTTP/1.0":  {"GET /mcp HTTP/1.0\r\nHost: localhost\r\n\r\n", "HTTP/1.0 200 OK", 0},
		"of a call":    {head("POST", 2) + "{}", "HTTP/1.1 200 OK", 0},
		"that is none": {"GET /mcp?refused HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP/1.1 405 Method Not Allowed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			before := now(t)
			conn, r := b.dial()
			_, _ = io.WriteString(conn, tc.request)
			got := readHead(r)
			if !strings.HasPrefix(got, tc.status+"\r\n") {
				t.Errorf("got %q", got)
			}
			if strings.Contains(tc.status, "200") {
				wait(t, "the stream", opened)
				for line := ""; line != "data: 1\n"; {
					var err error
					if line, err = r.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
			}
			if got := b.taken(); got != tc.taken {
				t.Errorf("%d are taken", got)
			}
			_ = conn.Close()
			settle(t, b, before)
			if got := b.taken(); got != 0 {
				t.Errorf("%d are still taken", got)
			}
		})
	}
}

func TestWhatAClientSendsOnATakenStream(t *testing.T) {
	left := make(chan struct{})
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		send := events(w)
		send("data: 1\n\n")
		if r.URL.RawQuery == "long" {
			<-r.Context().Done()
			close(left)
			return
		}
		send("data: 2\n\n")
	}))
	conn, r := b.dial()
	get := "GET /mcp%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
	_, _ = fmt.Fprintf(conn, get+get, "", "") // the second is never answered
	got, err := io.ReadAll(r)
	if err != nil || strings.Count(string(got), "HTTP/1.1 200 OK") != 1 ||
		!strings.HasSuffix(string(got), "data: 2\n\n\r\n0\r\n\r\n") {
		t.Errorf("got %q, %v", got, err)
	}
	conn, r = b.dial()
	_, _ = fmt.Fprintf(conn, get, "?long")
	readHead(r)
	go func() { _, _ = io.WriteString(conn, strings.Repeat("x", 8*discarded)) }()
	wait(t, "the backend to see that a client that talks without end is sent away", left)
}

// stuck are connections that take the head of an answer, and nothing more until they are free.
type stuck struct {
	net.Listener
	free chan struct{}
}

func (l *stuck) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return &stuckConn{Conn: conn, free: l.free, closed: make(chan struct{})}, err
}

type stuckConn struct {
	net.Conn
	free, closed chan struct{}
	once         sync.Once
}

func (c *stuckConn) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(p, []byte("HTTP/1.1 ")) {
		select {
		case <-c.free:
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	return c.Conn.Write(p)
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// unread is a client that has opened a stream, and reads nothing of it until free is closed.
func unread(t *testing.T) (b *bench, free chan struct{}) {
	t.Helper()
	b = serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		events(w)("data: 1\n\n")
		<-r.Context().Done()
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free = make(chan struct{})
	go func() { _ = b.server.Serve(&stuck{listener, free}) }()
	b.url = "http://" + listener.Addr().String()
	conn, r := b.dial()
	if err := half(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if got := readHead(r); !strings.HasPrefix(got, "HTTP/1.1 200 OK") {
		t.Fatalf("got %q", got)
	}
	return b, free
}

func TestADrainEndsATakenStreamThatNobodyReads(t *testing.T) {
	b, _ := unread(t)
	drained := b.drain(DrainTimes{Calls: 100 * time.Millisecond, Last: 100 * time.Millisecond})
	until(t, "the stream is let go", func() bool { return b.taken() == 0 })
	<-drained
}

func TestADrainWaitsForATakenStream(t *testing.T) {
	b, free := unread(t)
	drained := b.drain(DrainTimes{Calls: 100 * time.Millisecond, Last: 2 * long})
	select {
	case <-drained:
		t.Error("it did not wait for the client to read")
	case <-time.After(300 * time.Millisecond):
	}
	close(free)
	select {
	case <-drained:
	case <-time.After(long):
		t.Error("it waits for a stream that has ended")
	}
}

// raw is the address of a backend that answers every connection's first request with the same bytes, and closes it.
func raw(t *testing.T, answer string) string {
	t.Helper()
	return "http://" + script(t, func(conn net.Conn, calls *bufio.Reader) {
		readHead(calls)
		_, _ = io.WriteString(conn, answer)
	})
}

func TestAnswersToAGET(t *testing.T) {
	const stream = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
	for name, tc := range map[string]struct {
		answer string
		status int
		body   string
	}{
		"an interim answer first": {
			"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + stream + "\r\ndata: 1\n\n", 200,
			"data: 1\n\n",
		},
		"interim answers only": {
			strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", MaxHeader/30),
			http.StatusServiceUnavailable, "",
		},
		"long headers": {
			stream + "X-Long: " + strings.Repeat("x", MaxHeader) + "\r\n\r\ndata: 1\n\n",
			http.StatusServiceUnavailable, "",
		},
		"another protocol": {
			"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
			http.StatusServiceUnavailable, "",
		},
		"no HTTP": {"SSH-2.0-x\r\n", http.StatusServiceUnavailable, ""},
		"nothing": {"", http.StatusServiceUnavailable, ""},
		"one of stated length": {
			"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 2\r\n\r\nnoXX",
			http.StatusMethodNotAllowed, "no",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := front(t, Config{}, raw(t, tc.answer))
			before := now(t)
			response := b.call(http.MethodGet, "/mcp", "")
			if got := text(t, response); response.StatusCode != tc.status || tc.body != "" && got != tc.body {
				t.Errorf("got %s and %q", response.Status, got)
			}
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			settle(t, b, before)
		})
	}
}

// A filter that panics ends its stream, and nothing else.
func TestAFilterThatPanicsEndsItsStream(t *testing.T) {
	var said bytes.Buffer
	s := &idle{filter: panicking{}, log: slog.New(slog.NewTextHandler(&said, nil))}
	if err := s.write(make([]byte, 100), 10); !errors.Is(err, http.ErrAbortHandler) ||
		!strings.Contains(said.String(), "panicked") {
		t.Errorf("got %v, and in the log %s", err, said.String())
	}
}

type panicking struct{ shouting }

func (panicking) Write([]byte) (int, error)                             { panic("of a filter") }
func (panicking) Follow(http.ResponseWriter) (end func(), follows bool) { return func() {}, true }

func TestAStreamWhoseFilterStaysIsTaken(t *testing.T) {
	ended := make(chan struct{})
	b := serve(t, Config{Authenticate: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&staying{shouting{w}, ended, r.URL.RawQuery != "not"}, r)
		})
	}}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		send := events(w)
		send("data: secret\n\n")
		send("data: " + strings.Repeat("x", 100_000) + "\n\n")
	}))
	conn, r := b.dial()
	_, _ = io.WriteString(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n")
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, response); got != "DATA: SECRET\n\nDATA: "+strings.Repeat("X", 100_000)+"\n\n" {
		t.Errorf("got %d bytes: %.100q", len(got), got)
	}
	wait(t, "the filter's end", ended)
	conn, r = b.dial()
	_, _ = io.WriteString(conn, "GET /mcp?not HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if response, err := http.ReadResponse(r, nil); err == nil {
		t.Errorf("what the filter does not pass on got %s", response.Status)
	}
}

// staying filters also when its handler has returned.
type staying struct {
	shouting
	ended   chan struct{}
	follows bool
}

func (s *staying) Follow(to http.ResponseWriter) (end func(), follows bool) {
	s.ResponseWriter = to
	return func() { close(s.ended) }, s.follows
}

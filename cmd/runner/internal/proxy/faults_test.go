package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// long is how long a test waits that a busy machine must not fail.
const long = time.Minute

// patiently calls until long is over.
func (b *bench) patiently(method, body string, headers ...string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), long)
	b.t.Cleanup(cancel)
	request := b.request(method, "/mcp", body, headers...).WithContext(ctx)
	return http.DefaultTransport.RoundTrip(request)
}

// until waits for what must come to pass.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(long); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain until " + what)
		}
	}
}

// heap is what that lives, in bytes.
func heap() int64 {
	for range 3 {
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc) //nolint:gosec // no heap is that large
}

// talker answers "flood" with events without end, "long" with 4 MiB, and all else with "answer".
func talker(t *testing.T, config Config) *bench {
	t.Helper()
	long := strings.Repeat("x", 4<<20)
	return serve(t, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet || string(body) == "flood":
			for send := events(w); r.Context().Err() == nil; {
				send("data: " + strings.Repeat("x", 10_000) + "\n\n")
			}
		case string(body) == "long":
			_, _ = io.WriteString(w, long)
		default:
			_, _ = io.WriteString(w, "answer")
		}
	}))
}

// A client would follow a redirect at the proxy's host, where there is nothing but the endpoint.
func TestARedirectOfTheBackendIsNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		method string
		status int
		says   string
	}{
		"a slash too few": {
			http.MethodPost, http.StatusTemporaryRedirect,
			"NotMCP: the backend redirects to /mcp/ (HTTP 307), which is not followed: write the path of its MCP endpoint " +
				"into spec.path",
		},
		"for good":     {http.MethodPost, http.StatusPermanentRedirect, "redirects to /mcp/ (HTTP 308)"},
		"not modified": {http.MethodPost, http.StatusNotModified, ""},
		"of a stream":  {http.MethodGet, http.StatusTemporaryRedirect, ""},
	} {
		b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://"+r.Host+"/mcp/?x=y")
			w.WriteHeader(tc.status)
		}))
		response := b.call(tc.method, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		if tc.says == "" {
			if response.StatusCode != tc.status {
				t.Errorf("%s: HTTP %d", name, response.StatusCode)
			}
			continue
		}
		if body := text(t, response); response.StatusCode != http.StatusOK || !strings.Contains(body, tc.says) ||
			!strings.Contains(body, `"reason":"NotMCP"`) {
			t.Errorf("%s: HTTP %d %s", name, response.StatusCode, body)
		}
	}
}

func TestClientsThatReadNothingCostLittleAndSlowNobody(t *testing.T) {
	const clients = 20
	for name, request := range map[string]string{
		"a stream":            "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"the events of calls": head("POST", 5) + "flood",
		"long answers":        head("POST", 4) + "long",
	} {
		t.Run(name, func(t *testing.T) {
			b := talker(t, Config{})
			before, level := heap(), now(t)
			conns := make([]net.Conn, clients)
			for i := range conns {
				conns[i], _ = b.dial()
				if err := half(conns[i], request); err != nil {
					t.Fatal(err)
				}
			}
			until(t, "all are on their way", func() bool {
				b.proxy.traffic.mu.Lock()
				defer b.proxy.traffic.mu.Unlock()
				return len(b.proxy.traffic.flights) == clients
			})
			for range 20 {
				// The backend is in this process, and busy: a connection to it may take too long.
				until(t, "another client is answered", func() bool {
					response, err := b.patiently(http.MethodPost, "{}")
					return err == nil && text(t, response) == "answer"
				})
			}
			// A third of it are the client and the backend, which are in this process too.
			until(t, "each takes no more than 160 KiB", func() bool { return heap()-before <= clients*160<<10 })
			for _, conn := range conns {
				_ = conn.Close()
			}
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			settle(t, b, level)
		})
	}
}

func TestAClientThatReadsByteByByteGetsItAll(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		send := events(w)
		for i := range 200 {
			send(fmt.Sprintf("data: %03d\n\n", i))
		}
	}))
	conn, _ := b.dial()
	if err := half(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for one := make([]byte, 1); ; {
		if _, err := conn.Read(one); err != nil {
			break
		}
		got.Write(one)
	}
	if !strings.HasSuffix(got.String(), "data: 199\n\n\r\n0\r\n\r\n") || strings.Count(got.String(), "data: ") != 200 {
		t.Errorf("got %q", got.String())
	}
}

// A peer that vanishes says nothing: what a kernel does then is the same for one that acknowledges, and reads nothing.
func TestAClientThatIsSilentIsLetGo(t *testing.T) {
	for name, request := range map[string]string{
		"a stream":            "GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"the events of calls": head("POST", 5) + "flood",
	} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{})
			b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				for send := events(w); r.Context().Err() == nil; {
					send("data: " + strings.Repeat("x", 10_000) + "\n\n")
				}
				close(left)
			}))
			listener, err := listen(t.Context(), "127.0.0.1:0", 500*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = b.server.Serve(listener) }()
			b.url = "http://" + listener.Addr().String()
			conn, _ := b.dial()
			if err := half(conn, request); err != nil {
				t.Fatal(err)
			}
			select {
			case <-left:
			case <-time.After(long):
				t.Fatal("the backend was not told that nobody reads")
			}
		})
	}
}

// Without something to send, signs of life tell that a peer has vanished. They cannot be held up on loopback.
func TestBothSidesAreAskedForSignsOfLife(t *testing.T) {
	const idleTime = 15 // seconds, of Go and of dialer
	keeps := func(conn net.Conn) {
		t.Helper()
		raw, err := conn.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			on, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
			idle, failed := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
			if err != nil || failed != nil || on != 1 || idle != idleTime {
				t.Errorf("signs of life: %d, after %d s, %v", on, idle, errors.Join(err, failed))
			}
		})
	}
	listener, err := Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	backend, err := front(t, Config{}, "http://"+listener.Addr().String()).
		upstream.dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	client, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	keeps(backend)
	keeps(client)
}

func TestABackendThatIsSlowSlowsNoOtherCall(t *testing.T) {
	const calls = 50
	come, left := make(chan struct{}, calls), make(chan struct{}, calls)
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); string(body) == "slow" {
			come <- struct{}{}
			<-r.Context().Done()
			left <- struct{}{}
			return
		}
		_, _ = io.WriteString(w, "answer")
	}))
	before := now(t)
	conns := make([]net.Conn, calls)
	for i := range conns {
		conns[i], _ = b.dial()
		if err := half(conns[i], head("POST", 4)+"slow"); err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		until(t, "another call is answered", func() bool {
			response, err := b.patiently(http.MethodPost, "{}")
			return err == nil && text(t, response) == "answer"
		})
	}
	each := func(what <-chan struct{}, fails string) {
		for range calls {
			select {
			case <-what:
			case <-time.After(long):
				t.Fatal(fails)
			}
		}
	}
	each(come, "the backend did not get each slow call")
	for _, conn := range conns {
		_ = conn.Close()
	}
	each(left, "the backend did not hear that the clients have left")
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	settle(t, b, before)
}

// dropped is how many sessions are opened and dropped: many in make soak, which sets FREEHOLD_EXPLORE.
func dropped() int {
	if os.Getenv("FREEHOLD_EXPLORE") != "" {
		return 10_000
	}
	return 1000
}

// Clients seldom end their sessions. A sealed id is all there is of one.
func TestNothingIsLeftOfSessionsThatAreDropped(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Mcp-Session-Id", "7YQ2J5XWZK4N3M6P8R9S")
		if r.Method == http.MethodGet {
			events(w)("data: 1\n\n")
			<-r.Context().Done()
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	back := &backends{t: t, pods: []*pod{{Server: server}}, ready: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	_, back.port, _ = net.SplitHostPort(strings.TrimPrefix(server.URL, "http://"))
	b := back.before(secretOf(t))
	address := strings.TrimPrefix(b.url, "http://")
	drop := func(count int) {
		t.Helper()
		var group sync.WaitGroup
		for range atOnce {
			group.Go(func() {
				for range count / atOnce {
					conn, err := net.Dial("tcp", address)
					if err != nil {
						t.Error(err)
						return
					}
					_ = conn.SetDeadline(time.Now().Add(long))
					if err := begin(conn, bufio.NewReader(conn)); err != nil {
						t.Error(err)
					}
					_ = conn.Close()
				}
			})
		}
		group.Wait()
	}
	level := now(t)
	drop(2 * atOnce) // what is made once
	settle(t, b, level)
	before, count := heap(), dropped()
	drop(count)
	settle(t, b, level)
	if grown := heap() - before; grown > 256<<10 {
		t.Errorf("of %d sessions %d bytes are left", count, grown)
	}
}

// begin opens a session and its stream.
func begin(conn net.Conn, r *bufio.Reader) error {
	if err := half(conn, head("POST", len(initialize))+initialize); err != nil {
		return err
	}
	got := readHead(r)
	_, rest, named := strings.Cut(got, "Mcp-Session-Id: ")
	id, _, _ := strings.Cut(rest, "\r\n")
	if _, err := r.Discard(len("{}")); err != nil || !named {
		return fmt.Errorf("opening a session: %q, %w", got, err)
	}
	if err := half(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nMcp-Session-Id: "+id+"\r\n\r\n"); err != nil {
		return err
	}
	_, err := r.ReadString('1')
	return err
}

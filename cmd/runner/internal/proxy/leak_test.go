package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// connects is how often each kind of client comes, and atOnce how many of them
// are there at the same time.
const (
	connects = 1000
	atOnce   = 20
)

// level is what this process holds.
type level struct{ goroutines, descriptors int }

func now(t *testing.T) level {
	t.Helper()
	t.Helper()
	open, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return level{runtime.NumGoroutine(), len(open)}
}

func TestNothingIsLeftOfAThousandClients(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet:
			events(w)("data: 1\n\n")
			<-r.Context().Done()
		case string(body) == "die":
			events(w)("data: {\"half")
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, "answer")
		}
	}))
	defer upstream.Close()
	b := front(t, Config{}, upstream.URL)
	address := strings.TrimPrefix(b.url, "http://")
	for name, client := range map[string]func(net.Conn, *bufio.Reader) error{
		"a call": func(conn net.Conn, r *bufio.Reader) error {
			return says(conn, r, "POST", "{}")
		},
		"a stream that the client aborts": func(conn net.Conn, r *bufio.Reader) error {
			if err := says(conn, r, "GET", ""); err != nil {
				return err
			}
			_, err := r.ReadString('1')
			return err
		},
		"a stream whose backend dies": func(conn net.Conn, r *bufio.Reader) error {
			if err := says(conn, r, "POST", "die"); err != nil {
				return err
			}
			_, err := io.Copy(io.Discard, r)
			return err
		},
		"a DELETE": func(conn net.Conn, r *bufio.Reader) error { return says(conn, r, "DELETE", "") },
		"half a request": func(conn net.Conn, _ *bufio.Reader) error {
			return half(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-")
		},
		"half a body":               func(conn net.Conn, _ *bufio.Reader) error { return half(conn, head("POST", 100)+"{") },
		"a connection without call": func(net.Conn, *bufio.Reader) error { return nil },
		"a connection kept alive": func(conn net.Conn, r *bufio.Reader) error {
			if err := says(conn, r, "POST", "{}"); err != nil {
				return err
			}
			if _, err := r.Discard(len("answer")); err != nil {
				return err
			}
			return says(conn, r, "POST", "{}")
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := now(t)
			come(t, address, client)
			settle(t, b, before)
		})
	}
}

// come lets all clients come and leave without a word.
func come(t *testing.T, address string, client func(net.Conn, *bufio.Reader) error) {
	t.Helper()
	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			for range connects / atOnce {
				conn, err := net.Dial("tcp", address)
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.SetDeadline(time.Now().Add(time.Minute))
				if err := client(conn, bufio.NewReader(conn)); err != nil {
					t.Error(err)
				}
				_ = conn.Close()
			}
		})
	}
	group.Wait()
}

func head(method string, length int) string {
	return fmt.Sprintf("%s /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", method, length)
}

// says makes a call and reads the head of its answer.
func says(conn net.Conn, r *bufio.Reader, method, body string) error {
	if _, err := io.WriteString(conn, head(method, len(body))+body); err != nil {
		return err
	}
	if got := readHead(r); !strings.HasPrefix(got, "HTTP/1.1 200 OK") {
		return fmt.Errorf("%s got %q", method, got)
	}
	return nil
}

func half(conn net.Conn, text string) error {
	_, err := io.WriteString(conn, text)
	return err
}

// settle waits until everything is as it was before, connections to the
// backend that are kept for the next call aside.
func settle(t *testing.T, b *bench, before level) {
	t.Helper()
	var after level
	for end := time.Now().Add(4 * patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		b.upstream.young().CloseIdleConnections()
		b.proxy.traffic.mu.Lock()
		flights := len(b.proxy.traffic.flights) + b.proxy.traffic.calls
		b.proxy.traffic.mu.Unlock()
		if after = now(t); flights == 0 && after.goroutines <= before.goroutines && after.descriptors <= before.descriptors {
			return
		}
	}
	stacks := make([]byte, 64<<10)
	t.Errorf("before it held %+v, after %d clients %+v:\n%s", before, connects, after,
		stacks[:runtime.Stack(stacks, true)])
}

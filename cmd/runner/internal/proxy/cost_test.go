//go:build !race

// The race detector's own allocations, and a sync.Pool that forgets on purpose, would be counted.

package proxy

import (
	"bufio"
	"bytes"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// counted is how many calls are averaged, rounds how often: what else runs in the
// process meanwhile only adds to it, so that the least of them counts.
const (
	counted = 200
	rounds  = 5
)

func TestACallAllocatesLittle(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`
	result := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}`
	for name, tc := range map[string]struct {
		call, answer string
		// A tenth above what was counted when they were set. Most of it is the
		// standard library's: a bare ReverseProxy costs it too.
		allocations, bytes uint64
	}{
		"answered as JSON": {call, "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(result)) +
			"\r\n\r\n" + result, 115, 9300},
		"answered as an event": {call, "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" +
			chunk("event: message\ndata: "+result+"\n\n") + "0\r\n\r\n", 130, 10400},
		"with 16 KB both ways": {
			strings.Repeat("x", 16<<10),
			"Content-Type: application/json\r\nContent-Length: 16384\r\n\r\n" + strings.Repeat("x", 16<<10),
			124, 45000,
		},
		"with 1 MB": {
			strings.Repeat("x", 1<<20), "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
			124, 45000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := front(t, Config{}, "http://"+canned(t, tc.answer))
			allocations, size := cost(t, b.url, tc.call, modernHeaders)
			t.Logf("%d allocations of %d bytes a call", allocations, size)
			if allocations > tc.allocations || size > tc.bytes {
				t.Errorf("a call costs %d allocations of %d bytes, want at most %d and %d", allocations, size, tc.allocations,
					tc.bytes)
			}
		})
	}
}

// writes counts the writes to connections.
type writes struct {
	net.Listener
	count atomic.Int64
}

func (l *writes) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return countedConn{conn, &l.count}, err
}

type countedConn struct {
	net.Conn
	count *atomic.Int64
}

func (c countedConn) Write(p []byte) (int, error) {
	c.count.Add(1)
	return c.Conn.Write(p)
}

// To send the headers first costs a write and a goroutine for each call, a quarter
// of its processor time.
func TestAnAnswerOfKnownLengthIsSentInOneWrite(t *testing.T) {
	b := front(t, Config{}, "http://"+canned(t, "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	counting := &writes{Listener: listener}
	go func() { _ = b.server.Serve(counting) }()
	b.url = "http://" + listener.Addr().String()
	const calls = 20
	for range calls {
		if got := text(t, b.call(http.MethodPost, "/mcp", "{}")); got != "{}" {
			t.Fatalf("got %q", got)
		}
	}
	if n := counting.count.Load(); n > calls*3/2 { // some, where the machine is busy
		t.Errorf("%d answers took %d writes", calls, n)
	}
}

const modernHeaders = "Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"

// What a session costs is on top of a call without one: to open the id, and to find the
// pod among those known.
func TestASessionAllocatesLittle(t *testing.T) {
	const answer = "Content-Type: application/json\r\nMcp-Session-Id: 7YQ2J5XWZK4N3M6P8R9S\r\nContent-Length: 2\r\n\r\n{}"
	secret := secretOf(t)
	b := &backends{
		t: t, pods: []*pod{{Server: &httptest.Server{URL: "http://" + canned(t, answer)}}},
		ready: []netip.Addr{netip.MustParseAddr("127.0.0.1")},
	}
	_, b.port, _ = net.SplitHostPort(strings.TrimPrefix(b.pods[0].URL, "http://"))
	f := b.before(secret)
	id := f.call(http.MethodPost, "/mcp", initialize).Header.Get(protocol.HeaderSession)
	none, noneSize := cost(t, f.url, "{}", modernHeaders)
	some, someSize := cost(t, f.url, "{}", protocol.HeaderSession+": "+id+"\r\nMcp-Protocol-Version: 2025-11-25\r\n")
	t.Logf("a session costs %d allocations of %d bytes above %d of %d", some-none, someSize-noneSize, none, noneSize)
	// A tenth above what was counted when they were set.
	if some > none+7 || someSize > noneSize+310 {
		t.Errorf("a session costs %d allocations of %d bytes", some-none, someSize-noneSize)
	}
}

// cost is what everything in this process allocates for one call. Client and
// backend are made so that it is the proxy alone.
func cost(t *testing.T, url, body, headers string) (allocations, size uint64) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := []byte("POST /mcp HTTP/1.1\r\nHost: echo-proxy\r\nUser-Agent: test\r\nAccept: application/json, " +
		"text/event-stream\r\n" +
		"Content-Type: application/json\r\n" + headers +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	reader := bufio.NewReaderSize(conn, 64<<10)
	call := func() {
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		if err := message(reader); err != nil {
			t.Fatal(err)
		}
	}
	// A collection in between would empty the pools.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	for range 20 {
		call()
	}
	allocations, size = math.MaxUint64, math.MaxUint64
	for range rounds {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range counted {
			call()
		}
		runtime.ReadMemStats(&after)
		allocations = min(allocations, (after.Mallocs-before.Mallocs+counted/2)/counted)
		size = min(size, (after.TotalAlloc-before.TotalAlloc+counted/2)/counted)
	}
	return allocations, size
}

// canned is the address of a backend that answers each request with the same
// bytes after its status line.
func canned(t *testing.T, answer string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	response := []byte("HTTP/1.1 200 OK\r\n" + answer)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				reader := bufio.NewReaderSize(conn, 64<<10)
				for message(reader) == nil {
					if _, err := conn.Write(response); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

var (
	lengthName  = []byte("Content-Length: ")
	chunkedName = []byte("Transfer-Encoding: ")
)

// message reads one HTTP message and allocates nothing.
func message(r *bufio.Reader) error {
	length, chunked := 0, false
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		line = line[:len(line)-2]
		switch {
		case bytes.HasPrefix(line, lengthName):
			length = number(line[len(lengthName):], 10)
		case bytes.HasPrefix(line, chunkedName):
			chunked = true
		case len(line) == 0 && !chunked:
			_, err := r.Discard(length)
			return err
		case len(line) == 0:
			return chunks(r)
		}
	}
}

func chunks(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		size := number(line[:len(line)-2], 16)
		if _, err := r.Discard(size + 2); err != nil || size == 0 {
			return err
		}
	}
}

func number(digits []byte, base int) int {
	n := 0
	for _, d := range digits {
		n = n*base + strings.IndexByte("0123456789abcdef", d)
	}
	return n
}

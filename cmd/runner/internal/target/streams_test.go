//go:build !race

// The race detector's own memory would be counted.

package target

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

const (
	listed = `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"add"},{"name":"drop"}]}}`
	shown  = `{"jsonrpc":"2.0","id":7,"result":{"tools":[{"name":"add"}]}}`
)

// standing is a backend that answers each request with a stream, of which say writes an event to all.
type standing struct {
	address string
	opened  chan net.Conn
}

func stands(t *testing.T) *standing {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &standing{listener.Addr().String(), make(chan net.Conn, 1000)}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		defer close(s.opened)
		reader := bufio.NewReader(nil)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			reader.Reset(conn)
			for line := ""; line != "\r\n" && err == nil; {
				line, err = reader.ReadString('\n')
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"+
				"\r\n")
			says(conn, listed)
			s.opened <- conn
		}
	}()
	return s
}

func says(conn net.Conn, message string) {
	event := "data: " + message + "\n\n"
	_, _ = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(event), event)
}

// judging is a proxy with policies, which permit one of two tools.
func judging(t *testing.T, backend string) (address string) {
	t.Helper()
	run := sample(func(r *runconfig.Target) {
		r.Proxy.Authorization = twenty()
		r.Proxy.Authorization.Policies = append(r.Proxy.Authorization.Policies,
			runconfig.Policy{Name: "p", Text: `permit(principal, action, resource == Tool::"add");`})
	})
	logger := slog.New(slog.DiscardHandler)
	judge, err := made(t, Config{Run: run}).authorize(logger)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := proxy.New(proxy.Process{Log: logger}, map[string]proxy.Config{"/mcp": {
		Authorize: judge, Upstream: proxy.Fixed(&url.URL{Scheme: "http", Host: backend}), Log: logger,
	}}).Server()
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

// listens opens a stream and reads its first event.
func listens(t *testing.T, address string, reader *bufio.Reader) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Minute))
	_, _ = io.WriteString(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nAccept: "+
		"text/event-stream\r\nMcp-Session-Id: 123\r\nMcp-Protocol-Version: 2025-11-25\r\n\r\n")
	reader.Reset(conn)
	hears(t, reader, shown)
	return conn
}

// hears reads a stream up to an event.
func hears(t *testing.T, reader *bufio.Reader, message string) {
	t.Helper()
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := strings.CutPrefix(line, "data: "); ok {
			if got != message+"\n" {
				t.Fatalf("got %q, want %q", got, message)
			}
			return
		}
	}
}

// A stream that policies filter leaves net/http while it is silent, and is filtered all the same.
func TestAStreamWithPoliciesTakesLittle(t *testing.T) {
	const streams = 300
	backend := stands(t)
	address := judging(t, backend.address)
	reader, conns := bufio.NewReader(nil), make([]net.Conn, 0, streams+1)
	open := func() { conns = append(conns, listens(t, address, reader)) }
	open()
	before, some := live()
	for range streams {
		open()
	}
	after, more := live()
	each := (after - before) / streams
	t.Logf("a silent stream takes %d bytes and %.1f goroutines", each, float64(more-some)/streams)
	if each > 24<<10 || more-some > 2*streams+20 {
		t.Errorf("a silent stream takes %d bytes and %.1f goroutines, want at most 24 KiB and 2", each,
			float64(more-some)/streams)
	}
	// Long and short events, each in its turn.
	first := <-backend.opened
	reader.Reset(conns[0])
	for _, n := range []int{1, 100_000, 2} {
		long := strings.Repeat("x", n)
		says(first, strings.Replace(listed, `"add"`, `"add","title":"`+long+`"`, 1))
		hears(t, reader, strings.Replace(shown, `"add"`, `"add","title":"`+long+`"`, 1))
	}
	// What cannot be filtered is left out, and the stream goes on.
	says(first, `{"result":{"tools":`)
	says(first, listed)
	hears(t, reader, shown)
	for _, conn := range conns {
		_ = conn.Close()
	}
}

// live is what lives in heap and stacks when all has come to rest, and how many goroutines.
func live() (bytes, goroutines int) {
	for still, n := 0, 0; still < 3 && n < 100; n++ { // for so long has none ended
		was := runtime.NumGoroutine()
		time.Sleep(100 * time.Millisecond)
		if still++; runtime.NumGoroutine() != was {
			still = 0
		}
	}
	for range 5 { // a stack is halved by one collection, a pool is emptied by two
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc + stats.StackInuse), runtime.NumGoroutine()
}

//go:build !race

// The race detector's own memory would be counted.

package proxy

import (
	"bufio"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"
)

// idleStreams is how many are open at once, to tell what one takes.
const idleStreams = 400

// silent is the address of a backend that opens a stream for each request, sends one event and is silent from then on.
// It has no goroutine for a stream, so that what this process takes is the proxy's.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	opened := make([]net.Conn, 0, 2*idleStreams)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
		for _, conn := range opened {
			_ = conn.Close()
		}
	})
	go func() {
		defer close(done)
		reader := bufio.NewReader(nil)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			opened = append(opened, conn)
			reader.Reset(conn)
			if message(reader) == nil {
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: "+
					"chunked\r\n\r\n"+chunk("data: 1\n\n"))
			}
		}
	}()
	return listener.Addr().String()
}

// taken is what one of many open streams takes of this process, in bytes of heap and of stacks, and how many
// goroutines.
func taken(t *testing.T, address string) (bytes, goroutines float64) {
	t.Helper()
	request := []byte("GET /mcp HTTP/1.1\r\nHost: localhost\r\nUser-Agent: test\r\nAccept: text/event-stream\r\n" +
		modernHeaders + "\r\n")
	reader, conns := bufio.NewReader(nil), make([]net.Conn, 0, idleStreams)
	open := func() {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		reader.Reset(conn)
		for line := ""; line != "data: 1\n"; {
			if line, err = reader.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	open()
	before, some := kept()
	for range idleStreams {
		open()
	}
	after, more := kept()
	for _, conn := range conns {
		_ = conn.Close()
	}
	runtime.KeepAlive(reader)
	return (after - before) / idleStreams, (more - some) / idleStreams
}

// kept is what lives in heap and stacks when all has come to rest.
func kept() (bytes, goroutines float64) {
	for still, n := 0, 0; still < 3 && n < 100; n++ { // for so long has no goroutine ended
		was := runtime.NumGoroutine()
		time.Sleep(100 * time.Millisecond)
		if still++; runtime.NumGoroutine() != was {
			still = 0
		}
	}
	for range 3 { // a stack is halved by one collection, a pool is emptied by two
		runtime.GC()
	}
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc + stats.StackInuse), float64(runtime.NumGoroutine())
}

// A third above what was counted when it was set, since stacks double.
func TestAnIdleStreamTakesLittle(t *testing.T) {
	ours, goroutines := taken(t, strings.TrimPrefix(front(t, Config{}, "http://"+silent(t)).url, "http://"))
	bare, bareGoroutines := taken(t, bareProxy(t, silent(t)))
	t.Logf("an idle stream takes %.0f bytes and %.1f goroutines, of a bare ReverseProxy %.0f and %.1f", ours, goroutines,
		bare, bareGoroutines)
	if ours > 18<<10 || goroutines > 2.1 {
		t.Errorf("an idle stream takes %.0f bytes and %.1f goroutines, want at most 18 KiB and 2", ours, goroutines)
	}
}

func bareProxy(t *testing.T, backend string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: &httputil.ReverseProxy{
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: backend}) },
		ErrorLog: log.New(io.Discard, "", 0),
	}}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// attack is a way to make the runner take memory. It comes from an address of its own.
type attack struct {
	name string
	// policies says that the runner has some.
	policies bool
	run      func(ctx context.Context, p *process)
}

var from = &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second}

var attacks = []attack{
	{"heads of tiny fields, unfinished", false, func(ctx context.Context, p *process) {
		raw(ctx, p.calls, 1500, "POST /mcp HTTP/1.1\r\n"+fields(60<<10))
	}},
	{"the same at the port of probes", false, func(ctx context.Context, p *process) {
		raw(ctx, p.probes, 60, "GET /livez HTTP/1.1\r\n"+fields(900<<10))
	}},
	{"heads within the bounds, unfinished", false, func(ctx context.Context, p *process) {
		raw(ctx, p.calls, 2300, "POST /mcp HTTP/1.1\r\n"+strings.Repeat("X-Long: "+strings.Repeat("x", 120)+"\r\n", 118))
	}},
	{"batches of two million numbers", true, func(ctx context.Context, p *process) {
		posts(ctx, p, 16, "", "["+strings.Repeat("0,", 2<<20-8)+"0]")
	}},
	{"such batches without policies", false, func(ctx context.Context, p *process) {
		posts(ctx, p, 16, "", "["+strings.Repeat("0,", 2<<20-8)+"0]")
	}},
	{"bodies of many small members", false, func(ctx context.Context, p *process) {
		posts(ctx, p, 16, "echo", message("tools/call", `"name":"echo","arguments":{`+members(3900<<10)+`}`))
	}},
	{"as many members as are allowed", false, func(ctx context.Context, p *process) {
		posts(ctx, p, 16, "echo", message("tools/call", `"name":"echo","arguments":{`+members(900<<10)+`}`))
	}},
	{"sessions with many headers", false, sessions},
	{"20 answers of 5 MiB at once", false, func(ctx context.Context, p *process) {
		posts(ctx, p, 20, "picture", message("tools/call", `"name":"picture"`))
	}},
	{"clients that read answers of 15 MiB slowly", false, func(ctx context.Context, p *process) {
		each(ctx, 12, func(ctx context.Context, _ int) { slowly(ctx, p) })
	}},
	{"arguments that collide in a set", true, func(ctx context.Context, p *process) {
		posts(ctx, p, 12, "echo", message("tools/call", `"name":"echo","arguments":{"a":`+pairs(5000)+`}`))
	}},
	{"a batch of them", true, func(ctx context.Context, p *process) {
		one := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":` + pairs(6000) + `}}}`
		posts(ctx, p, 4, "", "["+strings.Repeat(one+",", 47)+one+"]")
	}},
	{"bodies of 64 KiB that do not end", true, func(ctx context.Context, p *process) {
		raw(ctx, p.calls, 2300, "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "+
			"65536\r\n\r\n"+strings.Repeat(" ", 65000))
	}},
	{"such bodies without policies", false, func(ctx context.Context, p *process) {
		raw(ctx, p.calls, 2300, "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: "+
			"65536\r\n\r\n"+strings.Repeat(" ", 65000))
	}},
	{"calls of 60 KB that are not answered", false, func(ctx context.Context, p *process) {
		posts(ctx, p, 2200, "hang", message("tools/call",
			`"name":"hang","arguments":{"x":"`+strings.Repeat("x", 60_000)+`"}`))
	}},
	{"subscriptions of 60 KB", false, func(ctx context.Context, p *process) {
		post(ctx, p, 2200, "subscriptions/listen", "",
			message("subscriptions/listen", `"notifications":{"toolsListChanged":true},"x":"`+strings.Repeat("x", 60_000)+`"`))
	}},
}

// everything is all of them at once.
var everything = attack{"all at once", true, func(ctx context.Context, p *process) {
	var all sync.WaitGroup
	for _, a := range attacks {
		all.Go(func() { a.run(ctx, p) })
	}
	all.Wait()
}}

// each runs so many at a time until ctx ends.
func each(ctx context.Context, n int, do func(ctx context.Context, i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for ctx.Err() == nil {
				do(ctx, i)
				select {
				case <-time.After(20 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		})
	}
	all.Wait()
}

// raw holds connections on which something was sent. What the runner closes is opened again.
func raw(ctx context.Context, address string, n int, sent string) {
	each(ctx, n, func(ctx context.Context, _ int) {
		conn, err := from.DialContext(ctx, "tcp", address)
		if err != nil {
			return
		}
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })() //nolint:errcheck // nothing is to be lost
		if _, err := io.WriteString(conn, sent); err == nil {
			_, _ = io.Copy(io.Discard, conn) //nolint:errcheck // its end is what is waited for
		}
		_ = conn.Close() //nolint:errcheck // nothing is to be lost
		pause(ctx)
	})
}

func pause(ctx context.Context) {
	select {
	case <-time.After(500 * time.Millisecond):
	case <-ctx.Done():
	}
}

func posts(ctx context.Context, p *process, n int, name, body string) {
	post(ctx, p, n, "tools/call", name, body)
}

// post makes calls, so many at a time, and reads their answers.
func post(ctx context.Context, p *process, n int, method, name, body string) {
	client := &http.Client{Transport: &http.Transport{DialContext: from.DialContext, MaxIdleConnsPerHost: n}}
	defer client.CloseIdleConnections()
	each(ctx, n, func(ctx context.Context, _ int) {
		r, err := request(ctx, "http://"+p.calls+"/mcp", method, name, body)
		if err != nil {
			return
		}
		if strings.HasPrefix(body, "[") { // of the legacy era
			r.Header.Del("Mcp-Protocol-Version")
			r.Header.Del("Mcp-Method")
		}
		response, err := client.Do(r)
		if err != nil {
			pause(ctx)
			return
		}
		_, _ = io.Copy(io.Discard, response.Body) //nolint:errcheck // whatever comes
		_ = response.Body.Close()                 //nolint:errcheck // it was read
		if response.StatusCode != http.StatusOK {
			pause(ctx)
		}
	})
}

// sessions begins one session after the other, each for another client.
func sessions(ctx context.Context, p *process) {
	client := &http.Client{Transport: &http.Transport{DialContext: from.DialContext}}
	defer client.CloseIdleConnections()
	for n := 0; ctx.Err() == nil; n++ {
		body := strings.Replace(message("tools/list", `"x":0`), `"_meta":{`,
			fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"%d","version":"1"},`, n), 1)
		r, err := request(ctx, "http://"+p.calls+"/mcp", "tools/list", "", body)
		if err != nil {
			return
		}
		for i := range 110 {
			r.Header.Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 100))
		}
		if response, err := client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body) //nolint:errcheck // whatever comes
			_ = response.Body.Close()                 //nolint:errcheck // it was read
		}
	}
}

// slowly makes a call whose answer is read byte by byte.
func slowly(ctx context.Context, p *process) {
	conn, err := from.DialContext(ctx, "tcp", p.calls)
	if err != nil {
		return
	}
	defer func() { _ = conn.Close() }()            //nolint:errcheck // nothing is to be lost
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10) //nolint:errcheck,forcetypeassert // of this machine
	body := message("tools/call", `"name":"film"`)
	_, _ = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAccept: "+
		"application/json, text/event-stream\r\n"+
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: film\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	for ctx.Err() == nil {
		if _, err := conn.Read(make([]byte, 64)); err != nil {
			return
		}
		pause(ctx)
	}
}

func fields(size int) string {
	var all strings.Builder
	for i := 0; all.Len() < size; i++ {
		fmt.Fprintf(&all, "%x:\r\n", i)
	}
	return all.String()
}

func members(size int) string {
	var all strings.Builder
	for i := 0; all.Len() < size; i++ {
		fmt.Fprintf(&all, `"%x":0,`, i)
	}
	return all.String() + `"end":0`
}

// pairs have one sum, and so one hash as sets of Cedar.
func pairs(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("[%d,%d]", i, 2*n-i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

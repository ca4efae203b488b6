package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The kinds of calls.
const (
	asJSON  = "json"
	asEvent = "event"
	asList  = "list"
	// asSession is a call of the legacy era, in a session of its connection.
	asSession = "session"
	// asStdio is the same, to a server that speaks on standard input and output.
	asStdio = "stdio"
	// asLate and asLater are JSON from a backend that takes its time.
	asLate  = "json after 1 ms"
	asLater = "json after 10 ms"
	// asStream is a GET that opens a stream.
	asStream = ""
)

var kinds = []string{asJSON, asLate, asLater, asEvent, asList, asSession, asStdio}

// takes is how long the backend takes for a call.
var takes = map[string]time.Duration{asLate: time.Millisecond, asLater: 10 * time.Millisecond}

// sessionHeader is in Go's spelling.
const sessionHeader = "Mcp-Session-Id"

const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"},` +
	`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`

// lists asks for the tools.
const lists = `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`

// request is a request of a kind.
func request(kind, token string) []byte {
	method, rpc, body, name := "POST", "tools/call", strings.Replace(call, "echo", kind, 1), kind
	switch kind {
	case asStream:
		method, body, name = "GET", "", asEvent
	case asList:
		rpc, body = "tools/list", lists
	}
	return []byte(method + " /mcp HTTP/1.1\r\nHost: bench-proxy:8000\r\nUser-Agent: bench\r\nAuthorization: Bearer " +
		token + "\r\n" +
		"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n" +
		"Mcp-Protocol-Version: 2026-07-28\r\nMcp-Method: " + rpc + "\r\nMcp-Name: " + name + "\r\n" +
		"Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// turn is what one contender did in one turn.
type turn struct {
	calls   int
	seconds float64
	// p50 and p99 are latencies in microseconds.
	p50, p99 float64
	// failed are calls without a whole answer.
	failed int
	// work is how long the contender kept a core busy.
	work time.Duration
}

// takeTurn calls a process over some connections, each with one call at a time,
// for a while.
func (p *process) takeTurn(kind string, connections int, length time.Duration) (turn, error) {
	var (
		all    []time.Duration
		mu     sync.Mutex
		group  sync.WaitGroup
		lost   int
		failed error
	)
	calls := make([][]byte, connections)
	for number := range calls {
		if calls[number], failed = p.callOf(kind, number); failed != nil {
			return turn{}, failed
		}
	}
	began := time.Now()
	for _, call := range calls {
		group.Go(func() {
			took, failures, err := p.busy(call, began.Add(length))
			mu.Lock()
			defer mu.Unlock()
			all, lost = append(all, took...), lost+failures
			if err != nil {
				failed = fmt.Errorf("calling: %w", err)
			}
		})
	}
	group.Wait()
	if failed != nil {
		return turn{}, failed
	}
	if len(all) == 0 {
		return turn{}, fmt.Errorf("no call ended within %s", length)
	}
	slices.Sort(all)
	t := turn{calls: len(all), failed: lost, seconds: time.Since(began).Seconds()}
	t.p50, t.p99 = micros(all[len(all)/2]), micros(all[len(all)*99/100])
	return t, nil
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// patience is how many calls may fail one after the other.
const patience = 10

// busy calls over one connection until end, at least once, and returns how long each
// call took. A call that fails is counted, and costs a new connection.
func (p *process) busy(call []byte, end time.Time) (took []time.Duration, failed int, err error) {
	took = make([]time.Duration, 0, 1<<16)
	id := idOf(call)
	for unlucky := 0; len(took) == 0 || time.Now().Before(end); {
		before := len(took)
		took, err = p.over(call, id, end, took)
		if len(took) > before {
			unlucky = 0
		}
		if err == nil {
			break
		}
		failed++
		if unlucky++; unlucky == patience {
			return took, failed, err
		}
	}
	return took, failed, nil
}

// over calls over one connection until end or a failure.
func (p *process) over(call, id []byte, end time.Time, took []time.Duration) ([]time.Duration, error) {
	conn, err := net.Dial("tcp", p.calls) //nolint:noctx // the deadline below ends it
	if err != nil {
		return took, err
	}
	defer conn.Close() //nolint:errcheck // it did its work
	if err := conn.SetDeadline(end.Add(10 * time.Second)); err != nil {
		return took, err
	}
	reader, want := bufio.NewReader(conn), 0
	for last := time.Now(); len(took) == 0 || last.Before(end); {
		if id != nil {
			strconv.AppendInt(id, firstID+ids.Add(1), 10) // in place
		}
		if _, err := conn.Write(call); err != nil {
			return took, err
		}
		got, err := readAnswer(reader)
		if err != nil {
			return took, err
		}
		if want == 0 {
			want = got
		}
		// A bridge that waits for a while answers with events.
		if got == 0 || got != want && id == nil {
			return took, fmt.Errorf("got an answer of %d bytes, not of %d", got, want)
		}
		now := time.Now()
		took = append(took, now.Sub(last))
		last = now
	}
	return took, nil
}

var (
	ok          = []byte("HTTP/1.1 20")
	lengthName  = []byte("content-length: ")
	chunked     = []byte("transfer-encoding: chunked")
	sessionName = []byte("mcp-session-id: ")
)

// answerHead is the head of an answer.
type answerHead struct {
	// length is that of the body, -1 if it comes in chunks.
	length  int
	session string
}

// readHead reads the head of an answer.
func readHead(r *bufio.Reader) (head answerHead, err error) {
	for first := true; ; first = false {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return head, err
		}
		line = bytes.TrimRight(line, "\r\n")
		switch {
		case first && !bytes.HasPrefix(line, ok):
			return head, fmt.Errorf("the answer is %q", line)
		case has(line, lengthName):
			if head.length, err = strconv.Atoi(string(line[len(lengthName):])); err != nil {
				return head, err
			}
		case has(line, chunked):
			head.length = -1
		case has(line, sessionName):
			head.session = string(line[len(sessionName):])
		case len(line) == 0:
			return head, nil
		}
	}
}

// has reports whether a line begins with a name, whose letters may be large ones.
func has(line, name []byte) bool {
	return len(line) >= len(name) && bytes.EqualFold(line[:len(name)], name)
}

// readAnswer reads an answer and tells how long its body is.
func readAnswer(r *bufio.Reader) (length int, err error) {
	head, err := readHead(r)
	if err != nil {
		return 0, err
	}
	return head.rest(r)
}

// rest reads what comes behind a head.
func (h answerHead) rest(r *bufio.Reader) (length int, err error) {
	if h.length >= 0 {
		return r.Discard(h.length)
	}
	for length = 0; ; {
		size, err := readChunk(r)
		if err != nil || size == 0 {
			return length, err
		}
		length += int(size)
	}
}

func readChunk(r *bufio.Reader) (size int64, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	size, err = strconv.ParseInt(string(bytes.TrimRight(line, "\r\n")), 16, 32)
	if err != nil {
		return 0, err
	}
	_, err = r.Discard(int(size) + 2)
	return size, err
}

// openStream opens an event stream and reads its first event.
func (p *process) openStream() (net.Conn, error) {
	conn, err := net.Dial("tcp", p.calls) //nolint:noctx // the deadline below ends it
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return conn, err
	}
	if _, err := conn.Write(request(asStream, p.token)); err != nil {
		return conn, err
	}
	reader := bufio.NewReader(conn)
	if _, err := readHead(reader); err != nil {
		return conn, err
	}
	_, err = readChunk(reader)
	return conn, err
}

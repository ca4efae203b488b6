//go:build clients

package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// crowdMost is how many requests fill the largest bound there is with tightMemory, and more.
const crowdMost = 300

// tightMemory gives a caller 256 calls at a time, so that a crowd is no more than that.
const tightMemory = "GOMEMLIMIT=64MiB"

// crowded is in the messages that backends leave unanswered.
const crowded = `"name":"crowd"`

// crowd are requests that come before the client's, until one of them is refused. The others wait for their answers.
type crowd struct {
	once sync.Once
	// fill sends them, as a request of the client with its body is sent.
	fill func(t *testing.T, proxy string, r *http.Request, body []byte)
}

// before has the crowd come before what it is for: whatever a client sends first, or its call.
func (c *crowd) before(t *testing.T, called bool, proxy func() string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		if !called || bytes.Contains(body, []byte(`"tools/call"`)) {
			c.once.Do(func() { c.fill(t, proxy(), r, body) })
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// beginners begin as many sessions as one caller may have requests on their way, and are not answered.
func beginners() *crowd {
	return &crowd{fill: func(t *testing.T, proxy string, r *http.Request, _ []byte) {
		flood(t, proxy, r.Header, "TooManyCalls", func(int) string { return beginning })
	}}
}

// callers repeat the client's call, which nobody answers.
func callers() *crowd {
	return &crowd{fill: func(t *testing.T, proxy string, r *http.Request, body []byte) {
		flood(t, proxy, r.Header, "Busy", func(n int) string {
			return strings.Replace(string(body), `"id":`, fmt.Sprintf(`"id":%d`, 1000+n), 1)
		})
	}}
}

// guests begin sessions with a call each, until there is no room for another.
func guests() *crowd {
	return &crowd{fill: func(t *testing.T, proxy string, _ *http.Request, _ []byte) {
		header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
		for range crowdMost {
			id, said, err := sendTo(t, proxy, 1, header, beginning)
			if err != nil || strings.Contains(said, "Busy") {
				break
			}
			its := header.Clone()
			its.Set("Mcp-Session-Id", id)
			go sendTo(t, proxy, 1, its, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"say"}}`)
			time.Sleep(50 * time.Millisecond) // a session without a call makes room for another
		}
	}}
}

const beginning = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{` + crowded + `,"version":"1"}}}`

// flood sends requests at once until one of them is refused with the word.
func flood(t *testing.T, proxy string, header http.Header, word string, message func(n int) string) {
	t.Helper()
	full, others := make(chan struct{}, crowdMost), make(chan string, crowdMost)
	for n := range crowdMost {
		go func() {
			_, said, err := sendTo(t, proxy, n, header, message(n))
			switch {
			case err == nil && strings.Contains(said, word):
				full <- struct{}{}
			case t.Context().Err() == nil:
				others <- fmt.Sprint(said, err)
			}
		}()
	}
	select {
	case <-full:
	case <-time.After(patience):
		t.Errorf("of %d requests none was refused with %s; others: %d", crowdMost, word, len(others))
		for range min(1, len(others)) {
			t.Log(<-others)
		}
	}
}

// sendTo sends a message from one of three addresses, since one has half of the connections that there are.
func sendTo(
	t *testing.T, proxy string, n int, header http.Header, message string,
) (session, said string, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+proxy+"/mcp",
		strings.NewReader(message))
	if err != nil {
		return "", "", err
	}
	request.Header = header.Clone()
	request.Header.Del("Content-Length")
	from := &http.Transport{DisableKeepAlives: true, DialContext: (&net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+n%3))},
	}).DialContext}
	response, err := from.RoundTrip(request)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.Header.Get("Mcp-Session-Id"), string(body), err
}

// leavesCalls is a server on standard input and output with the tool "say", which answers no call of it.
const leavesCalls = `while read -r l; do id=$(printf %s "$l" | sed -n 's/.*"id":\([^,}]*\).*/\1/p'); case $l in ` +
	`*'"tools/call"'*) continue;; *'"initialize"'*) a='"result":{"protocolVersion":"2025-06-18","capabilities":` +
	`{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}';; *'"tools/list"'*) a='"result":{"tools":[{"name":"say",` +
	`"inputSchema":{"type":"object"}}]}';; *) a='"error":{"code":-32601,"message":"no such method"}';; esac; ` +
	`[ -z "$id" ] || printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$a"; done`

// bridge is a bridge of the runner's own program before that server, with so many sessions.
func bridge(t *testing.T, run runconfig.RunConfig, sessions int) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	sums, err := session.Follow(keys(t), "", run.Server.UID).Sums()
	if err != nil {
		t.Fatal(err)
	}
	at := address(t)
	p := &process{t: t}
	p.command = exec.CommandContext(t.Context(), path, runconfig.BridgeCommand, "-address", at,
		"-sessions", fmt.Sprint(sessions), "--", "sh", "-c", leavesCalls)
	p.command.Env = append(os.Environ(), runconfig.EnvProxySum+"="+sums[0])
	p.command.Stderr = p
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.command.Process.Kill(); _ = p.command.Wait() })
	return "http://" + at
}

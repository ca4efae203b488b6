package bridge

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// read is what a session's standing stream says until it has all parts.
func (f front) read(session string, parts ...string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, http.NoBody)
	if err != nil {
		f.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set(protocol.HeaderSession, session)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	var all strings.Builder
	missing := func(part string) bool { return !strings.Contains(all.String(), part) }
	for buffer := make([]byte, 4<<10); ; {
		n, err := response.Body.Read(buffer)
		all.Write(buffer[:n])
		has := true
		for _, part := range parts {
			has = has && !missing(part)
		}
		if has || err != nil {
			return all.String()
		}
	}
}

// MCP lets a server log and ping before the client has said that it is initialized:
// https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle#initialization
func TestWhatAServerSaysBeforeItAnswersInitializeWaitsForTheStandingStream(t *testing.T) {
	for name, body := range map[string]string{
		"plain":            hello,
		"with a token":     strings.Replace(hello, `"params":{`, `"params":{"_meta":{"progressToken":"mine"},`, 1),
		"answered as text": hello,
	} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, Config{Server: child("early")})
			var headers []string
			if name == "answered as text" {
				headers = []string{"Accept", "text/event-stream"}
			}
			a := f.post(body, headers...)
			session := a.header.Get(protocol.HeaderSession)
			f.want(a, http.StatusOK, `"id":"hello","result":{"protocolVersion"`)
			if session == "" {
				t.Fatalf("no session: %s", a.body)
			}
			wants := []string{`"data":"waiting"`, `"id":"p","method":"ping"`}
			if name == "with a token" {
				wants = append(wants, `"progressToken":"mine"`)
			}
			said := f.read(session, wants...)
			for _, want := range wants {
				if strings.Count(said, want) != 1 {
					t.Errorf("%s is not once in %s", want, said)
				}
			}
			f.want(f.call(session, "1", "pid"), http.StatusOK)
		})
	}
}

// A client waits for a server that starts slowly, and starts no other one.
func TestAClientOfTheModernEraWaitsForASlowStart(t *testing.T) {
	f := serve(t, Config{Server: child("slow")})
	a := f.modernly("1", protocol.MethodDiscover, "")
	f.want(a, http.StatusBadRequest, `"code":-32022`, `"supported":["2025-11-25"`)
}

// A server that can read no more and lives is of no use: calls would fail for ever.
func TestAServerThatClosesItsInputIsEnded(t *testing.T) {
	for name, shared := range map[string]bool{"each its own": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			f := serve(t, Config{Server: child(""), Shared: shared})
			session := f.begin()
			first := result[int](t, f.call(session, "1", "pid"))
			f.want(f.call(session, "2", "unread"), http.StatusOK)
			f.wantFailed(f.call(session, "3", "pid"), "does not read its standard input")
			within(t, time.Minute, "its process ends", func() bool { return gone(first) })
			within(t, time.Minute, "its session ends",
				func() bool { return f.call(session, "4", "pid").status == http.StatusNotFound })
			if second := result[int](t, f.call(f.begin(), "1", "pid")); second == first {
				t.Error("the same process")
			}
		})
	}
}

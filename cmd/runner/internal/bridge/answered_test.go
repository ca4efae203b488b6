package bridge

import (
	"bufio"
	"cmp"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A server may spell the id of a call in another way, and leave it out where there is one call alone.
func TestAnAnswerWhoseIDIsSpelledInAnotherWay(t *testing.T) {
	for name, tc := range map[string]struct {
		says, want string
		calls      int
	}{
		"as a text": {
			`{"jsonrpc":"2.0","id":"1","result":{}}`,
			`{"jsonrpc":"2.0","id":"a","result":{}}`, 2,
		},
		"as a number with a fraction": {
			`{"jsonrpc":"2.0","id":1.0,"result":{}}`,
			`{"jsonrpc":"2.0","id":"a","result":{}}`, 2,
		},
		"an error without an id": {
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`,
			`{"jsonrpc":"2.0","id":"a","error":{"code":-32700,"message":"what?"}}`, 1,
		},
		"an error without an id of which": {`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`, "", 2},
		"another number":                  {`{"jsonrpc":"2.0","id":1.5,"result":{}}`, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			conn := newPipe(t)
			b, p := peered(t, conn, false)
			s, x := sessionOf(b, p), b.stream("t", false, "")
			x.begin(tc.calls)
			for _, id := range []string{`"a"`, `"b"`}[:tc.calls] {
				if f := s.post(t.Context(), []jsonrpc.Message{{ID: []byte(id), Method: "tools/call"}}, x); f != nil {
					t.Fatal(f)
				}
				next(t, "call", conn.sent)
			}
			conn.says <- tc.says
			conn.says <- `{"jsonrpc":"2.0","id":1,"result":{"late":true}}`
			want := cmp.Or(tc.want, `{"jsonrpc":"2.0","id":"a","result":{"late":true}}`)
			if e, _, _ := x.take(t.Context(), x.reader); string(e.data) != want {
				t.Errorf("the client gets %s, want %s", e.data, want)
			}
		})
	}
}

// A server may spell the token of a call in another way where it tells its progress, and a client the id of a call that
// it cancels.
func TestATokenAndACancellationThatAreSpelledInAnotherWay(t *testing.T) {
	for name, alone := range map[string]bool{"a server of one client": true, "a server of many clients": false} {
		for _, spelled := range []string{`"1"`, "1.0"} {
			t.Run(name+": "+spelled, func(t *testing.T) {
				conn := newPipe(t)
				b, p := peered(t, conn, alone)
				s, x := sessionOf(b, p), b.stream("t", false, "")
				x.begin(1)
				call := jsonrpc.Message{ID: []byte("1"), Method: "tools/call", Params: []byte(`{"_meta":{"progressToken":1}}`)}
				if f := s.post(t.Context(), []jsonrpc.Message{call}, x); f != nil {
					t.Fatal(f)
				}
				next(t, "call", conn.sent)
				conn.says <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + spelled +
					`,"progress":1}}`
				soon, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				if e, _, _ := x.take(soon, x.reader); !strings.Contains(string(e.data), `"progressToken":1,`) {
					t.Errorf("the client gets %s", e.data)
				}
				cancel := jsonrpc.Message{Method: methodCancelled, Params: []byte(`{"requestId":` + spelled + `}`)}
				if f := s.post(t.Context(), []jsonrpc.Message{cancel}, nil); f != nil {
					t.Fatal(f)
				}
				next(t, "cancellation", conn.sent)
				if waiting := p.mine(nil); len(waiting) > 0 {
					t.Errorf("%d calls wait after the cancellation", len(waiting))
				}
			})
		}
	}
}

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

// A trace goes on in the server, and what it says of how long a list stands is its own: nothing is kept.
func TestWhatIsOfNoConcernPasses(t *testing.T) {
	const traced = `"traceparent":"00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01","tracestate":"a=b"`
	bothEras(t, func(t *testing.T, s sharing) {
		for _, c := range []client{s.client(), s.client()} {
			answered := c.calls(t.Context(), "1", "prompts/list", `"_meta":{`+traced+`}`)
			m := s.readsOnly(t, "prompts/list")
			if !strings.Contains(string(m.Params), traced) {
				t.Errorf("the server gets %s", m.Params)
			}
			s.answer(m, `"result":{"prompts":[],"ttlMs":60000,"cacheScope":"public"}`)
			s.want(next(t, "answer", answered), http.StatusOK, `"ttlMs":60000,"cacheScope":"public"`)
		}
	})
}

// Load balancers end streams that are silent.
func TestIdleStreamsAreKeptAlive(t *testing.T) {
	before := keepAlive
	keepAlive = 50 * time.Millisecond
	t.Cleanup(func() { keepAlive = before })
	f := serve(t, Config{Server: child("modern")})
	body := `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":{"` + protocol.MetaVersion + `":"` +
		protocol.Modern + `"}}}`
	for name, response := range map[string]*http.Response{
		"a subscription": f.do(http.MethodPost, body, protocol.HeaderVersion, protocol.Modern, protocol.HeaderMethod,
			protocol.MethodListen),
		"a GET stream": f.do(http.MethodGet, "", protocol.HeaderSession, f.begin()),
	} {
		stop := time.AfterFunc(time.Minute, func() { _ = response.Body.Close() })
		lines, comments := bufio.NewScanner(response.Body), 0
		for comments < 2 && lines.Scan() {
			if strings.HasPrefix(lines.Text(), ":") {
				comments++
			}
		}
		if comments < 2 {
			t.Errorf("%s ends after %d comments: %v", name, comments, lines.Err())
		}
		stop.Stop()
		_ = response.Body.Close()
	}
}

// A server over stdio sees no headers: the bridge holds them against the arguments in its place.
func TestHeadersOfArgumentsAreChecked(t *testing.T) {
	f := serve(t, Config{Server: child("modern")})
	call :=
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"deploy","arguments":{"region":"eu"},"_meta":{"` +
			protocol.MetaVersion + `":"` + protocol.Modern + `"}}}`
	modern := []string{
		protocol.HeaderVersion, protocol.Modern, protocol.HeaderMethod, "tools/call", protocol.HeaderName,
		"deploy",
	}
	f.want(f.post(call, append(modern, "Mcp-Param-Region", "eu")...), http.StatusOK, `"result"`)
	f.want(f.post(call, append(modern, "Mcp-Param-Region", "us")...), http.StatusBadRequest, "-32020",
		`header Mcp-Param-Region is \"us\"`)
	f.want(f.post(call, modern...), http.StatusBadRequest, "-32020", "send the header Mcp-Param-Region once")
}

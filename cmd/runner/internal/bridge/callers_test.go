package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// These are of clients that share a server: what one does is nothing to the others.

// scripted is a server that a test speaks for, after it has greeted.
type scripted struct {
	*wire
	got chan jsonrpc.Message
}

func script() *scripted { return &scripted{newWire(1000), make(chan jsonrpc.Message, 1000)} }

func (c *scripted) Send(_ context.Context, line []byte, _ *Waiting) error {
	var m jsonrpc.Message
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	switch m.Method {
	case "server/discover":
		c.answer(m, `"result":{"supportedVersions":["2026-07-28"]}`)
	case "initialize":
		c.answer(m, `"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"x","version":"1"}}`)
	case "notifications/initialized":
	default:
		c.got <- m
	}
	return nil
}

// reads is the next message that the server gets.
func (c *scripted) reads(t *testing.T) jsonrpc.Message {
	t.Helper()
	return next(t, "message to the server", c.got)
}

// readsOnly fails if that is of another method.
func (c *scripted) readsOnly(t *testing.T, method string) jsonrpc.Message {
	t.Helper()
	m := c.reads(t)
	if m.Method != method {
		t.Fatalf("the server gets %s with %s", m.Method, m.Params)
	}
	return m
}

// sharing is a bridge to such a server, in one of the eras that have one for all.
type sharing struct {
	front
	*scripted
	modern bool
}

func sharedBy(t *testing.T, modern bool) sharing {
	t.Helper()
	c := script()
	return sharing{serve(t, Config{Shared: !modern, Server: Server{
		Modern: modern, Junk: func() string { return "" }, Open: func() (Conn, error) { return c, nil },
	}}), c, modern}
}

func bothEras(t *testing.T, test func(t *testing.T, s sharing)) {
	t.Helper()
	t.Run("legacy", func(t *testing.T) { test(t, sharedBy(t, false)) })
	t.Run("modern", func(t *testing.T) { test(t, sharedBy(t, true)) })
}

// client is one of them.
type client struct {
	sharing
	headers []string
}

func (s sharing) client() client {
	if s.modern {
		return client{s, []string{protocol.HeaderVersion, protocol.Modern}}
	}
	return client{s, []string{protocol.HeaderSession, s.begin()}}
}

// calls sends a message, with what its era has in it besides, until ctx ends.
func (c client) calls(ctx context.Context, id, method, params string) <-chan answer {
	c.t.Helper()
	if id != "" {
		id = `"id":` + id + `,`
	}
	if version := `"` + protocol.MetaVersion + `":"` + protocol.Modern + `"`; c.modern {
		before, after, has := strings.Cut(params, `"_meta":{`)
		switch {
		case !has && params == "":
			params = `"_meta":{` + version + `}`
		case !has:
			params = `"_meta":{` + version + `},` + params
		case strings.HasPrefix(after, "}"):
			params = before + `"_meta":{` + version + after
		default:
			params = before + `"_meta":{` + version + `,` + after
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url,
		strings.NewReader(`{"jsonrpc":"2.0",`+id+`"method":"`+method+`","params":{`+params+`}}`))
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(c.headers); i += 2 {
		request.Header.Set(c.headers[i], c.headers[i+1])
	}
	request.Header.Set("Mcp-Method", method)
	got := make(chan answer, 1)
	go func() {
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return // the test has ended, or the client has left
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		got <- answer{response.StatusCode, response.Header, string(body)}
	}()
	return got
}

// sends is the same, and waits for the answer.
func (c client) sends(id, method, params string) answer {
	c.t.Helper()
	return next(c.t, "answer", c.calls(c.t.Context(), id, method, params))
}

// next is what comes within a bound.
func next[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case one := <-from:
		return one
	case <-time.After(time.Minute):
		t.Fatal("there comes no " + what)
		panic("unreachable")
	}
}

func TestNobodyCancelsAnothersCall(t *testing.T) {
	bothEras(t, func(t *testing.T, s sharing) {
		alice, mallory := s.client(), s.client()
		answered := alice.calls(t.Context(), `"a"`, "wait", "")
		asked := s.reads(t)
		s.want(mallory.sends("", "notifications/cancelled", `"requestId":`+string(asked.ID)), http.StatusAccepted)
		s.want(mallory.sends("", "notifications/progress", `"progressToken":`+string(asked.ID)+`,"progress":1`),
			http.StatusAccepted)
		s.want(mallory.sends("7", "notifications/cancelled", `"requestId":`+string(asked.ID)), http.StatusBadRequest,
			"a notification has none")
		other := mallory.calls(t.Context(), "1", "next", "")
		s.answer(s.readsOnly(t, "next"), `"result":{}`)
		s.answer(asked, `"result":{"of":"alice"}`)
		s.want(next(t, "answer", answered), http.StatusOK, `"of":"alice"`)
		next(t, "answer", other)
	})
}

// One's own call is cancelled with its id, and whatever else stands there stays here.
func TestACancellationNamesOneCall(t *testing.T) {
	s := sharedBy(t, false)
	alice, mallory := s.client(), s.client()
	alice.calls(t.Context(), "1", "wait", "")
	first := s.reads(t)
	mallory.calls(t.Context(), "1", "wait", "")
	second := s.reads(t)
	s.want(mallory.sends("", "notifications/cancelled",
		`"request\u0049d":1,"RequestId":`+string(first.ID)+`,"reason":"bored"`), http.StatusAccepted)
	m := s.readsOnly(t, "notifications/cancelled")
	if want := `{"reason":"bored","requestId":` + string(second.ID) + `}`; string(m.Params) != want {
		t.Errorf("%s, want %s", m.Params, want)
	}
}

// A server that says of a tool that there is no such method has the method: clients read HTTP 404 as trouble of the
// transport.
func TestAnUnknownToolIsNoTroubleOfTheTransport(t *testing.T) {
	s := sharedBy(t, true)
	for method, status := range map[string]int{"prompts/get": http.StatusOK, "other": http.StatusNotFound} {
		c := s.client()
		c.headers = append(c.headers, protocol.HeaderName, "absent")
		got := c.calls(t.Context(), "1", method, `"name":"absent"`)
		s.answer(s.readsOnly(t, method), `"error":{"code":-32601,"message":"Unknown"}`)
		s.want(next(t, "answer", got), status, `"code":-32601`)
	}
}

func TestMethodsOfTheConnectionAreNotOfTheModernEra(t *testing.T) {
	s := sharedBy(t, true)
	alice, old := s.client(), s.client()
	old.modern = false // its messages say no revision, as those of the legacy era
	for _, method := range legacyMethods {
		for _, c := range []client{alice, old} {
			got := c.calls(t.Context(), "1", method, "")
			select {
			case a := <-got:
				s.want(a, http.StatusNotFound, "-32601", method)
			case m := <-s.got:
				t.Errorf("the server gets %s", m.Method)
			}
		}
	}
}

func TestWhatAServerSaysLateOfACallIsNobodys(t *testing.T) {
	bothEras(t, func(t *testing.T, s sharing) {
		alice, bob := s.client(), s.client()
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		alice.calls(ctx, `"a"`, "wait", `"_meta":{"progressToken":"p"}`)
		first := s.reads(t)
		if s.modern {
			leave()
		} else {
			alice.sends("", "notifications/cancelled", `"requestId":"a"`)
		}
		s.readsOnly(t, "notifications/cancelled")

		answered := bob.calls(t.Context(), `"b"`, "wait", `"_meta":{"progressToken":"q"}`)
		second := s.reads(t)
		progress := `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1,"message":"of %s"}}`
		s.says <- fmt.Sprintf(progress, first.ID, "alice")
		s.says <- `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"of alice"}}`
		s.says <- fmt.Sprintf(progress, second.ID, "bob")
		s.answer(second, `"result":{}`)
		a := next(t, "answer", answered)
		s.want(a, http.StatusOK, "of bob", `"progressToken":"q"`)
		if strings.Contains(a.body, "alice") {
			t.Errorf("bob reads %s", a.body)
		}
	})
}

// A token is rewritten however its name is escaped, and none is passed beside it.
func TestATokenIsNeverAnothers(t *testing.T) {
	bothEras(t, func(t *testing.T, s sharing) {
		alice, mallory := s.client(), s.client()
		answered := alice.calls(t.Context(), `"a"`, "wait", `"_meta":{"progressToken":"p"}`)
		first := s.reads(t)
		for _, key := range []string{`progress\u0054oken`, `\u0070rogressToken`} {
			mallory.calls(t.Context(), `"`+key+`"`, "other", `"_meta":{"`+key+`":`+string(first.ID)+`}`)
			m := s.reads(t)
			var params struct {
				Meta map[string]json.RawMessage `json:"_meta"`
			}
			if err := json.Unmarshal(m.Params, &params); err != nil ||
				string(params.Meta[protocol.MetaProgress]) != string(m.ID) {
				t.Errorf("%s: the server gets %s for call %s: %v", key, m.Params, m.ID, err)
			}
		}
		for _, meta := range []string{
			`"_meta":{"ProgressToken":` + string(first.ID) + `}`,
			`"_meta":{"progressToken":"x","progressToken":` + string(first.ID) + `}`,
			`"_meta":{"progressToken":"x","progress\u0054oken":` + string(first.ID) + `}`,
			`"_meta":{},"_Meta":{"progressToken":` + string(first.ID) + `}`,
			`"_meta":{},"_met\u0061":{"progressToken":` + string(first.ID) + `}`,
		} {
			select {
			case a := <-mallory.calls(t.Context(), "1", "other", meta):
				s.want(a, http.StatusBadRequest, "error")
			case m := <-s.got:
				t.Errorf("the server gets %s", m.Params)
			}
		}
		s.answer(first, `"result":{}`)
		next(t, "answer", answered)
	})
}

// Subscriptions wait for ever, and leave the calls their places.
func TestSubscriptionsTakeNoPlacesOfCalls(t *testing.T) {
	s := sharedBy(t, true)
	mallory := s.client()
	for i := range maxCalls {
		mallory.calls(t.Context(), fmt.Sprint(i), protocol.MethodListen, `"notifications":{}`)
		s.reads(t)
	}
	s.want(mallory.sends("1000", protocol.MethodListen, `"notifications":{}`), http.StatusServiceUnavailable, "Busy")
	answered := s.client().calls(t.Context(), "1", "tools/list", "")
	select {
	case a := <-answered:
		t.Fatalf("HTTP %d %s", a.status, a.body)
	case m := <-s.got:
		s.answer(m, `"result":{"tools":[]}`)
	}
	s.want(next(t, "answer", answered), http.StatusOK, `"tools":[]`)
}

func TestSubscriptionsOfASharedServerAreBounded(t *testing.T) {
	s := sharedBy(t, false)
	one, two := s.client(), s.client()
	session := s.sessions.Get(one.headers[1])
	subscribes := func(c client, uri, member string) answer {
		t.Helper()
		got := c.calls(t.Context(), "1", methodSubscribe, `"uri":"`+uri+`"`)
		select {
		case a := <-got:
			return a
		case m := <-s.got:
			s.answer(m, member)
			return next(t, "answer", got)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 40 {
		s.want(subscribes(one, fmt.Sprint(i, strings.Repeat("x", 1<<20)), `"result":{}`), http.StatusOK, "-32602",
			"2048 bytes")
		subscribes(one, fmt.Sprint(i), `"error":{"code":-32602,"message":"no such resource"}`)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 10<<20 || len(session.asked) > 0 {
		t.Errorf("40 refused subscriptions hold %d bytes and are %d", held, len(session.asked))
	}
	for i := range maxAsked {
		s.want(subscribes(one, fmt.Sprint(i), `"result":{}`), http.StatusOK, `"result":{}`)
	}
	s.want(subscribes(one, "one more", `"result":{}`), http.StatusOK, "-32602", "unsubscribe from one first")
	s.want(subscribes(one, "0", `"result":{}`), http.StatusOK, `"result":{}`) // it is subscribed already
	s.want(subscribes(two, "one more", `"result":{}`), http.StatusOK, `"result":{}`)
	// Notifications answer nothing, and break nothing.
	for _, method := range []string{"initialize", methodSubscribe, "resources/unsubscribe"} {
		s.want(one.sends("", method, `"uri":"0"`), http.StatusAccepted)
	}
}

// The proxy seals the ids of sessions, but not the query of the old transport: neither
// kind is to be had by the other's name.
func TestAnOldSessionIsNotToBeHadByTheOthersName(t *testing.T) {
	f := serve(t, Config{Server: child("")})
	session := f.begin()
	f.url += "?" + protocol.QuerySession + "=" + session
	f.want(f.post(`{"jsonrpc":"2.0","id":1,"method":"pid"}`), http.StatusNotFound, "no such session")
	old, fault := f.open(t.Context(), "", false, f.stream("", false, ""))
	if fault != nil {
		t.Fatal(fault)
	}
	f.url, _, _ = strings.Cut(f.url, "?")
	f.want(f.call(old.id, "1", "pid"), http.StatusNotFound, "no such session")
	f.want(f.call(session, "1", "pid"), http.StatusOK)
}

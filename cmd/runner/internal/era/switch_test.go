package era_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
)

// named has a backend tell its name.
func named(t *testing.T, speaks eras, name string) *backend {
	t.Helper()
	b := newBackend(t, speaks)
	mcp.AddTool(b.server, &mcp.Tool{Name: "who"},
		func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name}}}, nil, nil
		})
	return b
}

// who is the name of the content that answers a call.
func who(ctx context.Context, client *mcp.ClientSession) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answer, err := client.CallTool(ctx, &mcp.CallToolParams{Name: "who"})
	if err != nil {
		return "", err
	}
	return answer.Content[0].(*mcp.TextContent).Text, nil
}

// rollout is proxies with two contents, a and b, and clients that call them all the time.
type rollout struct {
	t       *testing.T
	proxies []*rolling
	come    func() // has b be there

	ctx      context.Context // ends with the callers
	callers  sync.WaitGroup
	sessions atomic.Int32      // calls of sessions
	begun    atomic.Int32      // calls without one, and sessions that began
	calls    bool              // there is a session
	phase    atomic.Value      // which contents may answer what begins
	end      map[string]func() // ends the calls of sessions of a content
}

// rolling is one of the proxies.
type rolling struct {
	*proxy.Proxy
	contents map[string]*proxy.Upstream
	endpoint string
}

func (p *rolling) to(active string, others ...string) {
	upstreams := proxy.Upstreams{Active: p.contents[active], Stated: true}
	for _, name := range others {
		upstreams.Others = append(upstreams.Others, p.contents[name])
	}
	p.Switch("/mcp", upstreams)
}

// asks has the process ask its own content, b, as a client of the modern era.
func (p *rolling) asks() int {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(modern("1", "tools/list", "", "")))
	for i, header := 0, asModern("tools/list", ""); i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	p.Own().ServeHTTP(w, r)
	return w.Code
}

// to has the calls go to the active content, while others are there too, and waits until clients have called.
func (r *rollout) to(active string, others ...string) {
	r.t.Helper()
	r.phase.Store("ab")
	for i, p := range r.proxies {
		if p.to(active, others...); active == "b" && i == 0 {
			r.come() // after a moment in which calls find nobody
		}
	}
	sessions, begun := r.sessions.Load(), r.begun.Load()
	for end := time.Now().Add(patience); r.begun.Load() < begun+20; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("nobody calls")
		}
	}
	r.phase.Store(active) // what began before has ended, or is among the few that are on their way
	for end := time.Now().Add(patience); r.begun.Load() < begun+60 || r.calls && r.sessions.Load() < sessions+20; {
		if time.Sleep(time.Millisecond); time.Now().After(end) {
			r.t.Fatal("nobody calls")
		}
	}
}

// stays has a client of the legacy era call in its session, which stays at its content, until calls of that end.
func (r *rollout) stays(content string) {
	client := connect(r.t, r.proxies[0].endpoint, protocol.Legacy, nil)
	ctx, cancel := context.WithCancel(r.ctx)
	ended := make(chan struct{})
	r.calls, r.end[content] = true, func() { cancel(); <-ended }
	r.callers.Go(func() {
		defer close(ended)
		for ctx.Err() == nil {
			got, err := who(context.Background(), client)
			if r.sessions.Add(1); got != content || err != nil {
				r.t.Errorf("a session of %s is answered by %q: %v", content, got, err)
				return
			}
		}
	})
}

// begins has a client begin what has no session, or begins one, over and over.
func (r *rollout) begins(kind, revision string, at *rolling) {
	client := connect(r.t, at.endpoint, revision, nil)
	r.callers.Go(func() {
		for r.ctx.Err() == nil {
			may := r.phase.Load().(string)
			if revision == protocol.Legacy {
				client = connect(r.t, at.endpoint, revision, nil)
			}
			got, err := who(context.Background(), client)
			now := r.phase.Load().(string)
			if err != nil && revision == protocol.Legacy && client.ID() == "" && (may == "ab" || may != now) {
				continue // it began at content without sessions, and calls content that wants one: it begins anew
			}
			if r.begun.Add(1); err != nil || may == now && may != "ab" && got != may {
				r.t.Errorf("%s: answered by %q, where %s gets the calls: %v", kind, got, may, err)
				return
			}
			if revision == protocol.Legacy {
				_ = client.Close()
			}
		}
	})
}

func (r *rollout) told(content int) runconfig.ContentUse {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.proxies[0].Routing("/mcp").ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/backend", http.NoBody))
	told, err := runconfig.ReadRouting(w.Body)
	if err != nil || told.Of(hashes[content]) == nil {
		r.t.Fatalf("%+v: %v", told, err)
	}
	return *told.Of(hashes[content])
}

// Content of another era is tried, gets the calls, gives them back to the earlier one whose sessions still live, and is
// torn down: under calls of both eras at two proxies none fails, each session stays at its content, and nothing goes to
// a content that it is not to go to. No proxy has found the other content before the switch, nor at that moment.
func TestARolloutAndTheWayBackUnderCalls(t *testing.T) {
	for name, speak := range map[string][2]eras{
		"legacy and modern": {legacyOnly, modernOnly}, "modern and legacy": {both, legacyOnly}, "both": {both, both},
		"legacy": {legacyOnly, legacyOnly},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := named(t, speak[0], "a"), named(t, speak[1], "b")
			ctx, stop := context.WithCancel(t.Context())
			r := &rollout{
				t: t, ctx: ctx, come: sync.OnceFunc(absent(t, b)), end: map[string]func(){"a": func() {}, "b": func() {}},
			}
			for range 2 {
				upstreams, p, endpoint := inLanes(t, func(context.Context) bool { return true }, a, b)
				r.proxies = append(r.proxies,
					&rolling{p, map[string]*proxy.Upstream{"a": upstreams[0], "b": upstreams[1]}, endpoint})
			}
			defer r.callers.Wait()
			defer stop()
			r.phase.Store("a")
			for _, p := range r.proxies {
				p.to("a")
			}
			if speak[0] == legacyOnly {
				r.stays("a")
			}
			for _, p := range r.proxies {
				r.begins("a modern client", "", p)
				r.begins("a legacy client", protocol.Legacy, p)
			}
			r.to("a", "b") // the candidate
			for _, p := range r.proxies {
				if status := p.asks(); status != http.StatusServiceUnavailable {
					t.Errorf("a candidate that is not there yet: HTTP %d", status)
				}
			}
			if n := len(b.got(http.MethodPost)); n > 0 {
				t.Errorf("a candidate has got %d requests", n)
			}
			r.to("b", "a") // the switch
			if speak[1] == legacyOnly {
				r.stays("b")
			}
			r.to("a", "b") // and the way back
			r.end["b"]()
			r.calls = speak[0] == legacyOnly
			for end := time.Now().Add(patience); r.told(1).InFlight > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("calls of a content that drains do not end")
				}
			}
			if seen := r.told(1).SessionSeen; speak[1] == legacyOnly && seen.IsZero() {
				t.Error("no session of b was seen")
			}
			for _, p := range r.proxies {
				p.to("a")
			}
			pipelinetest.Stop(b.Server)
			r.to("a")
		})
	}
}

// streaming has a backend keep streams open, of which it tells opened, until moved is closed: then each says its
// session.
func streaming(b *backend) (opened, moved chan struct{}) {
	opened, moved = make(chan struct{}, 16), make(chan struct{})
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		m := message{}
		_ = json.Unmarshal(body, &m)
		if r.Method != http.MethodGet && m.Method != protocol.MethodListen {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": it is open\n\n")
		_ = http.NewResponseController(w).Flush()
		opened <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-moved:
			_, _ = io.WriteString(w, "data: in session "+r.Header.Get(protocol.HeaderSession)+"\n\n")
		}
		return true
	})
	return opened, moved
}

// A subscription, and a stream without a session, end at the switch in a way that has clients begin them anew; those of
// a session stay.
func TestStreamsMoveAtTheSwitch(t *testing.T) {
	for _, speaks := range []eras{legacyOnly, modernOnly} {
		a, b := newBackend(t, speaks), newBackend(t, both)
		opened, moved := streaming(a)
		upstreams, p, endpoint := inLanes(t, nil, a, b)
		p.Switch("/mcp", proxy.Upstreams{Active: upstreams[0], Others: upstreams[1:], Stated: true})
		open := func(r *http.Request) *bufio.Scanner {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			response, err := http.DefaultClient.Do(r.WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = response.Body.Close() })
			<-opened
			return bufio.NewScanner(response.Body)
		}
		get := func(headers ...string) *http.Request {
			r := requestOf(t, endpoint, "", headers...)
			r.Method, r.Body, r.ContentLength = http.MethodGet, nil, 0
			return r
		}
		listens := subscribe(t.Context(), t, endpoint, `{"toolsListChanged":true}`)
		<-opened
		var streams, inSession *bufio.Scanner
		if speaks == legacyOnly {
			streams = open(get())
			client := connect(t, endpoint, protocol.Legacy, nil)
			<-opened
			inSession = open(get(protocol.HeaderSession, client.ID()))
		}
		p.Switch("/mcp", proxy.Upstreams{Active: upstreams[1], Others: upstreams[:1], Stated: true})
		if !found(listens, `"resultType":"complete"`) || listens.Scan() && listens.Text() != "" || listens.Err() != nil {
			t.Errorf("%v: the subscription has %q: %v", speaks, listens.Text(), listens.Err())
		}
		if speaks != legacyOnly {
			continue
		}
		if !found(streams, "retry:") {
			t.Errorf("the stream without a session has %q: %v", streams.Text(), streams.Err())
		}
		if close(moved); !found(inSession, "in session") {
			t.Errorf("the stream of a session has %q", inSession.Text())
		}
	}
}

// A call that is translated and finds nobody goes on to the content that has taken over, of whichever era that is.
func TestATranslatedCallAtAProxyWhoseStatusIsOld(t *testing.T) {
	for _, next := range []eras{legacyOnly, modernOnly, both} {
		for name, known := range map[string]bool{"the first call": false, "a session is held": true} {
			t.Run(fmt.Sprint(name, next), func(t *testing.T) {
				a, b := named(t, legacyOnly, "a"), named(t, next, "b")
				var p *proxy.Proxy
				var upstreams []*proxy.Upstream
				var looks atomic.Int32
				upstreams, p, endpoint := inLanes(t, func(context.Context) bool {
					looks.Add(1)
					p.Switch("/mcp", proxy.Upstreams{Active: upstreams[1], Stated: true})
					return true
				}, a, b)
				p.Switch("/mcp", proxy.Upstreams{Active: upstreams[0], Others: upstreams[1:], Stated: true})
				call := modern("1", "tools/call", `"name":"who","arguments":{}`, "")
				if known {
					if status, got := send(t, endpoint, call, asModern("tools/call", "who")...); status != http.StatusOK {
						t.Fatalf("HTTP %d with %+v", status, got)
					}
				}
				pipelinetest.Stop(a.Server)
				status, got := send(t, endpoint, call, asModern("tools/call", "who")...)
				if status != http.StatusOK || fmt.Sprint(got.Result["content"]) != "[map[text:b type:text]]" {
					t.Errorf("HTTP %d with %+v", status, got)
				}
				if looks.Load() != 1 {
					t.Errorf("it looked %d times", looks.Load())
				}
			})
		}
	}
}

// A call that waits for an answer of its client at the switch goes on where it waits, and is said to be on its way;
// once that is gone its client is told to begin it anew.
func TestACallThatWaitsForItsClientAtTheSwitch(t *testing.T) {
	for name, gone := range map[string]bool{"where it waits": false, "which is gone": true} {
		t.Run(name, func(t *testing.T) {
			a, b := newBackend(t, legacyOnly), newBackend(t, legacyOnly)
			upstreams, p, endpoint := inLanes(t, nil, a, b)
			r := &rollout{t: t, proxies: []*rolling{{Proxy: p}}}
			p.Switch("/mcp", proxy.Upstreams{Active: upstreams[0], Others: upstreams[1:], Stated: true})
			_, asked := send(t, endpoint, asking("1", ""), asModern("tools/call", "ask")...)
			if asked.Result["resultType"] != "input_required" {
				t.Fatalf("%+v", asked)
			}
			p.Switch("/mcp", proxy.Upstreams{Active: upstreams[1], Others: upstreams[:1], Stated: true})
			if got := r.told(0).InFlight; got != 1 {
				t.Errorf("%d calls are on their way", got)
			}
			if gone {
				p.Switch("/mcp", proxy.Upstreams{Active: upstreams[1], Stated: true})
			}
			state := fmt.Sprintf(`,"requestState":%q,"inputResponses":{"input":{"action":"accept","content":{"name":"Ada"}}}`,
				asked.Result["requestState"])
			status, got := send(t, endpoint, asking("2", state), asModern("tools/call", "ask")...)
			switch {
			case gone && (status != http.StatusBadRequest || got.Error == nil || got.Error.Code != -32602):
				t.Errorf("HTTP %d with %+v", status, got)
			case !gone && fmt.Sprint(got.Result["content"]) != "[map[text:hello Ada type:text]]":
				t.Errorf("HTTP %d with %+v", status, got)
			}
			if _, other := send(t, endpoint, modern("3", "tools/call", echo, ""),
				asModern("tools/call", "echo")...); other.Error != nil {
				t.Errorf("another call: %+v", other)
			}
		})
	}
}

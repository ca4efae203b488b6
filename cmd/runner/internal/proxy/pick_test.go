package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
)

// twoContents are two contents of a backend with a pod each, and a proxy that is to call the first.
type twoContents struct {
	*bench
	pods     [2]*pod
	resolves [2]*backends
	contents [2]*Upstream
}

// names by which they are known.
var hashes = [2]string{"0123456789abcdef", "fedcba9876543210"}

func twoOf(t *testing.T, change ...func(*Config)) *twoContents {
	t.Helper()
	two := &twoContents{}
	for i := range two.pods {
		b := &backends{t: t}
		two.pods[i], two.resolves[i] = b.start(netip.AddrFrom4([4]byte{127, 0, 0, byte(11 + 10*i)})), b
	}
	two.bench = two.resolves[0].before(secretOf(t), change...)
	other := fixed(t, two.pods[1].URL)
	other.pods.lookup = two.resolves[1].lookup
	other.dialer = remote.NewDialer(net.Dialer{Timeout: patience}, other.Host(), "")
	for i, u := range []*Upstream{two.upstream, other} {
		two.contents[i] = u.Holds(Content{
			Hash: hashes[i], Slot: int32(i + 1), Generation: int64(i + 4), Path: "/mcp", Alone: true, //nolint:gosec // few
		})
	}
	return two
}

// to has the calls go to one of the contents, while the other is there too.
func (two *twoContents) to(active int) {
	two.proxy.Switch("/mcp", Upstreams{
		Active: two.contents[active], Others: []*Upstream{two.contents[1-active]}, Stated: true,
	})
}

// alone has one of the contents be all that there is.
func (two *twoContents) alone(active int) {
	two.proxy.Switch("/mcp", Upstreams{Active: two.contents[active], Stated: true})
}

// end ends a content's pods, its Services and all connections.
func (two *twoContents) end(content int) { two.resolves[content].stop(two.pods[content]) }

// modernCall are the headers of a call of the modern era.
var modernCall = []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call"}

// who sends a call, of each kind that goes to the active content, and returns the address of the pod that answered it.
func (two *twoContents) who(kind string) (address string) {
	two.t.Helper()
	switch kind {
	case "begins a session":
		_, address = two.open()
	case "a long call":
		response := two.call(http.MethodPost, "/mcp", strings.Repeat("x", 2*longestDirect), modernCall...)
		address = answered(two.t, response)["pod"]
	case "a modern call":
		address = answered(two.t, two.call(http.MethodPost, "/mcp", "x", modernCall...))["pod"]
	}
	return address
}

var kinds = []string{"begins a session", "a long call", "a modern call"}

// A candidate gets no call before the switch, and what it replaces none that begins after it, whatever is on its way
// meanwhile; sessions stay.
func TestCallsMoveAtTheSwitch(t *testing.T) {
	two := twoOf(t)
	two.to(0)
	id, at := two.open()
	if at != two.pods[0].address.String() {
		t.Fatalf("the session began at %s", at)
	}
	const before, meanwhile, after = -1, 0, 1
	var phase atomic.Int32
	var calls [3]atomic.Int32
	phase.Store(before)
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for _, kind := range append(kinds, "of the session") {
		callers.Go(func() {
			for ctx.Err() == nil {
				began, want := phase.Load(), ""
				if kind == "of the session" {
					if got := answered(t, two.in(id, http.MethodPost, "x"))["pod"]; got != at {
						t.Errorf("a call of the session is answered by %s", got)
					}
					continue
				}
				got := two.who(kind)
				switch {
				case phase.Load() == before:
					want = two.pods[0].address.String()
				case began == after:
					want = two.pods[1].address.String()
				}
				if calls[began+1].Add(1); want != "" && got != want {
					t.Errorf("%s, begun in phase %d: answered by %s, want %s", kind, began, got, want)
				}
			}
		})
	}
	enough := func(of *atomic.Int32) {
		for end := time.Now().Add(patience); of.Load() < 60 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		}
	}
	enough(&calls[before+1])
	phase.Store(meanwhile)
	two.to(1)
	phase.Store(after)
	enough(&calls[after+1])
	stop()
	callers.Wait()
}

// Who had a session of content that is gone is told that it is gone, and not that something is broken.
func TestSessionsOfContentThatIsGone(t *testing.T) {
	for name, ended := range map[string]bool{"its pods still end": false, "its pods are gone": true} {
		t.Run(name, func(t *testing.T) {
			two := twoOf(t)
			two.to(0)
			id, _ := two.open()
			two.to(1)
			answered(t, two.in(id, http.MethodPost, "x"))
			if ended {
				two.end(0)
			}
			two.alone(1)
			for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
				wantFault(t, two.in(id, method, ""), http.StatusNotFound, CodeSessionNotFound, "is gone")
			}
			if _, at := two.open(); at != two.pods[1].address.String() {
				t.Errorf("the next one begins at %s", at)
			}
		})
	}
}

// A proxy that has not seen yet that all pods of the active content run it does not look for the sessions of content
// whose slot is gone there: nor does it try their pods, which may still take calls, or be somebody else's.
func TestSessionsOfASlotThatIsGone(t *testing.T) {
	two := twoOf(t)
	two.contents[1].Alone = false
	two.to(0)
	id, _ := two.open()
	two.to(1)
	answered(t, two.in(id, http.MethodPost, "x"))
	two.alone(1)
	two.resolves[1].stop(two.pods[1]) // nobody is there either
	wantFault(t, two.in(id, http.MethodPost, ""), http.StatusNotFound, CodeSessionNotFound, "is gone")
	two.to(1)
	answered(t, two.in(id, http.MethodPost, "x")) // it is named again, and its pods are there
}

// A proxy whose watch is broken, and which has read the status in vain before, tells who had a session of content that
// is torn down that it is gone: it reads the status again first.
func TestSessionsOfContentThatIsTornDownUnseen(t *testing.T) {
	var looks atomic.Int32
	var two *twoContents
	two = twoOf(t, func(c *Config) {
		c.Refresh = func(context.Context) bool {
			looks.Add(1)
			two.alone(1)
			return true
		}
	})
	two.to(0)
	id, _ := two.open()
	two.to(1)
	two.end(0)
	two.upstream.dialer.Present.Store(false)
	two.upstream.pods.tried = time.Time{}
	two.upstream.pods.now = func() time.Time { return time.Now().Add(2 * dnsMemory) }
	s := &two.target.switching
	s.asked, s.pause = time.Now().Add(-refreshPause+50*time.Millisecond), mostPause
	wantFault(t, two.in(id, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
	if looks.Load() != 1 {
		t.Errorf("it looked %d times", looks.Load())
	}
}

// What a translator holds at a content whose slot is gone is ended after the calls that are on their way there.
func TestCallsOutlastTheirSlot(t *testing.T) {
	closed := make(chan struct{})
	two := twoOf(t, func(c *Config) {
		c.Translate = func(to *Upstream, next, _ http.Handler) Translator {
			return closing{sender{next}, func() {
				if to.Host() == c.Upstream.Host() {
					close(closed)
				}
			}}
		}
	})
	two.to(0)
	began, end := make(chan struct{}), make(chan struct{})
	two.pods[0].Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(began)
		<-end
		_, _ = io.WriteString(w, "done")
	})
	answer := make(chan string)
	go func() { answer <- text(t, two.call(http.MethodPost, "/mcp", "x", modernCall...)) }()
	<-began
	two.alone(1)
	select {
	case <-closed:
		t.Error("its translator is closed while a call is on its way")
	case <-time.After(3 * closePause):
	}
	close(end)
	if got := <-answer; got != "done" {
		t.Errorf("the call is answered %q", got)
	}
	select {
	case <-closed:
	case <-time.After(patience):
		t.Error("its translator is not closed")
	}
}

// closing is a translator that tells when it is closed.
type closing struct {
	sender
	closed func()
}

// Close implements Translator.
func (c closing) Close(context.Context) { c.closed() }

// Content that replaces other content in its place leaves the sessions at pods that are still there, as long as there
// may be any.
func TestSessionsOfContentThatIsReplacedInItsPlace(t *testing.T) {
	two := twoOf(t)
	two.alone(0)
	id, _ := two.open()
	next := two.contents[0].Holds(Content{Hash: hashes[1], Slot: 1, Path: "/mcp"})
	two.proxy.Switch("/mcp", Upstreams{Active: next, Stated: true})
	two.upstream.pods.now = func() time.Time { return time.Now().Add(2 * rolloutTime) }
	two.proxy.started = time.Now().Add(-2 * rolloutTime)
	answered(t, two.in(id, http.MethodPost, "x"))
	newer, _ := two.open()
	next = next.Holds(Content{Hash: hashes[1], Slot: 1, Path: "/mcp", Alone: true})
	two.proxy.Switch("/mcp", Upstreams{Active: next, Stated: true})
	wantFault(t, two.in(id, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
	answered(t, two.in(newer, http.MethodPost, "x"))
}

// A proxy that believes in content that is gone looks once, and loses no call.
func TestAProxyWhoseStatusIsOld(t *testing.T) {
	for i, kind := range append(slices.Concat(kinds, kinds), "of a session", "of an older session") {
		var looks atomic.Int32
		var two *twoContents
		two = twoOf(t, func(c *Config) {
			if i < len(kinds) { // policies have read it
				c.Authorize = func(next http.Handler) http.Handler {
					return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						pipeline.Of(r.Context()).Read(w, r)
						next.ServeHTTP(w, r)
					})
				}
			}
			c.Refresh = func(context.Context) bool {
				looks.Add(1)
				two.alone(1)
				return true
			}
		})
		two.alone(0)
		id, _ := two.open()
		two.end(0)
		two.upstream.dialer.Present.Store(false) // which is what a dial that fails for a while leaves
		two.upstream.pods.tried = time.Time{}
		if kind == "of an older session" { // every resolver has heard of its pod's end
			two.upstream.pods.now = func() time.Time { return time.Now().Add(2 * dnsMemory) }
		}
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				if strings.HasSuffix(kind, "session") && kind != kinds[0] {
					response := two.in(id, http.MethodPost, "x")
					if _, _ = io.Copy(io.Discard, response.Body); response.StatusCode != http.StatusNotFound {
						t.Errorf("%s: status %d", kind, response.StatusCode)
					}
					return
				}
				if got := two.who(kind); got != two.pods[1].address.String() {
					t.Errorf("%s: answered by %q", kind, got)
				}
			})
		}
		callers.Wait()
		if got := looks.Load(); got != 1 && kind != "of a session" || got > 1 { // a pod that refuses calls tells enough
			t.Errorf("%s: it looked %d times", kind, got)
		}
	}
}

// The server is not read for each call that finds nobody.
func TestAProxyLooksNowAndThen(t *testing.T) {
	var looks atomic.Int32
	two := twoOf(t, func(c *Config) { c.Refresh = func(context.Context) bool { looks.Add(1); return true } })
	two.alone(0)
	two.end(0)
	two.upstream.pods.tried = time.Time{}
	call := func(want int32) {
		t.Helper()
		for range 10 {
			response := two.call(http.MethodPost, "/mcp", "x", modernCall...)
			if _, _ = io.Copy(io.Discard, response.Body); response.StatusCode < http.StatusInternalServerError {
				t.Errorf("status %d", response.StatusCode)
			}
		}
		if got := looks.Load(); got != want {
			t.Errorf("it looked %d times, want %d", got, want)
		}
	}
	two.proxy.Inside().ServeHTTP(httptest.NewRecorder(),
		httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(initialize)))
	if got := looks.Load(); got != 0 {
		t.Errorf("it looked %d times for a question of its own", got)
	}
	call(1)
	s := &two.target.switching
	for want := refreshPause; want < mostPause; want *= 2 {
		if s.pause != want {
			t.Errorf("the pause is %s, want %s", s.pause, want)
		}
		before := looks.Load()
		s.asked = s.asked.Add(-s.pause)
		call(before + 1)
	}
	s.asked = s.asked.Add(-s.pause)
	call(looks.Load() + 1)
	if s.pause != mostPause {
		t.Errorf("the pause is %s", s.pause)
	}
	if two.alone(1); s.pause != 0 {
		t.Error("the pause stays when calls go elsewhere")
	}
}

// What each content is called by is its own: path, and whether it is a bridge.
func TestAContentIsCalledAsItWantsTo(t *testing.T) {
	two := twoOf(t)
	var seen atomic.Pointer[http.Request]
	two.pods[1].Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r) })
	two.contents[1] = two.contents[1].Holds(Content{Hash: hashes[1], Slot: 2, Path: "/other", Bridged: true})
	two.to(1)
	text(t, two.call(http.MethodPost, "/mcp?x=1", "x", append(modernCall, "X-Caller", "alice")...))
	if r := seen.Load(); r == nil || r.URL.String() != "/other?x=1" || r.Header.Get(protocol.HeaderCaller) == "" {
		t.Errorf("it gets %+v", r)
	}
	two.to(0)
	if got := two.who("a modern call"); got != two.pods[0].address.String() {
		t.Errorf("answered by %s", got)
	}
}

// told is what a proxy tells of where its calls go.
func (two *twoContents) told() runconfig.Routing {
	two.t.Helper()
	w := httptest.NewRecorder()
	two.proxy.Routing("/mcp").ServeHTTP(w, httptest.NewRequest(http.MethodGet, runconfig.RoutingPath, http.NoBody))
	got, err := runconfig.ReadRouting(w.Body)
	if err != nil {
		two.t.Fatal(err)
	}
	return got
}

// A proxy tells to which content its calls go, what is on its way to each, and when it saw a session of each; what it
// asks itself is neither.
func TestAProxyTellsWhereItsCallsGo(t *testing.T) {
	two := twoOf(t, func(c *Config) { c.ServerUID = "uid-1" })
	if got := two.told(); got.Active != nil || len(got.Contents) != 1 || got.ServerUID != "uid-1" {
		t.Errorf("while the status says nothing: %+v", got)
	}
	two.to(0)
	for _, inside := range []http.Handler{two.proxy.Inside(), two.proxy.Own()} {
		ask := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(initialize))
		inside.ServeHTTP(httptest.NewRecorder(), ask)
	}
	two.who("a modern call")
	want := runconfig.RoutedContent{Slot: 1, Hash: hashes[0], Generation: 4}
	if got := two.told(); got.Active == nil || *got.Active != want || !got.Of(hashes[0]).SessionSeen.IsZero() ||
		got.Of(hashes[0]).InFlight != 0 || got.Of(hashes[1]) == nil {
		t.Errorf("before the first session: %+v", got)
	}
	id, _ := two.open()
	two.to(1)
	want = runconfig.RoutedContent{Slot: 2, Hash: hashes[1], Generation: 5}
	if got := two.told(); *got.Active != want || time.Since(got.Of(hashes[0]).SessionSeen) > patience ||
		!got.Of(hashes[1]).SessionSeen.IsZero() {
		t.Errorf("with a session: %+v", got)
	}
	ago := time.Now().Add(-time.Hour).Unix()
	of := two.target.upstreams.Load().Others[0].use
	of.last.Store(ago)
	if got := two.told().Of(hashes[0]).SessionSeen.Unix(); got != ago {
		t.Errorf("it was seen at %d, want %d", got, ago)
	}
	stream := two.in(id, http.MethodGet, "")
	nextEvent(t, bufio.NewReader(stream.Body))
	if got := two.told().Of(hashes[0]); time.Since(got.SessionSeen) > patience || got.InFlight != 0 {
		t.Errorf("with an open stream: %+v", got)
	}
	_ = stream.Body.Close()
	for end := time.Now().Add(patience); of.sessions.Load() != 0 && time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	if of.sessions.Load() != 0 || of.last.Load() == ago {
		t.Error("a stream that has ended is not counted as such")
	}
	two.alone(1)
	if two.told().Of(hashes[0]) != nil {
		t.Errorf("of content that is gone: %+v", two.told())
	}
	if two.to(1); two.told().Of(hashes[0]).SessionSeen.IsZero() {
		t.Error("what was seen of content that is named again is forgotten")
	}
}

// A call is on its way until it is answered, whether it has a session or none.
func TestAProxyTellsOfCallsOnTheirWay(t *testing.T) {
	two := twoOf(t, func(c *Config) { c.ServerUID = "uid-1" })
	two.to(0)
	began, end := make(chan struct{}), make(chan struct{})
	two.pods[0].Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(began)
		<-end
	})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		text(t, two.call(http.MethodPost, "/mcp", "x", modernCall...))
	}()
	<-began
	two.to(1)
	if got := two.told(); got.Of(hashes[0]).InFlight != 1 || got.Of(hashes[1]).InFlight != 0 {
		t.Errorf("while it is on its way: %+v", got)
	}
	close(end)
	<-answered
	for end := time.Now().Add(patience); two.told().Of(hashes[0]).InFlight != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it stays on its way")
		}
	}
}

// The process asks the content of its own run config before that gets calls.
func TestACandidateIsAskedByItsProxyAlone(t *testing.T) {
	two := twoOf(t)
	two.contents[0], two.contents[1] = two.contents[0].Holds(Content{Hash: "other", Slot: 1}),
		two.contents[1].Holds(Content{Hash: hashes[0], Slot: 2})
	two.to(0)
	defer func() { // nobody else speaks for it
		two.end(1)
		w := httptest.NewRecorder()
		two.proxy.Own().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("x")))
		if w.Code < http.StatusInternalServerError {
			t.Errorf("of content where nobody is: %d %s", w.Code, w.Body)
		}
	}()
	for name, tc := range map[string]struct {
		asked http.Handler
		want  int
	}{"inside": {two.proxy.Inside(), 0}, "own": {two.proxy.Own(), 1}, "a caller": {two.proxy, 0}} {
		w := httptest.NewRecorder()
		ask := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader("x"))
		tc.asked.ServeHTTP(w, ask)
		if !strings.Contains(w.Body.String(), two.pods[tc.want].address.String()) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}

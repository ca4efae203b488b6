package proxy

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
	"github.com/freehold-dev/freehold/cmd/runner/internal/session"
)

// backends are pods of one backend: each has an address of its own and keeps its
// sessions in memory, as servers do.
type backends struct {
	t    *testing.T
	port string
	pods []*pod

	mu    sync.Mutex
	ready []netip.Addr // what the resolver says
	err   error
	asked int
}

// pod answers with its address and what it was sent.
type pod struct {
	*httptest.Server
	address netip.Addr
	mu      sync.Mutex
	ids     map[string]bool
	begun   int // sessions
	stray   int // requests with the id of another pod's session
	streams chan struct{}
}

func newBackends(t *testing.T, n int) *backends {
	t.Helper()
	b := &backends{t: t}
	for i := range n {
		b.start(netip.AddrFrom4([4]byte{127, 0, 0, byte(11 + i)}))
	}
	return b
}

// start makes a pod, which is ready.
func (b *backends) start(address netip.Addr) *pod {
	b.t.Helper()
	p := &pod{address: address, ids: map[string]bool{}, streams: make(chan struct{}, 16)}
	p.Server = httptest.NewUnstartedServer(p)
	_ = p.Listener.Close()
	listener, err := net.Listen("tcp", net.JoinHostPort(address.String(), b.port))
	if err != nil && b.port == "" {
		listener, err = net.Listen("tcp", address.String()+":0")
	}
	if err != nil {
		b.t.Fatal(err)
	}
	_, b.port, _ = net.SplitHostPort(listener.Addr().String())
	p.Listener = listener
	p.Start()
	b.t.Cleanup(func() { pipelinetest.Stop(p.Server) })
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods, b.ready = append(b.pods, p), append(b.ready, address)
	return p
}

// stop ends a pod, as one that is deleted: it is no longer ready first.
func (b *backends) stop(p *pod) {
	b.unready(p)
	pipelinetest.Stop(p.Server)
}

func (b *backends) unready(p *pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = slices.DeleteFunc(slices.Clone(b.ready), func(a netip.Addr) bool { return a == p.address })
}

func (b *backends) lookup(context.Context, string) ([]netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	return slices.Clone(b.ready), b.err
}

func (p *pod) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	id := r.Header.Get(protocol.HeaderSession)
	p.mu.Lock()
	known := p.ids[id]
	if id != "" && !known {
		p.stray++
	}
	p.mu.Unlock()
	switch {
	case strings.Contains(string(body), `"initialize"`):
		id = rand.Text()
		p.mu.Lock()
		p.ids[id] = true
		p.begun++
		p.mu.Unlock()
		w.Header().Set(protocol.HeaderSession, id)
	case id != "" && !known:
		http.Error(w, "no such session", http.StatusNotFound)
		return
	case id != "" && r.Method == http.MethodDelete:
		p.mu.Lock()
		delete(p.ids, id)
		p.mu.Unlock()
		w.Header().Set(protocol.HeaderSession, id)
	case id != "":
		w.Header().Set(protocol.HeaderSession, id)
	}
	if r.Method == http.MethodGet {
		send := events(w)
		send(fmt.Sprintf("data: %s after %q\n\n", p.address, r.Header.Get("Last-Event-Id")))
		p.streams <- struct{}{}
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(
		map[string]string{"pod": p.address.String(), "method": r.Method, "own": id, "body": string(body)})
}

// secretOf is a directory with a key, of k unless a letter is given.
func secretOf(t *testing.T, letter ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "current"), []byte(strings.Repeat(append(letter, "k")[0], 32)),
		0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// before is a proxy in front of the pods. The caller is who the header X-Caller names.
func (b *backends) before(secret string, change ...func(*Config)) *bench {
	b.t.Helper()
	f := front(b.t, b.sealed(secret, change...), b.pods[0].URL)
	f.upstream.pods.lookup = b.lookup
	return f
}

// sealed is the configuration of such a proxy.
func (b *backends) sealed(secret string, change ...func(*Config)) Config {
	config := Config{Keys: session.Follow(secret, "echo-session", "uid-1"), Upstream: fixed(b.t, b.pods[0].URL)}
	config.Upstream.Hash = "0123456789abcdef"
	config.Authenticate = func(next http.Handler) http.Handler {
		return pipelinetest.As("X-Caller", next)
	}
	for _, c := range change {
		c(&config)
	}
	return config
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize"}`

// open begins a session and returns its id and pod.
func (b *bench) open(headers ...string) (id, at string) {
	b.t.Helper()
	response := b.call(http.MethodPost, "/mcp", initialize, headers...)
	return response.Header.Get(protocol.HeaderSession), answered(b.t, response)["pod"]
}

func answered(t testing.TB, response *http.Response) map[string]string {
	t.Helper()
	body := text(t, response)
	got := map[string]string{}
	if err := json.Unmarshal([]byte(body), &got); err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %d with %s", response.StatusCode, body)
	}
	return got
}

// in sends a request of a session.
func (b *bench) in(id, method, body string, headers ...string) *http.Response {
	b.t.Helper()
	return b.call(method, "/mcp", body, append(headers, protocol.HeaderSession, id)...)
}

func TestASessionStaysAtItsPodWhicheverProxyIsAsked(t *testing.T) {
	b, secret := newBackends(t, 3), secretOf(t)
	proxies := []*bench{b.before(secret), b.before(secret)}
	at := map[string]int{}
	for range 12 {
		id, pod := proxies[0].open()
		at[pod]++
		for i := range 4 {
			response := proxies[i%2].in(id, http.MethodPost, "hello")
			got := answered(t, response)
			if got["pod"] != pod || got["body"] != "hello" {
				t.Errorf("a call of the session at %s: %v", pod, got)
			}
			if echoed := response.Header[protocol.HeaderSession]; len(echoed) != 1 || echoed[0] != id {
				t.Errorf("the answer names the session %q, the client knows it as %q", echoed, id)
			}
			if strings.Contains(id, got["own"]) || got["own"] == "" {
				t.Errorf("the backend was asked for %q", got["own"])
			}
		}
		if got := answered(t, proxies[1].in(id, http.MethodDelete, "")); got["pod"] != pod ||
			got["method"] != http.MethodDelete {
			t.Errorf("the end of the session at %s: %v", pod, got)
		}
	}
	if len(at) != 3 || at["127.0.0.11"] != 4 {
		t.Errorf("12 sessions began at %v", at)
	}
}

// A stream that is resumed at another proxy goes to the pod that kept its events.
func TestAStreamIsResumedAtItsPod(t *testing.T) {
	b, secret := newBackends(t, 3), secretOf(t)
	for range 4 {
		id, pod := b.before(secret).open()
		stream := b.before(secret).in(id, http.MethodGet, "", "Last-Event-ID", "7")
		if got, want := nextEvent(t, bufio.NewReader(stream.Body)),
			fmt.Sprintf("data: %s after %q\n\n", pod, "7"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRequestsWithoutSessionsAreLeftToTheService(t *testing.T) {
	b := newBackends(t, 2)
	f := b.before(filepath.Join(t.TempDir(), "none")) // the key is not needed
	for range 6 {
		response := f.call(http.MethodPost, "/mcp", "call", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call")
		if got := answered(t, response); got["pod"] != "127.0.0.11" {
			t.Errorf("got %v", got)
		}
	}
	if b.asked > 0 {
		t.Errorf("the resolver was asked %d times", b.asked)
	}
	// A backend that makes a session of one names a pod that nobody knows.
	response := f.call(http.MethodPost, "/mcp", initialize, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method",
		"tools/call")
	if ids := response.Header[protocol.HeaderSession]; answered(t, response)["own"] == "" || len(ids) > 0 {
		t.Errorf("got the backend's own id %q", ids)
	}
	// One without sessions, of an older revision, is spread.
	at := map[string]bool{}
	for range 4 {
		at[answered(t, f.call(http.MethodPost, "/mcp", "call"))["pod"]] = true
	}
	if len(at) != 2 {
		t.Errorf("calls went to %v", at)
	}
}

// A node may hear of a new Service's pods later than the resolver does, and refuses until then.
func TestCallsGoToAPodWhereTheServiceHasNobody(t *testing.T) {
	b := newBackends(t, 2)
	pod := strings.TrimPrefix(b.pods[0].URL, "http://")
	upstream := Service("127.0.0.99:1", "", pod, "", nil)
	upstream.pods.lookup = b.lookup
	f := b.before(secretOf(t), func(c *Config) { c.Upstream = upstream })
	response := f.call(http.MethodPost, "/mcp", "call", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call")
	if got := answered(t, response); got["method"] != http.MethodPost {
		t.Errorf("got %v", got)
	}
}

// A client that sends initialize has agreed on no revision yet.
func TestASessionBeginsWhateverItsHeaderSays(t *testing.T) {
	f := newBackends(t, 2).before(secretOf(t))
	id, pod := f.open("MCP-Protocol-Version", "2026-07-28")
	if got := answered(t, f.in(id, http.MethodPost, "hello")); got["pod"] != pod {
		t.Errorf("a call of the session at %s: %v", pod, got)
	}
}

func TestASessionThatIsNotTheCallersIsNotFound(t *testing.T) {
	b, secret := newBackends(t, 1), secretOf(t)
	f := b.before(secret)
	id, _ := f.open("X-Caller", "ann")
	elsewhere := b.before(secret, func(c *Config) { c.Keys = session.Follow(secret, "other-session", "uid-2") })
	foreign, _ := elsewhere.open("X-Caller", "ann")
	for name, request := range map[string]*http.Request{
		"another caller's": f.request(http.MethodPost, "/mcp", "x", "X-Caller", "bob", protocol.HeaderSession, id),
		"nobody's":         f.request(http.MethodPost, "/mcp", "x", protocol.HeaderSession, id),
		"another server's": f.request(http.MethodPost, "/mcp", "x", "X-Caller", "ann", protocol.HeaderSession, foreign),
		"the backend's own": f.request(http.MethodPost, "/mcp", "x", "X-Caller", "ann", protocol.HeaderSession,
			anyKey(b.pods[0].ids)),
		"none":    f.request(http.MethodGet, "/mcp", "", "X-Caller", "ann", protocol.HeaderSession, "-"),
		"changed": f.request(http.MethodDelete, "/mcp", "", "X-Caller", "ann", protocol.HeaderSession, id[:len(id)-1]),
	} {
		t.Run(name, func(t *testing.T) {
			wantFault(t, f.do(request), http.StatusNotFound, CodeSessionNotFound, "send an initialize")
		})
	}
	twice := f.request(http.MethodPost, "/mcp", "x", "X-Caller", "ann", protocol.HeaderSession, id)
	twice.Header.Add(protocol.HeaderSession, foreign)
	wantFault(t, f.do(twice), http.StatusNotFound, CodeSessionNotFound, "not known")
	if got := answered(t, f.in(id, http.MethodPost, "x", "X-Caller", "ann")); got["pod"] == "" || b.pods[0].stray > 0 {
		t.Errorf("ann's own: %v; %d requests named a session that the pod does not know", got, b.pods[0].stray)
	}
}

func anyKey(m map[string]bool) string {
	for key := range m {
		return key
	}
	return ""
}

func TestASessionEndsWithItsPod(t *testing.T) {
	b, secret := newBackends(t, 2), secretOf(t)
	f := b.before(secret)
	old := time.Now().Add(-time.Minute) // longer ago than a resolver remembers
	f.upstream.pods.now = func() time.Time { return old }
	id, at := f.open()
	f.upstream.pods.now = time.Now
	gone := b.pods[slices.IndexFunc(b.pods, func(p *pod) bool { return p.address.String() == at })]
	answered(t, f.in(id, http.MethodPost, "x"))

	// It is still there, and may answer: but what is no longer ready may be anybody's.
	b.unready(gone)
	f.upstream.pods.tried = time.Time{}
	wantFault(t, f.in(id, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
	b.stop(gone)
	f.upstream.dialer.Patience = time.Hour // which nobody waits for a pod that is gone
	wantFault(t, f.in(id, http.MethodGet, ""), http.StatusNotFound, CodeSessionNotFound, "is gone")
	f.upstream.dialer.Patience = remote.Patience
	next, other := f.open()
	if other == at {
		t.Errorf("the next session began at %s", at)
	}
	answered(t, f.in(next, http.MethodPost, "x"))
}

// The resolver goes on with the address of a pod that is gone, where nobody listens.
func TestASessionWhosePodRefusesIsGone(t *testing.T) {
	b := newBackends(t, 2)
	f := b.before(secretOf(t))
	id, at := f.open()
	for _, p := range b.pods {
		if p.address.String() == at {
			pipelinetest.Stop(p.Server)
		}
	}
	wantFault(t, f.in(id, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
	for range 4 { // and a request that may begin one goes to the other
		if _, pod := f.open(); pod == at {
			t.Errorf("a session began at %s", pod)
		}
	}
}

// A resolver may have heard of a new pod at one proxy and not yet at another.
func TestASessionOfAPodThatTheResolverDoesNotTellYet(t *testing.T) {
	b, secret := newBackends(t, 1), secretOf(t)
	first, second := b.before(secret), b.before(secret)
	id, _ := second.open()
	answered(t, second.in(id, http.MethodPost, "x"))
	fresh := b.start(netip.MustParseAddr("127.0.0.21"))
	known := []netip.Addr{b.pods[0].address}
	second.upstream.pods.lookup = func(context.Context, string) ([]netip.Addr, error) { return known, nil }
	for at := ""; at != fresh.address.String(); {
		first.upstream.pods.tried = time.Time{}
		id, at = first.open()
	}
	if got := answered(t, second.in(id, http.MethodPost, "x")); got["pod"] != fresh.address.String() {
		t.Errorf("got %v", got)
	}
	second.upstream.pods.now = func() time.Time { return time.Now().Add(2 * dnsMemory) }
	wantFault(t, second.in(id, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
}

func TestWithoutAnyPodASessionMayComeBack(t *testing.T) {
	b := newBackends(t, 1)
	f := b.before(secretOf(t))
	id, _ := f.open()
	later := time.Now().Add(time.Hour)
	f.upstream.pods.now = func() time.Time { return later }
	f.proxy.started = later
	b.unready(b.pods[0])
	none := "none of its pods is ready"
	wantFault(t, f.in(id, http.MethodPost, "x"), http.StatusBadGateway, CodeBackendUnreachable, none)
	f.upstream.dialer.Present.Store(false)
	wantFault(t, f.call(http.MethodPost, "/mcp", initialize), http.StatusServiceUnavailable, CodeBackendUnreachable, none)
	if said := text(t, f.call(http.MethodPost, "/mcp", initialize)); !strings.Contains(said, `"reason":"NotAsked"`) {
		t.Errorf("who decides by it reads %s", said)
	}
	b.mu.Lock()
	b.ready = []netip.Addr{b.pods[0].address}
	b.mu.Unlock()
	later = later.Add(freshPods)
	answered(t, f.in(id, http.MethodPost, "x"))

	// While the resolver is away, what it said last holds.
	b.mu.Lock()
	b.err = errors.New("the resolver is away")
	b.mu.Unlock()
	later = later.Add(time.Minute)
	answered(t, f.in(id, http.MethodPost, "x"))
	later = later.Add(stalePods)
	wantFault(t, f.in(id, http.MethodPost, "x"), http.StatusBadGateway, CodeBackendUnreachable, "")
}

// During a rollout proxies of old and new content serve the same pods.
func TestASessionOutlivesOtherContentForAWhile(t *testing.T) {
	b, secret := newBackends(t, 1), secretOf(t)
	before, after := b.before(secret), b.before(secret, func(c *Config) { c.Upstream.Hash = "fedcba9876543210" })
	id, _ := before.open()
	other, _ := after.open()
	answered(t, after.in(id, http.MethodPost, "x"))
	answered(t, before.in(other, http.MethodPost, "x"))
	for _, f := range []*bench{before, after} {
		f.upstream.pods.now = func() time.Time { return time.Now().Add(rolloutTime + time.Minute) }
	}
	answered(t, before.in(id, http.MethodPost, "x"))
	wantFault(t, after.in(id, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
	wantFault(t, before.in(other, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
}

func TestWithoutAKeyNoSessionBegins(t *testing.T) {
	b := newBackends(t, 1)
	dir := filepath.Join(t.TempDir(), "none")
	f := b.before(dir)
	response := f.call(http.MethodPost, "/mcp", initialize)
	if ids := response.Header[protocol.HeaderSession]; len(ids) > 0 {
		t.Errorf("the backend's own id is told: %q", ids)
	}
	wantFault(t, response, http.StatusServiceUnavailable, CodeNoSessions,
		"the Secret echo-session has no key for session ids")
	wantFault(t, f.in("abc", http.MethodPost, "x"), http.StatusServiceUnavailable, CodeNoSessions, "does not exist")
	answered(t, f.call(http.MethodPost, "/mcp", "x")) // what has no session is served
}

// A body is read once a connection is there, and not lost with an attempt before.
func TestNothingIsLostOrSentTwiceWhereAPodRefuses(t *testing.T) {
	b := newBackends(t, 3)
	f := b.before(secretOf(t))
	f.open()
	for _, p := range b.pods[:2] {
		pipelinetest.Stop(p.Server) // the resolver does not know
	}
	sent := strings.Repeat("x", 200<<10)
	for range 6 {
		if got := answered(t, f.call(http.MethodPost, "/mcp", sent)); got["pod"] != "127.0.0.13" || got["body"] != sent {
			t.Errorf("got %s and %d bytes", got["pod"], len(got["body"]))
		}
	}
}

func TestACallThatHasRunIsNotSentAgain(t *testing.T) {
	b := newBackends(t, 2)
	var ran sync.Map
	for _, p := range b.pods {
		p.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			ran.Store(p.address, true)
			panic(http.ErrAbortHandler)
		})
	}
	wantFault(t, b.before(secretOf(t)).call(http.MethodPost, "/mcp", "x"), http.StatusServiceUnavailable,
		CodeBackendStarting, "broke the connection off")
	count := 0
	ran.Range(func(any, any) bool { count++; return true })
	if count != 1 {
		t.Errorf("it ran at %d pods", count)
	}
}

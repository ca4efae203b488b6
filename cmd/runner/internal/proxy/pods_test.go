package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

var errAway = errors.New("the resolver is away")

// What a resolver said holds for five minutes and no longer, for whoever asks.
func TestAnOldListOfPodsHoldsForNobody(t *testing.T) {
	p, now, pod := newPods("x:80"), time.Now(), netip.MustParseAddr("10.0.0.1")
	p.now = func() time.Time { return now }
	var err error
	p.lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{pod}, err }
	for _, step := range []struct {
		after time.Duration
		err   error
		want  error
	}{
		{0, nil, nil},
		{stalePods, errAway, nil},
		{freshPods, errAway, errAway},
		{0, errAway, errAway},
		{missing, errAway, errAway},
		{missing, nil, nil},
	} {
		now, err = now.Add(step.after), step.err
		if known, got := p.list(t.Context(), freshPods); !errors.Is(got, step.want) ||
			slices.Contains(known, pod) != (got == nil) {
			t.Errorf("%s later: got %s and %v, want %v", step.after, known, got, step.want)
		}
	}
}

// While a rollout changes the port on which the pods listen, each is called where it listens: the server of another
// content may be at the port of this one, without its bridge. One question tells that nothing has changed.
func TestEachPodIsCalledWhereItListens(t *testing.T) {
	first, second := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	one, two := []netip.Addr{first}, []netip.Addr{second}
	both := []netip.Addr{first, second}
	record := func(target string, port uint16) *net.SRV { return &net.SRV{Target: target, Port: port} }
	p, now := newPods("pods.:8080"), time.Now()
	p.portName, p.openPort, p.now = "mcp", opens(9090), func() time.Time { return now }
	for _, step := range []struct {
		name    string
		all     []netip.Addr
		records []*net.SRV
		err     error
		known   []netip.Addr
		want    [2]string
		asked   int32
	}{
		{
			"a resolver that knows no ports", both, nil, &net.DNSError{IsNotFound: true}, both,
			[2]string{"10.0.0.1:9441", "10.0.0.2:9441"},
			1,
		},
		{
			"all on one", both,
			[]*net.SRV{record("one.", 8080), record("two.", 8080)},
			nil, both,
			[2]string{"10.0.0.1:8080", "10.0.0.2:8080"},
			3,
		},
		{
			"the same again", both,
			[]*net.SRV{record("two.", 8080), record("one.", 8080)},
			nil, both,
			[2]string{"10.0.0.1:8080", "10.0.0.2:8080"},
			1,
		},
		{
			"one of new content", both,
			[]*net.SRV{record("one.", 8080), record("two.", 9090)},
			nil, both,
			[2]string{"10.0.0.1:8080", "10.0.0.2:9090"},
			3,
		},
		{"a resolver that fails", both, nil, errAway, both, [2]string{"10.0.0.1:8080", "10.0.0.2:9090"}, 1},
		{
			"the older pod in one answer alone", both,
			[]*net.SRV{record("two.", 9090)},
			nil, two,
			[2]string{"10.0.0.1:8080", "10.0.0.2:9090"},
			2,
		},
		{
			"the newer pod in one answer alone", one,
			[]*net.SRV{record("two.", 9090)},
			nil, two,
			[2]string{"10.0.0.1:8080", "10.0.0.2:9090"},
			2,
		},
		{
			"the older pod ends, and its address is a new one's", two,
			[]*net.SRV{record("two.", 9090)},
			nil, two,
			[2]string{"10.0.0.1:9441", "10.0.0.2:9090"},
			2,
		},
		{
			"the same again, later", two,
			[]*net.SRV{record("two.", 9090)},
			nil, two,
			[2]string{"10.0.0.1:9441", "10.0.0.2:9090"},
			1,
		},
		{
			"a new pod has its address", both,
			[]*net.SRV{record("one.", 9090), record("two.", 9090)},
			nil, both,
			[2]string{"10.0.0.1:9090", "10.0.0.2:9090"},
			3,
		},
	} {
		var asked atomic.Int32
		p.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			asked.Add(1)
			return slices.Clone(map[string][]netip.Addr{"pods.": step.all, "one.": one, "two.": two}[host]), nil
		}
		now = now.Add(freshPods)
		p.lookupSRV = func(_ context.Context, service, proto, name string) (string, []*net.SRV, error) {
			if service != "mcp" || proto != "tcp" || name != "pods." {
				t.Errorf("%s: asked for %s %s of %s", step.name, service, proto, name)
			}
			return "", step.records, step.err
		}
		if known, err := p.list(t.Context(), freshPods); err != nil || !slices.Equal(known, step.known) {
			t.Errorf("%s: there are %s, %v", step.name, known, err)
		}
		got := [2]string{p.candidates(first)[0].String(), p.candidates(second)[0].String()}
		if got != step.want || asked.Load() != step.asked {
			t.Errorf("%s: they are called at %v, after %d questions for addresses", step.name, got, asked.Load())
		}
		for _, pod := range step.all {
			if has, _, err := p.has(t.Context(), pod); !has || err != nil {
				t.Errorf("%s: of sessions at %s it knows nothing: %v", step.name, pod, err)
			}
		}
	}
}

// Where the resolver is behind, a pod may be newer than what it says of the port, and is tried where new pods listen.
func TestWhereAPodMayTakeWhatBegins(t *testing.T) {
	pod, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	const bridge = runconfig.BridgePort
	for name, tc := range map[string]struct {
		ports map[netip.Addr]uint16
		open  int
		want  []uint16
	}{
		"the resolver says it":                  {map[netip.Addr]uint16{pod: 2, other: 4}, 3, []uint16{2, 3}},
		"it says what stands":                   {map[netip.Addr]uint16{pod: 3, other: 4}, 3, []uint16{3}},
		"what stands is not known":              {map[netip.Addr]uint16{pod: 2, other: 4}, 0, []uint16{2, 1}},
		"it says the ports of others":           {map[netip.Addr]uint16{other: 4}, 3, []uint16{bridge, 3, 1}},
		"of others, and what stands is unknown": {map[netip.Addr]uint16{other: 4}, 0, []uint16{bridge, 1}},
		"a resolver that knows no ports":        {nil, 3, []uint16{bridge, 3, 1}},
		"new pods have a bridge":                {map[netip.Addr]uint16{pod: 2}, bridge, []uint16{bridge, 2}},
		"older pods have one":                   {map[netip.Addr]uint16{pod: bridge}, 3, []uint16{bridge, 3}},
		"all have one":                          {map[netip.Addr]uint16{pod: bridge}, bridge, []uint16{bridge}},
	} {
		p := newPods("pods.:1")
		p.portName, p.openPort, p.ports = "mcp", opens(tc.open), tc.ports
		var got []uint16
		for _, place := range p.candidates(pod) {
			got = append(got, place.Port())
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: at %d, want %d", name, got, tc.want)
		}
	}
}

// A session that begins where newer pods listen stays there.
func TestAPodThatRefusesIsTriedWhereNewOnesListen(t *testing.T) {
	b := newBackends(t, 1)
	f := b.before(secretOf(t))
	closed, err := net.Listen("tcp", b.pods[0].address.String()+":0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	f.upstream.pods.said(b.pods[0].address, closed.Addr().(*net.TCPAddr).Port, port(b.port))
	for range 2 {
		id, pod := f.open()
		if got := answered(t, f.in(id, http.MethodPost, "x")); got["pod"] != pod {
			t.Errorf("a call of the session at %s: %v", pod, got)
		}
	}
	f.upstream.pods.said(b.pods[0].address, closed.Addr().(*net.TCPAddr).Port, 0)
	f.upstream.dialer.Present.Store(false)
	answer := f.call(http.MethodPost, "/mcp", initialize)
	wantFault(t, answer, http.StatusServiceUnavailable, CodeBackendUnreachable, "refuses")
}

func opens(port int) func() int32 { return func() int32 { return int32(port) } }

// said has the resolver say of one pod where it listens, while pods of what stands listen elsewhere.
func (p *pods) said(pod netip.Addr, at, open int) {
	p.portName, p.openPort, p.at, p.port = "mcp", opens(open), time.Time{}, uint16(at)
	p.lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{pod}, nil }
	p.lookupSRV = func(context.Context, string, string, string) (string, []*net.SRV, error) {
		return "", []*net.SRV{{Target: "one.", Port: uint16(at)}}, nil
	}
}

func port(text string) int {
	number, _ := strconv.Atoi(text)
	return number
}

// A resolver that does not answer is asked once for all, and waited for as long as its caller likes.
func TestASilentResolverIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, lookups := newPods("x:80"), atomic.Int32{}
		p.lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			lookups.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if _, err := p.list(t.Context(), freshPods); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
			})
		}
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := p.list(ctx, freshPods); err == nil || time.Since(began) != time.Second {
				t.Errorf("who waits a second gets %v after %s", err, time.Since(began))
			}
		})
		all.Wait()
		if n, took := lookups.Load(), time.Since(began); n != 1 || took != lookupTime {
			t.Errorf("%d lookups in %s", n, took)
		}
	})
}

// Once all pods are gone, as where the only one is replaced, the resolver knows neither addresses nor ports. A pod that
// was there is not kept for that: its address may be another pod's by now.
func TestAPodThatIsGoneIsNotKept(t *testing.T) {
	gone, other := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	for name, after := range map[string]struct {
		all []netip.Addr
		err error
	}{
		"no pod is left":                         {nil, &net.DNSError{IsNotFound: true}},
		"another pod, of which no port is known": {[]netip.Addr{other}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, now := newPods("pods.:8080"), time.Now()
			p.portName, p.now = "mcp", func() time.Time { return now }
			all, err, records := []netip.Addr{gone}, error(nil), []*net.SRV{{Target: "one.", Port: 8080}}
			p.lookup = func(context.Context, string) ([]netip.Addr, error) { return slices.Clone(all), err }
			p.lookupSRV = func(context.Context, string, string, string) (string, []*net.SRV, error) {
				if records == nil {
					return "", nil, &net.DNSError{IsNotFound: true}
				}
				return "", records, nil
			}
			if has, some, err := p.has(t.Context(), gone); !has || !some || err != nil {
				t.Fatal(has, some, err)
			}
			all, err, records = after.all, after.err, nil
			now = now.Add(24 * time.Hour)
			if has, some, err := p.has(t.Context(), gone); has {
				t.Errorf("a day later the pod that has gone is said to be there (some %t, %v)", some, err)
			}
		})
	}
}

// The address of a pod that is gone may be that of another workload's.
func TestASessionOfAPodThatIsGoneReachesNoStranger(t *testing.T) {
	b := newBackends(t, 1)
	f := b.before(secretOf(t))
	port, _ := strconv.Atoi(b.port)
	var gone atomic.Bool
	var away atomic.Int64
	unknown := &net.DNSError{IsNotFound: true}
	p := f.upstream.pods
	began := time.Now()
	p.portName, p.now = "mcp", func() time.Time { return began.Add(time.Duration(away.Load())) }
	p.lookup = func(context.Context, string) ([]netip.Addr, error) {
		if gone.Load() {
			return nil, unknown
		}
		return []netip.Addr{b.pods[0].address}, nil
	}
	p.lookupSRV = func(context.Context, string, string, string) (string, []*net.SRV, error) {
		if gone.Load() {
			return "", nil, unknown
		}
		return "", []*net.SRV{{Target: "one.", Port: uint16(port)}}, nil
	}
	id, _ := f.open()
	b.stop(b.pods[0])
	stranger := b.start(b.pods[0].address) // of another workload: the resolver does not name it
	gone.Store(true)
	away.Store(int64(24 * time.Hour))
	response := f.in(id, http.MethodPost, "secret", "X-Api-Key", "key of the caller")
	stranger.mu.Lock()
	defer stranger.mu.Unlock()
	if stranger.stray > 0 {
		t.Errorf("the stranger got the call, with the session's id; the client got HTTP %d", response.StatusCode)
	}
}

// While the port changes, a proxy may start after the pod of a session has left the resolver's answers: where that pod
// listens the session says. At the port of newer pods its server may listen past its bridge.
func TestASessionIsCalledWhereItBegan(t *testing.T) {
	b, secret := newBackends(t, 1), secretOf(t)
	before, after := b.before(secret), b.before(secret)
	newer := b.past(b.pods[0])
	after.upstream.pods.said(netip.MustParseAddr("127.0.0.12"), newer, newer)
	id, pod := before.open()
	if got := answered(t, after.in(id, http.MethodPost, "x")); got["pod"] != pod {
		t.Errorf("a call of the session at %s: %v", pod, got)
	}
	b.stop(b.pods[0])
	for name, f := range map[string]*bench{"before": before, "after": after} {
		t.Run(name, func(t *testing.T) {
			wantFault(t, f.in(id, http.MethodPost, "x"), http.StatusNotFound, CodeSessionNotFound, "is gone")
		})
	}
}

// past is the port of a server behind the bridge that the pod is, which answers nobody who comes past that.
func (b *backends) past(p *pod) (port int) {
	b.t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "sessionid must be provided", http.StatusBadRequest)
	}))
	_ = server.Listener.Close()
	var err error
	if server.Listener, err = net.Listen("tcp", p.address.String()+":0"); err != nil {
		b.t.Fatal(err)
	}
	server.Start()
	b.t.Cleanup(server.Close)
	return server.Listener.Addr().(*net.TCPAddr).Port
}

// A proxy that starts as the only pod ends may have an answer that still has the pod, and one that says no port any
// more.
func TestAPodWithABridgeIsNotCalledPastIt(t *testing.T) {
	b := &backends{t: t, port: strconv.Itoa(runconfig.BridgePort)}
	ends := b.start(netip.MustParseAddr("127.0.0.77"))
	f, newer := b.before(secretOf(t)), b.past(ends)
	f.upstream.pods.said(ends.address, newer, newer)
	f.upstream.pods.lookupSRV = func(context.Context, string, string, string) (string, []*net.SRV, error) {
		return "", nil, &net.DNSError{IsNotFound: true}
	}
	id, pod := f.open()
	if got := answered(t, f.in(id, http.MethodPost, "x")); got["pod"] != pod {
		t.Errorf("a call of the session at %s: %v", pod, got)
	}
}

// Of many pods a resolver that is slow tells in its time where each listens.
func TestManyPodsOfASlowResolver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, n := newPods("pods.:8080"), 60
		p.portName = "mcp"
		var all []netip.Addr
		var records []*net.SRV
		for i := range n {
			all = append(all, netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}))
			records = append(records, &net.SRV{Target: strconv.Itoa(i), Port: 9441})
		}
		wait := func(ctx context.Context) error {
			select {
			case <-time.After(50 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		p.lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			if err := wait(ctx); err != nil {
				return nil, err
			}
			if i, err := strconv.Atoi(host); err == nil {
				return all[i : i+1], nil
			}
			return slices.Clone(all), nil
		}
		p.lookupSRV = func(ctx context.Context, _, _, _ string) (string, []*net.SRV, error) {
			return "", slices.Clone(records), wait(ctx)
		}
		for range 3 {
			began := time.Now()
			known, err := p.list(t.Context(), freshPods)
			if took := time.Since(began); took > time.Second || p.candidates(all[0])[0].Port() != 9441 {
				t.Errorf("%d pods, %v, after %s; the first is called at %s", len(known), err, took, p.candidates(all[0])[0])
			}
			time.Sleep(freshPods)
		}
	})
}

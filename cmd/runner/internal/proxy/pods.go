package proxy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

const (
	// freshPods is how old the list of pods may be when a session begins, and
	// stalePods how old it may be where another one cannot be had.
	freshPods = 2 * time.Second
	stalePods = 5 * time.Minute
	// lookupTime is how long a resolver may take.
	lookupTime = 2 * time.Second
	// maxLookups is how many names of pods are asked for at once.
	maxLookups = 16
	// dnsMemory is how long resolvers of clusters go on with an answer
	// (https://coredns.io/plugins/kubernetes/ and its cache): a pod may be known to
	// one proxy this much earlier than to another.
	dnsMemory = 30 * time.Second
)

// pods are the addresses behind a name: those of the backend's pods that are ready,
// where the name is that of the headless Service
// (https://kubernetes.io/docs/concepts/services-networking/service/#headless-services).
type pods struct {
	host string
	// port is where a pod listens of which the resolver does not say it, and portName the name of
	// the port that it is asked for, if it is.
	port     uint16
	portName string
	// openPort is the port of the content that the API server has, which may be newer than the
	// resolver's answer; 0 if it is not known.
	openPort  func() int32
	lookup    func(ctx context.Context, host string) ([]netip.Addr, error)
	lookupSRV func(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
	now       func() time.Time

	asking singleflight.Group
	// last is what the resolver said last, and what that meant. The one who asks has it, without the lock.
	last   resolved
	mu     sync.Mutex
	known  []netip.Addr // sorted
	ports  map[netip.Addr]uint16
	gone   map[netip.Addr]bool // those that the resolver has named and does not any more, at most mostGone
	at     time.Time           // when the resolver last answered
	tried  time.Time           // when it was last asked
	failed error               // why there is no answer, nor one that is new enough
	turn   int
	// answered is when each last answered a call, of those that are known; out are those that do not answer.
	answered map[netip.Addr]time.Time
	out      map[netip.Addr]bool
}

func newPods(hostport string) *pods {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 {
		number = 80
	}
	return &pods{
		host: host, port: uint16(number), now: time.Now, openPort: func() int32 { return 0 },
		lookupSRV: net.DefaultResolver.LookupSRV,
		lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
	}
}

// onlyPod is one address that needs no resolver.
func onlyPod(self netip.AddrPort) *pods {
	p := newPods(self.String())
	p.lookup = func(context.Context, string) ([]netip.Addr, error) { return []netip.Addr{self.Addr()}, nil }
	return p
}

// list are the pods, asked for anew if what is known is older than age. While the
// resolver fails, what it said before holds.
func (p *pods) list(ctx context.Context, age time.Duration) ([]netip.Addr, error) {
	if known, ok, err := p.since(age); ok {
		return known, err
	}
	select {
	case answer := <-p.asking.DoChan("", func() (any, error) { return p.ask() }):
		known, _ := answer.Val.([]netip.Addr)
		return known, answer.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// resolved is what a resolver says of the pods: their addresses, and on which port each listens, nil if it
// does not say that.
type resolved struct {
	all     []netip.Addr
	records []*net.SRV
	ports   map[netip.Addr]uint16
}

// ask asks the resolver, once for all who wait.
func (p *pods) ask() ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	found, err := p.addresses(ctx, p.host)
	if err == nil {
		p.last = p.portsOf(ctx, found)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried, p.failed = p.now(), nil
	if err != nil && p.tried.Sub(p.at) > stalePods {
		p.failed = err
		return nil, err
	}
	if err == nil {
		p.learn(found)
	}
	return p.known, nil
}

// learn keeps what the resolver said. Its answers are of different moments: a pod of which it does not say where it
// listens is called if there is no other one, and keeps its port as long as the resolver has its address: sessions may
// be there. What had an address that the resolver does not have any more is gone, and another pod of anybody's may have
// it.
func (p *pods) learn(found []netip.Addr) {
	ports := map[netip.Addr]uint16{}
	for _, pod := range found {
		if port, before := p.ports[pod]; before {
			ports[pod] = port
		}
	}
	maps.Copy(ports, p.last.ports)
	before := p.known
	p.known, p.at = found, p.tried
	if len(p.last.ports) > 0 {
		p.known = slices.SortedFunc(maps.Keys(p.last.ports), netip.Addr.Compare)
	}
	maps.DeleteFunc(p.answered, func(pod netip.Addr, _ time.Time) bool { return !slices.Contains(p.known, pod) })
	before = slices.AppendSeq(slices.Clone(before), maps.Keys(p.ports))
	if p.ports != nil || p.last.ports != nil {
		p.ports = ports
	}
	p.forget(before)
}

// mostGone is of how many pods it is known that they have left.
const mostGone = 64

// forget keeps which of these pods are named no more.
func (p *pods) forget(before []netip.Addr) {
	named := func(pod netip.Addr) bool { return slices.Contains(p.known, pod) || p.ports[pod] != 0 }
	maps.DeleteFunc(p.gone, func(pod netip.Addr, _ bool) bool { return named(pod) })
	for _, pod := range before {
		if named(pod) {
			continue
		}
		if p.gone == nil || len(p.gone) >= mostGone {
			p.gone = map[netip.Addr]bool{}
		}
		p.gone[pod] = true
	}
}

// hasLeft reports whether a pod was one of the backend's, and is none any more: it ends, or is not ready.
func (p *pods) hasLeft(pod netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone[pod]
}

// addresses are those of a name, sorted, none if there is no such name.
func (p *pods) addresses(ctx context.Context, host string) ([]netip.Addr, error) {
	found, err := p.lookup(ctx, host)
	if isUnknown(err) {
		return nil, nil
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), err
}

// errNoPods is why nothing is sent while the resolver knows no pod.
var errNoPods = errors.New("none of its pods is ready")

func isUnknown(err error) bool {
	var unknown *net.DNSError
	return errors.As(err, &unknown) && unknown.IsNotFound
}

// portsOf asks where each pod listens. While the same is said as before, as nearly always, one question tells that
// (https://github.com/kubernetes/dns/blob/master/docs/specification.md#242---srv-records).
func (p *pods) portsOf(ctx context.Context, all []netip.Addr) resolved {
	if p.portName == "" {
		return resolved{all: all}
	}
	_, records, err := p.lookupSRV(ctx, p.portName, "tcp", p.host)
	if err != nil || len(records) == 0 {
		return resolved{all: all}
	}
	slices.SortFunc(records, func(a, b *net.SRV) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port))
	})
	same := func(a, b *net.SRV) bool { return a.Target == b.Target && a.Port == b.Port }
	if p.last.ports != nil && slices.Equal(all, p.last.all) && slices.EqualFunc(records, p.last.records, same) {
		return p.last
	}
	found := make([][]netip.Addr, len(records))
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(maxLookups)
	for i, r := range records {
		asking.Go(func() (err error) {
			found[i], err = p.addresses(ctx, r.Target)
			return err
		})
	}
	if asking.Wait() != nil {
		return resolved{all: all}
	}
	ports := map[netip.Addr]uint16{}
	for i, r := range records {
		for _, pod := range found[i] {
			ports[pod] = r.Port
		}
	}
	return resolved{all: all, records: records, ports: ports}
}

// since are the pods, or why there are none, if the resolver was asked within age. One that fails is asked again soon.
func (p *pods) since(age time.Duration) (known []netip.Addr, asked bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return nil, p.now().Sub(p.tried) < min(age, missing), p.failed
	}
	return p.known, !p.at.IsZero() && p.now().Sub(p.tried) < age, nil
}

// next are the pods in the order in which a request without a session tries them: another one first each time. Those
// that do not answer get none, unless none does; only, if it is one, gets the request alone.
func (p *pods) next(ctx context.Context, age time.Duration, only netip.Addr) ([]netip.Addr, error) {
	known, err := p.list(ctx, age)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	isOut := func(pod netip.Addr) bool { return p.out[pod] }
	switch {
	case only.IsValid() && slices.Contains(known, only):
		return []netip.Addr{only}, nil
	case only.IsValid():
		return nil, errNoPods
	case len(p.out) > 0 && !all(known, isOut):
		known = slices.DeleteFunc(slices.Clone(known), isOut)
	}
	if len(known) == 0 {
		return nil, errNoPods
	}
	p.turn++
	first := p.turn % len(known)
	return slices.Concat(known[first:], known[:first]), nil
}

func all(pods []netip.Addr, is func(netip.Addr) bool) bool {
	return !slices.ContainsFunc(pods, func(pod netip.Addr) bool { return !is(pod) })
}

// choose reports whether it matters to which pod a request goes that any could take.
func (p *pods) choose(only netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.known) > 1 && (only.IsValid() || len(p.out) > 0)
}

// isOneOfSeveral reports whether a request is for one pod, and there are others.
func (p *pods) isOneOfSeveral(only netip.Addr) bool { return only.IsValid() && p.choose(only) }

// leaveOut has what begins go to others than these, as long as there are others.
func (p *pods) leaveOut(out []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = nil
	for _, pod := range out {
		if p.out == nil {
			p.out = map[netip.Addr]bool{}
		}
		p.out[pod] = true
	}
}

// noteAnswer notes that a pod has answered a call.
func (p *pods) noteAnswer(pod netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered == nil {
		p.answered = map[netip.Addr]time.Time{}
	}
	p.answered[pod] = time.Now()
}

// lastKnown are those that the resolver named when it last answered.
func (p *pods) lastKnown() []netip.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// lastAnswer is when a pod last answered a call, zero for never, and whether it is the only one.
func (p *pods) lastAnswer(pod netip.Addr) (at time.Time, isOnly bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered[pod], len(p.known) == 1
}

// missing is how soon the resolver is asked again for a pod that is not known.
const missing = 250 * time.Millisecond

// has reports whether an address is one of the backend's, and whether there is any.
// What is not known is asked for.
func (p *pods) has(ctx context.Context, pod netip.Addr) (has, some bool, err error) {
	known, err := p.list(ctx, freshPods)
	if err == nil && !p.among(known, pod) {
		known, err = p.list(ctx, missing)
	}
	return p.among(known, pod), len(known) > 0, err
}

// among reports whether a pod is one that is called, or still has sessions.
func (p *pods) among(known []netip.Addr, pod netip.Addr) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(known, pod) || p.ports[pod] != 0
}

// candidates are where a pod may take what begins there: where the resolver says, and then where pods of the content
// listen that the API server has, since a pod that refuses connections may be newer than the resolver's answer. One of
// which it has never said anything is a new one, or of this proxy's own content, or ends. Where the pod may have a
// bridge that comes first: whoever listens there is one, and at another port its server may listen past it.
func (p *pods) candidates(pod netip.Addr) (addresses []netip.AddrPort) {
	if p.portName == "" {
		return []netip.AddrPort{netip.AddrPortFrom(pod, p.port)}
	}
	p.mu.Lock()
	said := p.ports[pod]
	p.mu.Unlock()
	open := uint16(p.openPort()) //nolint:gosec // it is a port
	ports := []uint16{said, cmp.Or(open, p.port)}
	if said == 0 {
		ports = []uint16{runconfig.BridgePort, open, p.port}
	}
	if slices.Contains(ports, runconfig.BridgePort) {
		ports = slices.Insert(ports, 0, runconfig.BridgePort)
	}
	for _, port := range ports {
		if address := netip.AddrPortFrom(pod, port); port != 0 && !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// addressOf is where a session is called: where it began. An id of a release before does not say the port.
func (p *pods) addressOf(session netip.AddrPort) netip.AddrPort {
	if session.Port() != 0 {
		return session
	}
	return p.candidates(session.Addr())[0]
}

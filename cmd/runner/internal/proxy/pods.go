package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// freshPods is how old the list of pods may be when a session begins, and
	// stalePods how old it may be where another one cannot be had.
	freshPods = 2 * time.Second
	stalePods = 5 * time.Minute
	// lookupTime is how long a resolver may take.
	lookupTime = 2 * time.Second
	// dnsMemory is how long resolvers of clusters go on with an answer
	// (https://coredns.io/plugins/kubernetes/ and its cache): a pod may be known to
	// one proxy this much earlier than to another.
	dnsMemory = 30 * time.Second
)

// pods are the addresses behind a name: those of the backend's pods that are ready,
// where the name is that of the headless Service
// (https://kubernetes.io/docs/concepts/services-networking/service/#headless-services).
type pods struct {
	host, port string
	lookup     func(ctx context.Context, host string) ([]netip.Addr, error)
	now        func() time.Time

	asking singleflight.Group
	mu     sync.Mutex
	known  []netip.Addr // sorted
	at     time.Time    // when the resolver last answered
	tried  time.Time    // when it was last asked
	failed error        // why there is no answer, nor one that is new enough
	turn   int
}

func newPods(hostport string) *pods {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		host, port = hostport, "80"
	}
	return &pods{host: host, port: port, now: time.Now, lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
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

// ask asks the resolver, once for all who wait.
func (p *pods) ask() ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	found, err := p.lookup(ctx, p.host)
	var unknown *net.DNSError
	if errors.As(err, &unknown) && unknown.IsNotFound {
		found, err = nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried, p.failed = p.now(), nil
	if err != nil && p.tried.Sub(p.at) > stalePods {
		p.failed = err
		return nil, err
	}
	if err == nil {
		for i := range found {
			found[i] = found[i].Unmap()
		}
		slices.SortFunc(found, netip.Addr.Compare)
		p.known, p.at = slices.Compact(found), p.tried
	}
	return p.known, nil
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

// next are the pods in the order in which a request without a session tries them:
// another one first each time.
func (p *pods) next(ctx context.Context, age time.Duration) ([]netip.Addr, error) {
	known, err := p.list(ctx, age)
	if len(known) == 0 {
		return nil, err
	}
	p.mu.Lock()
	p.turn++
	first := p.turn % len(known)
	p.mu.Unlock()
	return slices.Concat(known[first:], known[:first]), nil
}

// missing is how soon the resolver is asked again for a pod that is not known.
const missing = 250 * time.Millisecond

// has reports whether an address is one of the backend's, and whether there is any.
// What is not known is asked for.
func (p *pods) has(ctx context.Context, pod netip.Addr) (has, some bool, err error) {
	known, err := p.list(ctx, freshPods)
	if err == nil && !slices.Contains(known, pod) {
		known, err = p.list(ctx, missing)
	}
	return slices.Contains(known, pod), len(known) > 0, err
}

// address is where a pod is called.
func (p *pods) address(pod netip.Addr) string { return net.JoinHostPort(pod.String(), p.port) }

package target

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/cmd/runner/internal/era"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// slots are where a server has its backend, by slot, as its status names them.
type slots struct {
	mu    sync.Mutex
	known map[workload.Slot]*slot
	// now is what is known, which the status has said if stated, and is kept in file. Generation is that of the active
	// content, which never falls, and active its slot: 0 before it is known.
	now        pointer
	stated     bool
	file       string
	generation int64
	active     workload.Slot
	switchTo   func(proxy.Upstreams)
	refresh    func(context.Context) (read bool)
	log        *slog.Logger
}

// slot is what is known of one.
type slot struct {
	upstream *proxy.Upstream
	// openPort is the port of the headless Service, 0 until it was seen.
	openPort atomic.Int32
	// runs names what all its pods run, nil until it was seen, and hash is that of this content, empty where they may run
	// two.
	runs atomic.Pointer[string]
	hash string
	// path, bridged and toldHost are of the content that its pods have, and not of what is about to replace them.
	path     string
	bridged  bool
	toldHost string
	// shown says that all its pods are bridges: what is shown to those is not for servers of the user's that they replace,
	// or that replace them.
	shown bool
}

// slotAt is the one behind the Services of a slot, where content is, or comes to be.
func (t *Target) slotAt(at workload.Slot, c v1alpha1.BackendContent) *slot {
	p, key, port := &slot{}, t.config.Run.Server.Name, strconv.Itoa(runconfig.CallPort)
	t.takes(p, c)
	p.shown = p.bridged
	p.upstream = proxy.Service(net.JoinHostPort(at.Name(key), port), net.JoinHostPort(t.fqdn(at.Name(key)), port),
		net.JoinHostPort(t.fqdn(at.HeadlessName(key)), strconv.Itoa(int(c.Port))), podtemplate.PortMCP, p.openPort.Load)
	return p
}

// takes notes that the pods of a slot have content.
func (t *Target) takes(p *slot, c v1alpha1.BackendContent) {
	p.path, p.bridged = c.Path, c.Transport != v1alpha1.TransportStreamableHTTP
	p.toldHost = t.toldHost(strconv.Itoa(int(c.Port)))
}

// toldHost is the Host that a backend on a port sees: one that it knows without being told its names, empty for the
// client's.
func (t *Target) toldHost(port string) string {
	if t.config.Run.Proxy.ClientHost {
		return ""
	}
	return net.JoinHostPort("localhost", port)
}

// Follow has a proxy go where the server's status says, as Observe is told it; before that where the process before
// this one in the pod had it go. Refresh has the status read from the API server, and told, and reports whether it was
// read. It comes before the first call.
func (t *Target) Follow(
	switchTo func(proxy.Upstreams), refresh func(context.Context) (read bool), log *slog.Logger,
) {
	t.slots.switchTo, t.slots.refresh, t.slots.log = switchTo, refresh, log
	if !t.slotted {
		return
	}
	if last := t.slots.read(t.config.Run.Server.UID); last.Active != nil {
		t.Observe(backend.Standing{Active: last.Active, Others: last.Others})
		t.slots.restored()
	}
}

func (t *Target) refresh(ctx context.Context) (read bool) {
	return t.slots.refresh != nil && t.slots.refresh(ctx)
}

// Observe takes note of what there is of the backend, and has calls go where the server's status says, or where they
// are assumed to if nothing is known yet. What an older status said is passed over: a cache may be behind what was read
// live.
func (t *Target) Observe(now backend.Standing) {
	s := &t.slots
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.slotted {
		t.point(now)
	}
	for slot, stands := range now.Slots {
		if p := s.known[slot]; p != nil && stands != (backend.Stands{}) { // else nothing was seen
			p.openPort.Store(stands.PodPort)
			p.runs.Store(&stands.Runs)
			p.hash = stands.Hash
		}
	}
	if s.now.Active != nil && s.switchTo != nil {
		s.switchTo(t.upstreams())
		s.active = workload.Slot(s.now.Active.Slot)
	}
}

// point keeps what a status says.
func (t *Target) point(now backend.Standing) {
	s := &t.slots
	switch {
	case now.Active != nil && now.Active.Generation >= s.generation:
		s.generation, s.stated = now.Active.Generation, true
		s.keep(pointer{t.config.Run.Server.UID, now.Active, now.Others})
	case now.Active == nil && now.Assumed != nil && s.now.Active == nil:
		s.now = pointer{Active: now.Assumed}
	default:
		return
	}
	t.name(append(s.now.Others[:len(s.now.Others):len(s.now.Others)], *s.now.Active))
}

// name keeps the slots that these contents are in, and makes those that are new.
func (t *Target) name(contents []v1alpha1.BackendContent) {
	named := map[workload.Slot]bool{}
	for _, c := range contents {
		slot := workload.Slot(c.Slot)
		if named[slot] = true; t.slots.known[slot] == nil {
			t.slots.known[slot] = t.slotAt(slot, c)
		}
	}
	maps.DeleteFunc(t.slots.known, func(slot workload.Slot, _ *slot) bool { return !named[slot] })
}

// upstreams are those of the contents that are known. Where content replaces other content in its slot, calls go to
// pods of that until all are of the new one.
func (t *Target) upstreams() proxy.Upstreams {
	s := &t.slots
	upstream := func(c v1alpha1.BackendContent) *proxy.Upstream {
		p := s.known[workload.Slot(c.Slot)]
		alone := p.hash == c.Hash
		if alone || workload.Slot(c.Slot) != s.active {
			t.takes(p, c)
		}
		p.shown = c.Transport != v1alpha1.TransportStreamableHTTP && (alone || p.shown)
		return p.upstream.Holds(proxy.Content{
			Slot: c.Slot, Generation: c.Generation, Hash: c.Hash, Path: p.path, Bridged: p.bridged, Shown: p.shown,
			ToldHost: p.toldHost, Alone: alone,
		})
	}
	upstreams := proxy.Upstreams{Active: upstream(*s.now.Active), Stated: s.stated}
	for _, c := range s.now.Others {
		if c.Slot != s.now.Active.Slot {
			upstreams.Others = append(upstreams.Others, upstream(c))
		}
	}
	return upstreams
}

// runsAt is what names what all pods of an upstream run, or is era.Mixed. Where the API server cannot be asked nothing
// is known of replacements. It is asked for when an upstream comes to be.
func (t *Target) runsAt(to *proxy.Upstream) func() string {
	p := t.slots.known[workload.Slot(cmp.Or(to.Slot, int32(workload.Slot1)))]
	return func() string {
		if runs := p.runs.Load(); runs != nil {
			return cmp.Or(*runs, era.Mixed)
		}
		return ""
	}
}

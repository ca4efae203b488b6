package faults

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/freehold-dev/freehold/test/kit"
)

// mapperOf spares every new process the discovery of what never changes.
func mapperOf(s *kit.Env) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return s.Client.RESTMapper(), nil }
}

// isWrite reports whether a request changes servers or what belongs to them.
func isWrite(req *http.Request) bool {
	return req.Method != http.MethodGet && !strings.HasSuffix(req.URL.Path, "/events")
}

// doom is the death of one process at one of its writes. From then on nothing that the process sends
// arrives, and nothing is answered.
type doom struct {
	trap
	died <-chan struct{}
	// last is the write at which it died.
	last string
}

func newDoom(at int, before bool) *doom {
	d := &doom{}
	d.spring = func(req *http.Request) {
		sent := kit.RequestOf(req)
		d.last = fmt.Sprintf("%s %s %s", map[bool]string{true: "before", false: "after"}[before], sent.Verb, sent.Resource)
		if sent.Manager != "" {
			d.last += " as " + sent.Manager
		}
	}
	d.died = d.arm(at, before)
	return d
}

// dieAfter has it die after so many writes from now on.
func (d *doom) dieAfter(writes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.left, d.before = writes, false
}

func (d *doom) dead() bool {
	select {
	case <-d.died:
		return true
	default:
		return false
	}
}

func (d *doom) carry(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	answer, err := d.trap.carry(req, kit.RoundTripper(func(req *http.Request) (*http.Response, error) {
		if d.dead() {
			return nil, kit.ErrDead
		}
		return next.RoundTrip(req)
	}))
	if d.dead() {
		discard(answer)
		return nil, kit.ErrDead
	}
	return answer, err
}

// flaky lets requests go wrong, each with the same chance.
type flaky struct {
	rate float64

	mu     sync.Mutex
	random *rand.Rand
	drawn  map[string]int
}

func (f *flaky) draw() *kit.Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.Float64() >= f.rate {
		return nil
	}
	drawn := &kit.Faults[f.random.IntN(len(kit.Faults))]
	f.drawn[drawn.Name]++
	return drawn
}

// wrong is how many requests went wrong, and how.
func (f *flaky) wrong() (n int, how map[string]int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, count := range f.drawn {
		n += count
	}
	return n, maps.Clone(f.drawn)
}

func (f *flaky) carry(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if wrong := f.draw(); wrong != nil {
		return wrong.Carry(req, next)
	}
	return next.RoundTrip(req)
}

func discard(answer *http.Response) {
	if answer != nil {
		_ = answer.Body.Close() // nobody reads it
	}
}

// deaf keeps the news of watches from a process. The zero value lets them pass.
type deaf struct {
	mu sync.Mutex
	// resources are those that are not heard of, all if nil.
	resources []string
	refused   bool
	// held is closed when new watches may be asked for again, nil if they may.
	held chan struct{}
	// expired counts the watches that were told that their history is gone.
	expired int
	// hears is closed while news arrive.
	hears chan struct{}
	open  map[*ear]struct{}
}

func newDeaf() *deaf {
	d := &deaf{hears: make(chan struct{}), open: map[*ear]struct{}{}}
	close(d.hears)
	return d
}

// silence holds back what happens from now on to resources, or to all if there
// are none: watches stay open and say nothing.
func (d *deaf) silence(resources ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resources, d.hears = resources, make(chan struct{})
}

// refuse closes all watches, and refuses new ones.
func (d *deaf) refuse() { d.closeAll(func() { d.refused = true }) }

// hold ends all watches in good order, as the API server does now and then, and
// keeps back what asks for new ones, which go on from the version they knew.
func (d *deaf) hold() {
	d.closeAll(func() {
		d.held = make(chan struct{})
		for e := range d.open {
			e.ended = true
		}
	})
}

func (d *deaf) closeAll(and func()) {
	d.mu.Lock()
	and()
	open := d.open
	d.open = map[*ear]struct{}{}
	d.mu.Unlock()
	for e := range open {
		_ = e.ReadCloser.Close() // its reader sees that
	}
}

// listen ends all of that.
func (d *deaf) listen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refused = false
	if d.held != nil {
		close(d.held)
		d.held = nil
	}
	select {
	case <-d.hears:
	default:
		close(d.hears)
	}
}

func (d *deaf) carry(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	if !kit.IsWatch(req) {
		return next.RoundTrip(req)
	}
	d.mu.Lock()
	refused, held := d.refused, d.held
	d.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-req.Context().Done():
			return nil, req.Context().Err()
		}
	}
	if refused {
		return kit.Refusal(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "watches are not served").
			Carry(req, next)
	}
	answer, err := next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	e := &ear{ReadCloser: answer.Body, deaf: d, resource: kit.RequestOf(req).Resource, closed: make(chan struct{})}
	d.mu.Lock()
	d.open[e] = struct{}{}
	d.mu.Unlock()
	answer.Body = e
	return answer, nil
}

// ear is the body of a watch's answer.
type ear struct {
	io.ReadCloser
	deaf     *deaf
	resource string
	// ended says that the answer is over.
	ended  bool
	once   sync.Once
	closed chan struct{}
}

// Read returns what was heard, once it may be.
func (e *ear) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.deaf.mu.Lock()
	if bytes.Contains(p[:n], []byte(metav1.StatusReasonExpired)) {
		e.deaf.expired++
	}
	if e.ended {
		n, err = 0, io.EOF
	}
	hears := e.deaf.hears
	concerned := e.deaf.resources == nil || slices.Contains(e.deaf.resources, e.resource)
	e.deaf.mu.Unlock()
	if concerned {
		select {
		case <-hears:
		case <-e.closed:
			return 0, io.ErrUnexpectedEOF
		}
	}
	return n, err
}

// Close ends the watch.
func (e *ear) Close() error {
	e.once.Do(func() { close(e.closed) })
	e.deaf.mu.Lock()
	delete(e.deaf.open, e)
	e.deaf.mu.Unlock()
	return e.ReadCloser.Close()
}

// trap hurts something at the n-th write after it was armed, before it is sent
// or after it was carried out and before its answer is seen.
type trap struct {
	spring func(*http.Request)

	mu     sync.Mutex
	left   int
	before bool
	sprung chan struct{}
}

// arm returns what is closed when the trap has done its harm.
func (t *trap) arm(at int, before bool) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left, t.before, t.sprung = at, before, make(chan struct{})
	return t.sprung
}

func (t *trap) steps(req *http.Request) (now, before bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !isWrite(req) || t.left == 0 {
		return false, false
	}
	t.left--
	return t.left == 0, t.before
}

func (t *trap) carry(req *http.Request, next http.RoundTripper) (*http.Response, error) {
	now, before := t.steps(req)
	if now && before {
		t.spring(req)
		close(t.sprung)
	}
	answer, err := next.RoundTrip(req)
	if now && !before {
		t.spring(req)
		close(t.sprung)
		discard(answer)
		return nil, kit.ErrReset
	}
	return answer, err
}

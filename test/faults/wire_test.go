package faults

import (
	"bytes"
	"encoding/json"
	"errors"
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

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip sends.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// through puts do between a client and the API server.
func through(config *rest.Config, do func(*http.Request, http.RoundTripper) (*http.Response, error)) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) { return do(req, next) })
	})
}

// mapperOf spares every new process the discovery of what never changes.
func mapperOf(s *kit.Env) func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
	return func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return s.Client.RESTMapper(), nil }
}

// isWrite reports whether a request changes servers or what belongs to them.
func isWrite(req *http.Request) bool {
	return req.Method != http.MethodGet && !strings.HasSuffix(req.URL.Path, "/events")
}

func isWatch(req *http.Request) bool {
	return strings.Contains(req.URL.RawQuery, "watch=true") || strings.Contains(req.URL.RawQuery, "watch=1")
}

// doom is the death of one process: at its n-th write, before it is sent or
// after it was carried out and before the answer is seen. From then on nothing
// that the process sends arrives, and nothing is answered.
type doom struct {
	at     int
	before bool
	died   chan struct{}

	mu     sync.Mutex
	writes int
	// last is the write at which it died.
	last string
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
	if d.dead() {
		return nil, kit.ErrDead
	}
	fatal := false
	if isWrite(req) {
		d.mu.Lock()
		d.writes++
		fatal = d.writes == d.at
		d.mu.Unlock()
	}
	if fatal && d.before {
		d.die(req)
		return nil, kit.ErrDead
	}
	answer, err := next.RoundTrip(req)
	if fatal {
		d.die(req)
	}
	if d.dead() {
		discard(answer)
		return nil, kit.ErrDead
	}
	return answer, err
}

func (d *doom) die(req *http.Request) {
	when := "after"
	if d.before {
		when = "before"
	}
	sent := kit.RequestOf(req)
	d.last = fmt.Sprintf("%s %s %s", when, sent.Verb, sent.Resource)
	if sent.Manager != "" {
		d.last += " as " + sent.Manager
	}
	close(d.died)
}

// fault is an answer other than the API server's. With after, the API server
// had done what was asked.
type fault struct {
	name   string
	after  bool
	answer func(*http.Request) (*http.Response, error)
}

var errReset = errors.New("read: connection reset by peer")

func reset(*http.Request) (*http.Response, error) { return nil, errReset }

func status(code int, reason metav1.StatusReason, message string, header ...string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) {
		body, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message, //nolint:gosec // an HTTP status
		})
		answer := &http.Response{
			StatusCode: code, Status: http.StatusText(code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
		}
		for i := 0; i+1 < len(header); i += 2 {
			answer.Header.Set(header[i], header[i+1])
		}
		return answer, err
	}
}

// faults are what goes wrong between a process and an API server.
var faults = []fault{
	{"the connection breaks before the request arrives", false, reset},
	{"the connection breaks before the answer arrives", true, reset},
	{"half an answer arrives", true, nil},
	{"429 with Retry-After", false, status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests", "Retry-After", "1")},
	{"429", false, status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests")},
	{"500", false, status(http.StatusInternalServerError, metav1.StatusReasonInternalError, "etcdserver: leader changed")},
	{"500 after the write", true, status(http.StatusInternalServerError, "", "etcdserver: request timed out")},
	{"503", false, status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "apiserver is shutting down")},
	{"504 after the write", true, status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "request did not complete within the allotted timeout")},
}

// flaky lets requests go wrong, each with the same chance.
type flaky struct {
	rate float64

	mu     sync.Mutex
	random *rand.Rand
	drawn  map[string]int
}

func (f *flaky) draw() *fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.random.Float64() >= f.rate {
		return nil
	}
	drawn := &faults[f.random.IntN(len(faults))]
	f.drawn[drawn.name]++
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
	wrong := f.draw()
	if wrong == nil {
		return next.RoundTrip(req)
	}
	if wrong.after {
		answer, err := next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		if wrong.answer == nil {
			return halved(answer)
		}
		discard(answer)
	}
	if wrong.after && isWatch(req) {
		return reset(req)
	}
	return wrong.answer(req)
}

// halved is an answer whose connection breaks in the middle.
func halved(answer *http.Response) (*http.Response, error) {
	body := answer.Body
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(body, 100), broken{}), body}
	return answer, nil
}

type broken struct{}

// Read finds the connection broken.
func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

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
	if !isWatch(req) {
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
		return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "watches are not served")(req)
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
	spring func()

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
		t.spring()
		close(t.sprung)
	}
	answer, err := next.RoundTrip(req)
	if now && !before {
		t.spring()
		close(t.sprung)
		discard(answer)
		return nil, errReset
	}
	return answer, err
}

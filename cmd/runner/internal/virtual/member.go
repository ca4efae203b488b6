package virtual

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
)

// kind is one of the lists of a server.
type kind int

const (
	tools kind = iota
	prompts
	resources
	templates
	lists // how many there are
)

// of has for each list its method, the member of the result that holds it, what names an item, and the capability of a
// server that has it.
var of = [lists]struct{ method, member, name, capability string }{
	{"tools/list", "tools", "name", "tools"},
	{"prompts/list", "prompts", "name", "prompts"},
	{"resources/list", "resources", "uri", "resources"},
	{"resources/templates/list", "resourceTemplates", "uriTemplate", "resources"},
}

// listOf is the list that a method asks for, or lists.
func listOf(method string) kind {
	return kind(slices.IndexFunc(append(of[:], struct{ method, member, name, capability string }{method: method}),
		func(l struct{ method, member, name, capability string }) bool { return l.method == method }))
}

const (
	// fresh is for how long a list of a member stands without being asked for again, and newest the same where a client
	// calls what is not in it.
	fresh, newest = 5 * time.Second, time.Second
	// greeted is the same of what a member says about itself.
	greeted = time.Minute
	// firstWait is how long a client waits for a member of which nothing is known, and laterWait for one whose last list
	// is known, or which has not answered before.
	firstWait, laterWait = 8 * time.Second, 2 * time.Second
	// askTime is how long a member may take to tell a list.
	askTime = 30 * time.Second
)

// member is a member, and what is known of it. The server's lock guards it.
type member struct {
	Member
	server *Server
	// via is how requests go to its proxy, and at is where that is, nil while it cannot be called.
	via http.RoundTripper
	at  *url.URL
	// hello is what it says about itself, nil before it has, and greeting is closed when it is asked no more.
	hello    *hello
	greeting chan struct{}
	lists    [lists]listed
	gone     bool
	// deaf ends the subscription at the member, nil while there is none.
	deaf context.CancelFunc
}

// hello is what a member says about itself.
type hello struct {
	at           time.Time
	offers       [lists]bool
	versions     []string
	title        string
	instructions string
}

// listed is one list of a member.
type listed struct {
	items []item
	bytes int64
	// known says that it has been told, at this time. Ttl and private are how long it stands by what the member says, and
	// whether others may see it.
	known   bool
	at      time.Time
	ttl     time.Duration
	private bool
	// asking says that it is asked for, since began, and failed that it was not told last. Trouble is why, or why it was
	// not told as a whole, nil for neither.
	asking, failed bool
	// again says that it has changed since it was asked for, and is to be asked for again.
	again   bool
	began   time.Time
	trouble *trouble
}

// item is a tool, prompt, resource or template.
type item struct {
	own  string // its name, as the member has it
	text jsontext.Value
	// begin and end are where the name is in the text, and sum is the text's hash.
	begin, end int
	sum        [sha256.Size]byte
	// app says that it is a tool with a user interface (MCP Apps), which calls others by the names that the member has.
	app bool
}

// same reports whether two lists have the same items.
func same(a, b []item) bool {
	return slices.EqualFunc(a, b, func(x, y item) bool { return bytes.Equal(x.text, y.text) })
}

// trouble is why a member does not tell a list.
type trouble struct {
	reason, message string
	// refused says that the member has answered: it has no such list for the virtual server.
	refused bool
}

// Error implements error.
func (t *trouble) Error() string { return t.message }

// Reasons for which a member does not tell a list.
const (
	ReasonNotAnswering  = "NotAnswering"
	ReasonLoginRequired = "LoginRequired"
	ReasonRefused       = "Refused"
	ReasonNotReadable   = "NotReadable"
	ReasonTooLong       = "TooLong"
)

// refresh has a list asked for that is older than an age, unless it is asked for already, and reports until when a
// client waits for it: the zero time for not at all. The server's lock is held.
func (m *member) refresh(k kind, age time.Duration) (until time.Time) {
	l, now := &m.lists[k], time.Now()
	if m.at == nil {
		return time.Time{}
	}
	if !l.asking {
		last := l.at
		if l.failed {
			last = l.began
			age = min(age, newest)
		}
		if (l.known || l.failed) && now.Sub(last) < age {
			return time.Time{}
		}
		l.asking, l.began = true, now
		go m.ask(k)
	}
	if l.known || l.failed {
		return l.began.Add(laterWait)
	}
	return l.began.Add(firstWait)
}

// ask asks for a list, and keeps it.
func (m *member) ask(k kind) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	var got told
	h, err := m.greet(ctx)
	if err == nil && h.offers[k] {
		got, err = m.readList(ctx, k)
	}
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	l := &m.lists[k]
	if l.asking = false; m.gone {
		return
	}
	m.keep(k, got, err)
	if l.again {
		m.due(k)
	}
}

// soon has a list asked for that is said to have changed, a second after it was asked for last at the earliest. The
// lock is held.
func (m *member) soon(k kind) {
	l := &m.lists[k]
	if l.again {
		return
	}
	if l.again = true; !l.asking {
		m.due(k)
	}
}

// due has a list asked for when that may be. The lock is held.
func (m *member) due(k kind) {
	time.AfterFunc(newest-time.Since(m.lists[k].began), func() {
		m.server.mu.Lock()
		defer m.server.mu.Unlock()
		if l := &m.lists[k]; l.again && !l.asking && !m.gone {
			l.again = false
			m.refresh(k, 0)
		}
	})
}

// keep keeps what a member has told of a list, or why it has not. The lock is held.
func (m *member) keep(k kind, got told, err error) {
	s, l := m.server, &m.lists[k]
	defer s.tell()
	var wrong *trouble
	if errors.As(err, &wrong) && (wrong.refused && !l.known || got.items != nil) {
		err = nil // what has been told stands; who refuses what it had keeps its names
	}
	if err == nil && s.held-l.bytes+got.bytes > s.most {
		wrong = &trouble{reason: ReasonTooLong, message: fmt.Sprintf(
			"the lists of all members together are longer than %d MiB", maxHeld>>20)}
		err = wrong
	}
	m.note(k, wrong)
	if l.failed = err != nil; l.failed {
		return
	}
	l.at = time.Now()
	if l.known && same(l.items, got.items) && l.ttl == got.ttl && l.private == got.private {
		return
	}
	s.held += got.bytes - l.bytes
	l.known, l.items, l.bytes, l.ttl, l.private = true, got.items, got.bytes, got.ttl, got.private
	s.stale[k] = true
}

// note notes why a list is not told, or not as a whole, nil for nothing. The lock is held.
func (m *member) note(k kind, wrong *trouble) {
	l := &m.lists[k]
	if wrong != nil && (l.trouble == nil || l.trouble.reason != wrong.reason) {
		m.server.config.Log.Warn("a member does not tell a list", "member", m.Name, "list", of[k].method,
			"reason", wrong.reason, "detail", wrong.message)
	}
	l.trouble = wrong
}

// greet is what a member says about itself, which is a minute old at most.
func (m *member) greet(ctx context.Context) (*hello, error) {
	s := m.server
	s.mu.Lock()
	for m.greeting != nil {
		other := m.greeting
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, notAnswering(ctx.Err())
		}
		s.mu.Lock()
	}
	if m.hello != nil && time.Since(m.hello.at) < greeted {
		defer s.mu.Unlock()
		return m.hello, nil
	}
	m.greeting = make(chan struct{})
	s.mu.Unlock()
	h, err := m.discover(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	close(m.greeting)
	m.greeting = nil
	if err != nil {
		return nil, err
	}
	m.hello = h
	return h, nil
}

// discover asks a member what it is.
func (m *member) discover(ctx context.Context) (*hello, error) {
	text, err := m.question(ctx, protocol.MethodDiscover, jsonrpc.Object{}, maxHello)
	if err != nil {
		return nil, err
	}
	all := jsonrpc.Members(text)
	h := &hello{
		at: time.Now(), title: jsonrpc.TextAt(all["_meta"], protocol.MetaServer, "title"),
		versions: jsonrpc.Discovered(jsonrpc.Message{Result: text}), instructions: jsonrpc.TextAt(text, "instructions"),
	}
	for k := range lists {
		h.offers[k] = jsonrpc.At(all["capabilities"], of[k].capability).Kind() == '{'
	}
	return h, nil
}

// be has a member be as the virtual server has it now. Where it is elsewhere its lists are asked for anew, and those
// before stand until then. The server's lock is held.
func (m *member) be(now Member) {
	at, err := url.Parse(now.URL)
	switch {
	case err != nil || at.Host == "":
		m.at = nil
	case m.Member.URL != now.URL || m.via == nil:
		m.via, m.at, m.hello = m.server.config.Connect(at), at, nil
		if m.deaf != nil {
			m.deaf()
			m.deaf = nil
		}
		for k := range m.lists {
			m.lists[k].at, m.lists[k].failed = time.Time{}, false
		}
	}
	m.Member = now
}

// way is how requests go to a member, and where.
func (m *member) way() (via http.RoundTripper, at *url.URL) {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	return m.via, m.at
}

// forget lets go of what is kept of a member that has left. The server's lock is held.
func (m *member) forget() {
	m.gone = true
	if m.deaf != nil {
		m.deaf()
	}
	for k := range m.lists {
		m.server.held -= m.lists[k].bytes
		m.lists[k].bytes = 0
	}
}

func notAnswering(err error) *trouble {
	return &trouble{reason: ReasonNotAnswering, message: "its proxy does not answer: " + remote.Why(err)}
}

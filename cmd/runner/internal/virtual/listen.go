package virtual

import (
	"context"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/sse"
)

const (
	// maxListens is how many subscriptions there are at once, and maxURIs how many resources one may name.
	maxListens, maxURIs = 1_000, jsonrpc.MaxBatch
	// changePause is how long a client that was told of a change is told of no other one.
	changePause = time.Second
	// keepAlive is how often a subscription says that it is there while it has nothing to say.
	keepAlive = 15 * time.Second
	// acknowledgeTime is how long members may take to say what of a subscription they honor.
	acknowledgeTime = 2 * time.Second
)

// filter is what a client subscribes to (MCP specification 2026-07-28, basic/patterns/subscriptions).
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitzero"`
}

// changes are the notifications that a list has changed, and the lists that each speaks of.
var changes = []struct {
	method string
	of     []kind
	wanted func(filter) bool
}{
	{"notifications/tools/list_changed", []kind{tools}, func(f filter) bool { return f.Tools }},
	{"notifications/prompts/list_changed", []kind{prompts}, func(f filter) bool { return f.Prompts }},
	{
		"notifications/resources/list_changed",
		[]kind{resources, templates},
		func(f filter) bool { return f.Resources },
	},
}

const (
	methodUpdated      = "notifications/resources/updated"
	methodAcknowledged = "notifications/subscriptions/acknowledged"
)

// subscription is one of a client.
type subscription struct {
	server *Server
	id     jsontext.Value
	wants  filter
	out    io.Writer
	// told is what the client knows, as far as it has been told of changes.
	told [lists][32]byte
	// updated are resources of whose changes the client has not been told yet, and wake says that there are some.
	mu      sync.Mutex
	updated map[string]bool
	wake    chan struct{}
}

// listen answers subscriptions/listen with a stream of events, until the client leaves.
func (s *Server) listen(r *http.Request, m jsonrpc.Message) *http.Response {
	var wants filter
	said := jsonrpc.At(m.Params, "notifications")
	if said == nil || json.Unmarshal(said, &wants) != nil || len(wants.URIs) > maxURIs {
		return fail(r, m.ID, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams,
			"params.notifications is no filter with at most %d resources", maxURIs))
	}
	who, _ := r.Context().Value(apartKey{}).(string)
	leave, err := s.listens.Take(who, 1)
	if err != nil {
		return fail(r, m.ID, jsonrpc.Fail(http.StatusServiceUnavailable, protocol.CodeInternal, "TooManySubscriptions: %v",
			err))
	}
	ctx, cancel := context.WithCancel(r.Context())
	from, to := io.Pipe()
	one := &subscription{
		server: s, id: m.ID.Clone(), wants: wants, out: to, updated: map[string]bool{}, wake: make(chan struct{}, 1),
	}
	go func() {
		defer leave()
		defer cancel()
		defer s.listening()()
		to.CloseWithError(one.run(ctx, r))
	}()
	answer := respond(r, http.StatusOK, nil)
	answer.Header.Set("Content-Type", media.Events)
	answer.Header.Set("Cache-Control", "no-cache, no-transform")
	answer.ContentLength = -1
	answer.Body = &ending{from, cancel}
	return answer
}

// ending is the body of a subscription, which ends with it.
type ending struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (e *ending) Close() error {
	e.cancel()
	return e.PipeReader.Close()
}

// run tells a client what it has subscribed to, until it leaves.
func (u *subscription) run(ctx context.Context, r *http.Request) error {
	u.look(func(k kind, now [32]byte) { u.told[k] = now })
	honored := u.wants
	honored.URIs = u.subscribe(ctx, r)
	if err := u.say(methodAcknowledged, jsonrpc.Object{"notifications": encoded(honored)}); err != nil {
		return err
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	var next <-chan time.Time // while nothing is told of changes
	for {
		news := u.server.News()
		if next == nil {
			told, err := u.tellChanges()
			if err != nil {
				return err
			}
			if told {
				next = time.After(changePause)
			}
		}
		select {
		case <-news:
		case <-next:
			next = nil
		case <-u.wake:
			if err := u.tellUpdates(); err != nil {
				return err
			}
		case <-alive.C:
			if _, err := u.out.Write([]byte(":\n\n")); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// look reads what each list is now.
func (u *subscription) look(at func(k kind, now [32]byte)) {
	u.server.mu.Lock()
	defer u.server.mu.Unlock()
	for k := range lists {
		at(k, u.server.now(k).content)
	}
}

// tellChanges tells of lists that are not what the client knows.
func (u *subscription) tellChanges() (told bool, err error) {
	var changed [lists]bool
	u.look(func(k kind, now [32]byte) { changed[k], u.told[k] = now != u.told[k], now })
	for _, c := range changes {
		if !c.wanted(u.wants) || !slices.ContainsFunc(c.of, func(k kind) bool { return changed[k] }) {
			continue
		}
		told = true
		if err := u.say(c.method, jsonrpc.Object{}); err != nil {
			return told, err
		}
	}
	return told, nil
}

// say sends the client a notification.
func (u *subscription) say(method string, params jsonrpc.Object) error {
	meta := jsonrpc.Members(params["_meta"])
	meta[protocol.MetaSubscription] = u.id
	params["_meta"] = meta.Joined()
	_, err := u.out.Write(sse.Message(jsonrpc.Message{Method: method, Params: params.Joined()}.Text()))
	return err
}

// subscribe subscribes to the resources that a client wants, each at the member that has it, and returns those that
// members honor.
func (u *subscription) subscribe(ctx context.Context, r *http.Request) (honored []string) {
	at := map[*member][]string{}
	for _, uri := range u.wants.URIs {
		if m, _, wrong := u.server.find(r.Context(), resources, uri); wrong == nil {
			at[m] = append(at[m], uri)
		}
	}
	acknowledged := make(chan []string, len(at))
	for m, uris := range at {
		go u.follow(ctx, m, uris, acknowledged)
	}
	late := time.After(acknowledgeTime)
	for range at {
		select {
		case uris := <-acknowledged:
			honored = append(honored, uris...)
		case <-late:
			return honored
		case <-ctx.Done():
			return honored
		}
	}
	return honored
}

// follow subscribes to resources of a member until ctx ends. The first answer says which of them it honors; after each
// other one all may have changed.
func (u *subscription) follow(ctx context.Context, m *member, uris []string, acknowledged chan<- []string) {
	first := true
	m.keepSubscribed(ctx, encoded(filter{URIs: uris}), func(said jsonrpc.Message) {
		switch {
		case said.Method == methodUpdated:
			if uri := jsonrpc.TextAt(said.Params, "uri"); slices.Contains(uris, uri) {
				u.update(uri)
			}
		case said.Method == methodAcknowledged && first:
			var takes filter
			_ = json.Unmarshal(jsonrpc.At(said.Params, "notifications"), &takes) //nolint:errcheck // it takes nothing then
			first = false
			acknowledged <- slices.DeleteFunc(takes.URIs, func(uri string) bool { return !slices.Contains(uris, uri) })
		case said.Method == methodAcknowledged:
			u.update(uris...)
		}
	})
}

// update has the client told that resources have changed.
func (u *subscription) update(uris ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, uri := range uris {
		u.updated[uri] = true
	}
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

func (u *subscription) tellUpdates() error {
	u.mu.Lock()
	uris := slices.Sorted(maps.Keys(u.updated))
	clear(u.updated)
	u.mu.Unlock()
	for _, uri := range uris {
		if err := u.say(methodUpdated, jsonrpc.Object{"uri": quoted(uri)}); err != nil {
			return err
		}
	}
	return nil
}

// listening has members listened to until done is called, and others who listen have done as well.
func (s *Server) listening() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners++; s.listeners == 1 {
		s.hearing, s.quiet = context.WithCancel(context.Background())
		for _, m := range s.members {
			s.hear(m)
		}
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.listeners--; s.listeners == 0 {
			s.quiet()
			for _, m := range s.members {
				m.deaf = nil
			}
		}
	}
}

// hear has a member tell when a list of it changes, while somebody waits for that. The lock is held.
func (s *Server) hear(m *member) {
	if s.listeners == 0 || m.deaf != nil || m.at == nil {
		return
	}
	ctx, cancel := context.WithCancel(s.hearing)
	m.deaf = cancel
	go m.hear(ctx)
}

// hear listens to a member until ctx ends.
func (m *member) hear(ctx context.Context) {
	m.keepSubscribed(ctx, encoded(filter{Tools: true, Prompts: true, Resources: true}), m.heard)
}

// keepSubscribed subscribes at a member until ctx ends, again where the stream does.
func (m *member) keepSubscribed(ctx context.Context, wants jsontext.Value, heard func(jsonrpc.Message)) {
	const least, most = time.Second, time.Minute
	for pause := least; ctx.Err() == nil; pause = min(2*pause, most) {
		began := time.Now()
		m.subscribed(ctx, wants, heard)
		if time.Since(began) > most {
			pause = least
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// heard asks for a list that a member says has changed, and for all when the member begins to tell.
func (m *member) heard(said jsonrpc.Message) {
	m.server.mu.Lock()
	defer m.server.mu.Unlock()
	if m.gone {
		return
	}
	for _, c := range changes {
		if said.Method != c.method && said.Method != methodAcknowledged {
			continue
		}
		for _, k := range c.of {
			m.soon(k)
		}
	}
}

// subscribed subscribes at a member, and hands on what that tells, until the stream or ctx ends.
func (m *member) subscribed(ctx context.Context, wants jsontext.Value, heard func(jsonrpc.Message)) {
	answer, err := m.send(ctx, protocol.MethodListen, jsonrpc.Object{"notifications": wants})
	if err != nil {
		return
	}
	defer answer.Body.Close() //nolint:errcheck // nothing is left to read
	if answer.StatusCode != http.StatusOK || media.Type(answer.Header) != media.Events {
		return
	}
	reader := sse.Reader{Limit: maxError, Event: func(e sse.Event) error {
		said, batch, err := jsonrpc.Parse(slices.Clone(e.Message()))
		if err == nil && !batch && said[0].Method != "" && !said[0].Identified() {
			heard(said[0])
		}
		return nil
	}}
	_, _ = io.Copy(&reader, answer.Body) //nolint:errcheck // it ends
}

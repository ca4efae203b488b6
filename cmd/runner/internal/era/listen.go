package era

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// maxListens is how many subscriptions there are at once. Each has a session of its own.
const maxListens = 256

// maxSubscriptions is how many resources one subscription may name, the same as policies take.
const maxSubscriptions = jsonrpc.MaxBatch

// filter is what a client of the modern era subscribes to (MCP specification 2026-07-28, basic/patterns/subscriptions).
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitzero"`
}

// published are the notifications that a client may subscribe to.
var published = []string{
	"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
	"notifications/resources/updated",
}

// wants reports whether a notification is one that the client subscribed to.
func (f filter) wants(m jsonrpc.Message) bool {
	switch m.Method {
	case "notifications/tools/list_changed":
		return f.Tools
	case "notifications/prompts/list_changed":
		return f.Prompts
	case "notifications/resources/list_changed":
		return f.Resources
	case "notifications/resources/updated":
		uri, err := jsonrpc.Members(m.Params).Text("uri")
		return err == nil && slices.Contains(f.URIs, uri)
	}
	return false
}

// listeners are the subscriptions of each client. They hear what the sessions of its calls say, too: a server may tell
// a change in the session alone in which a call made it.
type listeners struct {
	mu  sync.Mutex
	all map[profile][]chan jsonrpc.Message
}

const (
	// maxUnheard is how many changes wait for a subscription whose client is slow. What comes above is dropped.
	maxUnheard = 16
	// maxChange is how long the parameters of one are at most, in bytes: the URI of a resource is short.
	maxChange = 1 << 10
)

// of has a profile without what subscriptions and calls of one client need not share.
func (l *listeners) of(p profile) profile {
	p.level = ""
	return p
}

// add adds a subscription, until it leaves.
func (l *listeners) add(p profile) (news chan jsonrpc.Message, leave func()) {
	p, news = l.of(p), make(chan jsonrpc.Message, maxUnheard)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[profile][]chan jsonrpc.Message{}
	}
	l.all[p] = append(l.all[p], news)
	return news, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all[p] = slices.DeleteFunc(l.all[p], func(one chan jsonrpc.Message) bool { return one == news })
		if len(l.all[p]) == 0 {
			delete(l.all, p)
		}
	}
}

// any reports whether a client has a subscription.
func (l *listeners) any(p profile) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all[l.of(p)]) > 0
}

// tell gives a change to the subscriptions of a client, and reports whether it is one.
func (l *listeners) tell(p profile, m jsonrpc.Message) (change bool) {
	if !slices.Contains(published, m.Method) || m.Identified() {
		return false
	}
	if len(m.Params) > maxChange {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, one := range l.all[l.of(p)] {
		select {
		case one <- jsonrpc.Message{Method: m.Method, Params: m.Params.Clone()}: // the rest is the exchange's
		default:
		}
	}
	return true
}

// listen serves a subscription from the stream of a session of its own, which ends with it.
func (t *Translator) listen(out *output, r *http.Request, c *call) {
	asked := filter{}
	if err := json.Unmarshal(orNull(c.params["notifications"]), &asked); err != nil || len(asked.URIs) > maxSubscriptions {
		out.fail(c.id, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams,
			"params.notifications is no filter with at most %d resources", maxSubscriptions))
		return
	}
	leave, err := t.listens.Take(pipeline.Of(r.Context()).Account(), 1)
	if err != nil {
		out.busy(c.id, "TooManySubscriptions: "+err.Error())
		return
	}
	defer leave()
	origin := t.bare(r)
	ctx, cancel := context.WithTimeout(r.Context(), initializeTime)
	defer cancel()
	s, err := t.initialize(ctx, r, c.profile)
	if err != nil {
		t.refuse(out, r, c, err)
		return
	}
	defer t.sessions.over(func() { t.end(origin, s) })
	stream := t.start(r.Context(), r, http.MethodGet, nil, s.header())
	defer stream.cancel()
	select {
	case <-stream.began:
	case <-r.Context().Done():
		out.cut(r.Context(), c.id)
		return
	}
	// Without a stream of the session there is nothing to be told.
	honored := filter{}
	if stream.events != nil {
		honored = t.subscribe(ctx, r, s, asked)
	}
	beside, quit := t.listeners.add(c.profile) // before the client is told, which may call at once
	defer quit()
	out.event(notification("notifications/subscriptions/acknowledged", jsonrpc.Object{
		"notifications": encoded(honored), "_meta": encoded(jsonrpc.Object{protocol.MetaSubscription: c.id}),
	}))
	all := stream.words
	if stream.events == nil {
		all = nil // the subscription is idle
	}
	answered := make(chan struct{})
	close(answered)
	for said := range heardBeside(r.Context(), t, out, all, beside, func(m jsonrpc.Message) bool {
		t.publish(out, c, words{messages: []jsonrpc.Message{m}}, honored)
		return false
	}) {
		asked := t.publish(out, c, said, honored)
		if len(asked) == 0 {
			continue
		}
		// What is asked next waits until this is answered: a server that floods the stream gets one answer at a time.
		for range heard(r.Context(), t, out, answered) {
		}
		answered = t.answerAside(stream.ctx, origin, asked, s.header())
	}
	// Said also to a client that has left: then nobody hears it.
	out.end(http.StatusOK, jsonrpc.ListenEnd(c.id))
}

// subscribe returns what of a filter the backend tells.
func (t *Translator) subscribe(ctx context.Context, r *http.Request, s *session, asked filter) filter {
	offers := func(feature, what string) bool {
		return string(jsonrpc.At(s.hello["capabilities"], feature, what)) == "true"
	}
	honored := filter{
		Tools:     asked.Tools && offers("tools", "listChanged"),
		Prompts:   asked.Prompts && offers("prompts", "listChanged"),
		Resources: asked.Resources && offers("resources", "listChanged"),
	}
	if !offers("resources", "subscribe") {
		return honored
	}
	for _, uri := range asked.URIs {
		answer, err := t.ask(ctx, r, request(t.newID(), "resources/subscribe", jsonrpc.Object{"uri": encoded(uri)}),
			s.header())
		if err == nil && answer.message.Result != nil {
			honored.URIs = append(honored.URIs, uri)
		}
	}
	return honored
}

// publish passes on what of the backend's words the client subscribed to, and returns what the backend asks.
func (t *Translator) publish(out *output, c *call, said words, honored filter) (asked []jsonrpc.Message) {
	for _, m := range said.messages {
		switch {
		case m.Call():
			asked = append(asked, m)
		case !m.Response() && !m.Identified() && honored.wants(m):
			params := jsonrpc.Members(m.Params)
			meta := with(jsonrpc.Members(params["_meta"]), jsonrpc.Object{protocol.MetaSubscription: c.id})
			out.event(notification(m.Method, with(params, jsonrpc.Object{"_meta": encoded(meta)})))
		}
	}
	return asked
}

// answerAside answers what the backend asks on a stream, one after the other, while the stream is read on. The channel
// is closed then.
func (t *Translator) answerAside(
	ctx context.Context, r *http.Request, asked []jsonrpc.Message, header http.Header,
) chan struct{} {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		for _, m := range asked {
			if ctx.Err() == nil {
				t.answerAlone(ctx, r, reply{message: m}, header)
			}
		}
	}()
	return answered
}

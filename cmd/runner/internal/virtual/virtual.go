// Package virtual is a virtual server: a server of MCP of the modern era (MCP specification 2026-07-28) that has
// nothing of its own. It lists what its members have, and gives each call to the member that has it, as a client of the
// members' proxies.
//
// Read Server.RoundTrip first. It stands where the backend of any other server does, behind the same login, policies
// and translation, but in the process: what a client of the legacy era says has become the modern one's by then, and a
// member of the legacy era has a translator of its own, in its proxy. So no session is here, and no state but what the
// members have said, which another pod finds out itself.
package virtual

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/headers"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/share"
)

// Member is a server whose tools, prompts and resources are listed.
type Member struct {
	Key
	// URL is where its proxy answers MCP, empty while it cannot be called: its names are kept for it.
	URL string `json:"url,omitempty"`
	// Prefix stands before the names of its tools and prompts, with what separates it.
	Prefix string `json:"prefix,omitempty"`
	// Allow are the tools that are listed, by their own names, in which * is any text: all where it is empty, but for
	// those of Exclude.
	Allow   []string `json:"allow,omitempty"`
	Exclude []string `json:"exclude,omitempty"`
	// Joined orders members: one that joins later has a higher number, which it keeps.
	Joined int64 `json:"joined"`
}

// Key names a member, by kind and name of its object.
type Key struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Config is what a virtual server is told.
type Config struct {
	// Name, Title and Version are what clients read of the server; Title may be empty.
	Name, Title, Version string
	// Instructions are the server's own, which come before those of its members.
	Instructions string
	// Verbatim lists names as members have them, behind their prefixes. Else characters become _ that some clients refuse.
	Verbatim bool
	// OwnNames has user interfaces of members call by the members' own names. Policies judge the names that clients write,
	// so there must be none.
	OwnNames bool
	// Connect is how requests go to the proxy of a member.
	Connect func(*url.URL) http.RoundTripper
	// Log receives what members answer, where that changes.
	Log *slog.Logger
}

// Server is a virtual server. Make it with New.
type Server struct {
	config Config
	// info is serverInfo, as JSON.
	info jsontext.Value
	// page and most are maxPage and maxHeld, unless a test changes them.
	page int
	most int64
	// listens are places for subscriptions.
	listens *share.Places
	// long is a place for each long list that is read.
	long chan struct{}

	mu      sync.Mutex
	members []*member // in the order in which they joined
	isSet   bool      // it is known who they are
	// recorded are the members that had a name first, by lists and names, where several have it.
	recorded map[Name]Key
	// merged are the lists as they were last made, and stale says that members have said something else since.
	merged [lists]*merged
	stale  [lists]bool
	// shown are the lists as clients were told them last, or have called by them.
	shown [lists]*merged
	// news is closed when something is known of a member that was not, and another takes its place.
	news chan struct{}
	held int64 // bytes of all lists
	// listeners is how many subscriptions wait for changes of lists, for which members are listened to until quiet is
	// called.
	listeners int
	hearing   context.Context //nolint:containedctx // that of all who listen
	quiet     context.CancelFunc
}

// Name is a name in one of the lists.
type Name struct {
	// List is as its method says: tools, prompts, resources or resources/templates.
	List string `json:"list"`
	Name string `json:"name"`
}

// New makes a server without members.
func New(config Config) *Server {
	info := jsonrpc.Object{"name": quoted(config.Name), "version": quoted(config.Version)}
	if config.Title != "" {
		info["title"] = quoted(config.Title)
	}
	return &Server{
		config: config, info: info.Joined(), page: maxPage, most: maxHeld, long: make(chan struct{}, longLists),
		listens: share.New(maxListens, share.Half(maxListens)), news: make(chan struct{}),
	}
}

// Set has these be the members. Recorded says who had a name first that several have. What is known of a member that
// stays is kept, and the others are asked.
func (s *Server) Set(members []Member, recorded map[Name]Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[Key]*member{}
	for _, m := range s.members {
		known[m.Key] = m
	}
	s.members, s.recorded, s.isSet = nil, recorded, true
	for _, each := range members {
		m := known[each.Key]
		if m == nil {
			m = &member{server: s}
		}
		delete(known, each.Key)
		m.be(each)
		s.members = append(s.members, m)
	}
	for _, gone := range known {
		gone.forget()
	}
	slices.SortStableFunc(s.members, func(a, b *member) int { return int(a.Joined - b.Joined) })
	for _, m := range s.members {
		s.hear(m)
		for k := range lists {
			if !m.lists[k].known {
				m.refresh(k, fresh)
			}
		}
	}
	s.changed()
}

// changed has all lists made anew, and wakes who waits for members. The lock is held.
func (s *Server) changed() {
	s.stale = [lists]bool{true, true, true, true}
	s.tell()
}

// tell wakes who waits for members to answer. The lock is held.
func (s *Server) tell() {
	close(s.news)
	s.news = make(chan struct{})
}

// Methods that are served, beside those of the lists.
const (
	methodPrompt   = "prompts/get"
	methodRead     = "resources/read"
	methodComplete = "completion/complete"
)

// lacks reports whether a method is not served.
func lacks(method string) bool {
	switch method {
	case protocol.MethodDiscover, protocol.MethodListen, protocol.MethodCallTool, methodPrompt, methodRead, methodComplete:
		return false
	}
	return listOf(method) == lists
}

// RoundTrip implements http.RoundTripper: it answers a request, or has a member answer it. Its errors are those of the
// request's body, and of a client that has left.
func (s *Server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost {
		answer := respond(r, http.StatusMethodNotAllowed)
		answer.Header.Set("Allow", http.MethodPost)
		return answer, nil
	}
	text, done, err := textOf(r)
	if err != nil {
		return nil, err
	}
	defer done()
	messages, batch, err := budget.Parse(text)
	var malformed *budget.Malformed
	switch {
	case errors.As(err, &malformed):
		return fail(r, nil, jsonrpc.Fail(http.StatusBadRequest, codeParse, "ParseError: %v", err)), nil
	case err != nil:
		return nil, err
	case batch:
		return fail(r, nil, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidRequest,
			"revision %s has no batches", protocol.Modern)), nil
	}
	m := messages[0]
	if !m.Call() { // the era has no notifications of clients over HTTP
		return respond(r, http.StatusAccepted), nil
	}
	if wrong := headers.Valid(r.Header, m, lacks, []string{protocol.Modern}); wrong != nil {
		return fail(r, m.ID, wrong), nil
	}
	return s.serve(r, m, text)
}

// codeParse is JSON-RPC's for what is no message.
const codeParse = -32700

// serve answers a request that is whole.
func (s *Server) serve(r *http.Request, m jsonrpc.Message, text []byte) (*http.Response, error) {
	switch m.Method {
	case protocol.MethodDiscover:
		return result(r, m.ID, s.discover()), nil
	case protocol.MethodListen:
		return s.listen(r, m), nil
	case protocol.MethodCallTool:
		return s.callNamed(r, m, text, tools)
	case methodPrompt:
		return s.callNamed(r, m, text, prompts)
	case methodRead:
		return s.read(r, m, text)
	case methodComplete:
		return s.complete(r, m, text)
	}
	answer := s.list(r, m, listOf(m.Method))
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	return answer, nil
}

// textOf is the body of a request. Its room is kept until done is called.
func textOf(r *http.Request) (text []byte, done func(), err error) {
	done = func() {}
	if body, of := r.Body.(*pipeline.Body); of {
		done = body.Keep()
		if text, whole := body.Take(); whole {
			return text, done, nil
		}
	}
	if r.Body == nil {
		return nil, done, nil
	}
	if text, err = io.ReadAll(r.Body); err != nil {
		done()
	}
	return text, done, err
}

// respond is an answer of ours, of parts of which no one is copied.
func respond(r *http.Request, status int, parts ...[]byte) *http.Response {
	var body []io.Reader
	size := 0
	for _, part := range parts {
		body, size = append(body, bytes.NewReader(part)), size+len(part)
	}
	answer := &http.Response{
		StatusCode: status, Status: strconv.Itoa(status) + " " + http.StatusText(status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, Header: http.Header{},
		Body: io.NopCloser(io.MultiReader(body...)), ContentLength: int64(size),
	}
	if size > 0 {
		answer.Header.Set("Content-Type", media.JSON)
		answer.Header.Set("Content-Length", strconv.Itoa(size))
	}
	return answer
}

func result(r *http.Request, id, value jsontext.Value) *http.Response {
	return respond(r, http.StatusOK, jsonrpc.Result(id, value))
}

func fail(r *http.Request, id jsontext.Value, f *jsonrpc.Fault) *http.Response {
	return respond(r, f.Status, f.Response(id))
}

// quoted is a text as JSON.
func quoted(text string) jsontext.Value {
	value, _ := jsontext.AppendQuote(nil, text) //nolint:errcheck // what is not UTF-8 becomes U+FFFD
	return value
}

// encoded is a value of ours as JSON.
func encoded(v any) jsontext.Value {
	text, err := json.Marshal(v, json.Deterministic(true), jsonrpc.Lenient)
	if err != nil {
		panic("encoding a message of ours: " + err.Error())
	}
	return text
}

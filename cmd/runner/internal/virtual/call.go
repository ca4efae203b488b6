package virtual

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/media"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
	"github.com/freehold-dev/freehold/cmd/runner/internal/proxy"
	"github.com/freehold-dev/freehold/cmd/runner/internal/remote"
)

// callNamed has the member that has a tool or a prompt answer a call of it.
func (s *Server) callNamed(r *http.Request, m jsonrpc.Message, text []byte, k kind) (*http.Response, error) {
	name := jsonrpc.TextAt(m.Params, "name")
	to, own, wrong := s.find(r.Context(), k, name)
	switch {
	case r.Context().Err() != nil:
		return nil, context.Cause(r.Context())
	case wrong != nil:
		return fail(r, m.ID, wrong), nil
	case own != name:
		text, _ = jsonrpc.Swapped(text, quoted(own), "params", "name")
	}
	return s.forward(r, m, to, text, own)
}

// find is the member that has a name of a list, and the name there. Members that may have it are asked where this pod
// does not know it.
func (s *Server) find(ctx context.Context, k kind, name string) (to *member, own string, wrong *jsonrpc.Fault) {
	s.mu.Lock()
	all := s.now(k)
	at, listed := all.by[name]
	settled := s.settled(k, name)
	s.mu.Unlock()
	if !listed || !settled {
		all, _ = s.await(ctx, k, newest, func(all *merged) bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			_, is := all.by[name]
			return is && s.settled(k, name)
		})
		at, listed = all.by[name]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if listed {
		if s.settled(k, "") {
			s.shown[k] = all
		}
		return all.entries[at].of, all.entries[at].own, nil
	}
	if m := s.recordedHolder(k, name); m != nil && !m.lists[k].known {
		return nil, "", notReached(m.Name, "its list is not known yet")
	}
	if k == tools && s.config.OwnNames {
		if e := all.ofApp(name); e != nil {
			return e.of, e.own, nil
		}
	}
	return nil, "", s.unknown(k, name)
}

// unknown is what a client is told who calls what is not there. The lock is held.
func (s *Server) unknown(k kind, name string) *jsonrpc.Fault {
	var missing []string
	for _, m := range s.silent(k, name) {
		missing = append(missing, m.Name)
	}
	if len(missing) > 0 {
		return jsonrpc.Fail(http.StatusOK, proxy.CodeBackendUnreachable,
			"MemberUnreachable: %s %.256q is not known, and these members have not answered: %s", singular[k], name,
			strings.Join(missing, ", "))
	}
	return jsonrpc.Fail(http.StatusOK, protocol.CodeInvalidParams, "unknown %s: %.256q", singular[k], name)
}

// singular is what an item of a list is called.
var singular = [lists]string{"tool", "prompt", "resource", "resource template"}

// silent are the members that may have a name, or any where that is empty, and have not told their list. The lock is
// held.
func (s *Server) silent(k kind, name string) (all []*member) {
	for _, m := range s.members {
		if !m.lists[k].known && (name == "" || k > prompts || m.mayName(name, s.config.Verbatim)) {
			all = append(all, m)
		}
	}
	return all
}

// settled reports whether nobody is waited for who may have a name: another one may hold it. The lock is held.
func (s *Server) settled(k kind, name string) bool {
	return !slices.ContainsFunc(s.silent(k, name), func(m *member) bool { return m.at != nil && !m.lists[k].failed })
}

// ofApp is the tool that a user interface of a member calls by the member's own name for it (MCP Apps): the one of the
// only member that has the name, and has such interfaces.
func (l *merged) ofApp(own string) (found *entry) {
	apps := map[*member]bool{}
	for i, e := range l.entries {
		apps[e.of] = apps[e.of] || e.app
		if e.own != own {
			continue
		}
		if found != nil {
			return nil
		}
		found = &l.entries[i]
	}
	if found == nil || !apps[found.of] {
		return nil
	}
	return found
}

// complete has the member that has a prompt, or a template, complete an argument of it.
func (s *Server) complete(r *http.Request, m jsonrpc.Message, text []byte) (*http.Response, error) {
	k, member := prompts, "name"
	if jsonrpc.TextAt(m.Params, "ref", "type") == "ref/resource" {
		k, member = templates, "uri"
	}
	name := jsonrpc.TextAt(m.Params, "ref", member)
	if name == "" {
		return fail(r, m.ID, jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams,
			"params.ref names no prompt and no resource")), nil
	}
	to, own, wrong := s.find(r.Context(), k, name)
	if wrong != nil && k == templates && wrong.Code == protocol.CodeInvalidParams { // a template may be a URI
		to, own, wrong = s.find(r.Context(), resources, name)
	}
	switch {
	case r.Context().Err() != nil:
		return nil, context.Cause(r.Context())
	case wrong != nil:
		return fail(r, m.ID, wrong), nil
	case own != name:
		text, _ = jsonrpc.Swapped(text, quoted(own), "params", "ref", member)
	}
	return s.forward(r, m, to, text, "")
}

// read has the member that has a resource answer. One that nobody lists may be of a template, or of what a tool has
// told: members are asked one after the other until one has it.
func (s *Server) read(r *http.Request, m jsonrpc.Message, text []byte) (*http.Response, error) {
	uri := jsonrpc.TextAt(m.Params, "uri")
	to, _, wrong := s.find(r.Context(), resources, uri)
	if r.Context().Err() != nil {
		return nil, context.Cause(r.Context())
	}
	if wrong == nil {
		return s.forward(r, m, to, text, uri)
	}
	var last *http.Response // of who may have it, and does not say
	may := s.mayHave(r.Context(), uri)
	for i, to := range may {
		answer, err := s.try(r, m, to, text, uri, i+1 < len(may))
		switch {
		case r.Context().Err() != nil:
			return nil, context.Cause(r.Context())
		case err != nil:
			continue
		}
		switch saysOf(answer) {
		case hasIt:
			return answer, nil
		case cannotSay:
			last = answer
			continue
		case hasNot:
		}
		_ = answer.Body.Close() //nolint:errcheck // it was read
	}
	if last != nil {
		return last, nil
	}
	return fail(r, m.ID, wrong), nil
}

// try has a member answer, which begins to within a time where others may be asked.
func (s *Server) try(
	r *http.Request, m jsonrpc.Message, to *member, text []byte, uri string, others bool,
) (*http.Response, error) {
	if !others {
		return s.forward(r, m, to, text, uri)
	}
	ctx, cancel := context.WithCancel(r.Context())
	late := time.AfterFunc(laterWait, cancel)
	answer, err := s.forward(r.WithContext(ctx), m, to, text, uri)
	if !late.Stop() || err != nil {
		cancel()
		return nil, cmp.Or(err, context.Canceled)
	}
	answer.Request = r
	context.AfterFunc(r.Context(), cancel)
	return answer, nil
}

// mayHave are the members that may have a resource which none lists: those which have a template that begins as its URI
// does, and where there are none all that have resources.
func (s *Server) mayHave(ctx context.Context, uri string) (all []*member) {
	listed, _ := s.await(ctx, templates, fresh, never)
	begins := map[*member]bool{}
	for _, e := range listed.entries {
		literal, _, _ := strings.Cut(e.own, "{")
		if !begins[e.of] && strings.HasPrefix(uri, literal) {
			begins[e.of] = true
			all = append(all, e.of)
		}
	}
	if len(all) > 0 {
		return all
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if m.at != nil && m.hello != nil && m.hello.offers[resources] {
			all = append(all, m)
		}
	}
	return all
}

// maxError is how long an answer may be that says that there is no resource.
const maxError = 64 << 10

// What an answer says of a resource.
type verdict int

const (
	hasIt verdict = iota
	hasNot
	cannotSay // the member does not answer, or does not let the virtual server in
)

// saysOf is what an answer says. It can be read afterwards.
func saysOf(answer *http.Response) verdict {
	if media.Type(answer.Header) != media.JSON || answer.ContentLength > maxError {
		return hasIt
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxError))
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), answer.Body), answer.Body}
	if err != nil || len(text) == maxError {
		return hasIt
	}
	said, batch, err := jsonrpc.ParseAnswer(text)
	if err != nil || batch {
		return hasIt
	}
	switch codeOf(said[0].Error) {
	case protocol.CodeInvalidParams, protocol.CodeNotFound, protocol.CodeMethodNotFound:
		return hasNot
	case proxy.CodeBackendUnreachable, proxy.CodeBackendStarting, proxy.CodeNotLoggedIn, proxy.CodeNotPermitted:
		return cannotSay
	}
	return hasIt
}

func codeOf(e jsontext.Value) (code int) {
	_ = json.Unmarshal(jsonrpc.At(e, "code"), &code) //nolint:errcheck // what is no number is none
	return code
}

// forward has a member answer a request, whose header names what the member calls so. The answer passes as it is where
// it is one: the status of HTTP is the member's proxy's, and would be taken for the virtual server's.
func (s *Server) forward(
	r *http.Request, m jsonrpc.Message, to *member, text []byte, name string,
) (*http.Response, error) {
	s.mu.Lock()
	via, at := to.via, to.at
	s.mu.Unlock()
	if at == nil {
		return fail(r, m.ID, notReached(to.Name, "it is not served now")), nil
	}
	out := (&http.Request{
		Method: http.MethodPost, URL: at, Host: at.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(text)), ContentLength: int64(len(text)),
	}).WithContext(r.Context())
	for header, values := range r.Header {
		if passes(header) {
			out.Header[header] = values
		}
	}
	if name != "" {
		out.Header.Set(protocol.HeaderName, protocol.Encoded(name))
	}
	if mark, is := r.Context().Value(apartKey{}).(string); is {
		out.Header.Set(protocol.HeaderApart, mark)
	}
	answer, err := via.RoundTrip(out)
	switch {
	case r.Context().Err() != nil:
		return nil, context.Cause(r.Context())
	case err != nil:
		return fail(r, m.ID, notReached(to.Name, remote.Why(err))), nil
	}
	answer.Request = r
	if answer.StatusCode == http.StatusOK {
		return answer, nil
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	return s.judge(r, m, to.Name, answer), nil
}

type apartKey struct{}

// Apart is a context of whose requests members are told that they are of one client, and of no other one.
func Apart(ctx context.Context, mark string) context.Context {
	return context.WithValue(ctx, apartKey{}, mark)
}

// passes reports whether a header of a client goes on to members. What lets a client in, at the virtual server or at
// one of them, does not: it would be shown to all.
func passes(name string) bool {
	switch name {
	case "Accept", "Accept-Language", "Content-Type", "User-Agent", "Traceparent", "Tracestate",
		"Baggage", "B3", "X-Correlation-Id", "X-Request-Id", protocol.HeaderVersion, protocol.HeaderMethod,
		protocol.HeaderName:
		return true
	}
	return strings.HasPrefix(name, "Mcp-Param-") || strings.HasPrefix(name, "X-B3-")
}

// notReached is what a client is told of a member that gives no answer.
func notReached(name, why string) *jsonrpc.Fault {
	return jsonrpc.Fail(http.StatusOK, proxy.CodeBackendUnreachable, "MemberUnreachable: no answer from the member %s: %s",
		name, why)
}

// judge makes an answer with another status of HTTP than 200 the answer to a call.
func (s *Server) judge(r *http.Request, m jsonrpc.Message, name string, answer *http.Response) *http.Response {
	said, err := s.answerIn(r.Context(), answer, maxError)
	status, code := answer.StatusCode, codeOf(said.Error)
	words := printable.Line(jsonrpc.TextAt(said.Error, "message"), maxWords)
	switch {
	case status == http.StatusBadRequest && (code == protocol.CodeHeaderMismatch ||
		code == protocol.CodeMissingCapability || code == protocol.CodeUnsupportedVersion):
		// What clients act on, in words and status of the revision.
		return respond(r, status, jsonrpc.Message{ID: m.ID, Error: said.Error}.Text())
	case status == http.StatusUnauthorized:
		return fail(r, m.ID, jsonrpc.Fail(http.StatusOK, proxy.CodeNotLoggedIn,
			"MemberRefuses: the member %s asks for a login, which a virtual server does not have: %s", name, words))
	case status == http.StatusForbidden:
		return fail(r, m.ID, jsonrpc.Fail(http.StatusOK, proxy.CodeNotPermitted,
			"MemberRefuses: the member %s does not permit the call: %s", name, words))
	case said.Error != nil:
		return respond(r, http.StatusOK, jsonrpc.Message{ID: m.ID, Error: said.Error}.Text())
	case err != nil:
		return fail(r, m.ID, notReached(name, err.Error()))
	}
	return fail(r, m.ID, notReached(name, fmt.Sprintf("it answers HTTP %d", status)))
}

package virtual

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// fake is a member's proxy, which counts what is asked of it.
type fake struct {
	mu sync.Mutex
	// lists are the items of each list, as JSON, and page how many are on a page: all where it is 0.
	lists [lists][]string
	page  int
	// hello is what stands beside in the answer to server/discover, and lacks are capabilities that it does not have.
	hello string
	lacks []string
	// answer, if not nil, answers in place of all of this where it returns an answer or an error.
	answer func(r *http.Request, m jsonrpc.Message) (*http.Response, error)
	// asked counts requests, by method and, in calls, by what is called.
	asked map[string]int
	calls []string
	// seen are the headers of the last call.
	seen http.Header
}

// tool is a tool with a name.
func tool(name string) string {
	return fmt.Sprintf(`{"description":"about %s","name":%q,"x":1}`, name, name)
}

func toolsOf(names ...string) *fake {
	f := &fake{}
	for _, name := range names {
		f.lists[tools] = append(f.lists[tools], tool(name))
	}
	return f
}

// RoundTrip implements http.RoundTripper.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	messages, _, err := jsonrpc.Parse(text)
	if err != nil {
		return nil, err
	}
	m := messages[0]
	if wrong := refused(r, m); wrong != nil {
		return nil, wrong
	}
	f.mu.Lock()
	if f.asked == nil {
		f.asked = map[string]int{}
	}
	f.asked[m.Method]++
	answer := f.answer
	f.mu.Unlock()
	if answer != nil {
		if said, err := answer(r, m); said != nil || err != nil {
			return said, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reply(r, m), nil
}

// refused is what a server would not take.
func refused(r *http.Request, m jsonrpc.Message) error {
	name := jsonrpc.TextAt(m.Params, protocol.NameMember[m.Method])
	if protocol.NameMember[m.Method] == "" {
		name = ""
	}
	sent, err := protocol.Decoded(r.Header.Get(protocol.HeaderName))
	if err != nil || sent != name || r.Header.Get(protocol.HeaderMethod) != m.Method {
		return fmt.Errorf("headers do not repeat %s of %s: %v", m.Method, name, r.Header)
	}
	return nil
}

func (f *fake) reply(r *http.Request, m jsonrpc.Message) *http.Response {
	if m.Method == protocol.MethodDiscover {
		has := jsonrpc.Object{}
		for _, name := range []string{"tools", "prompts", "resources"} {
			if !slices.Contains(f.lacks, name) {
				has[name] = jsontext.Value(`{}`)
			}
		}
		return says(r, m, fmt.Sprintf(`{"supportedVersions":["2026-07-28"],"capabilities":%s%s}`, has.Joined(), f.hello))
	}
	if k := listOf(m.Method); k < lists {
		from, _ := strconv.Atoi(jsonrpc.TextAt(m.Params, "cursor"))
		all, next := f.lists[k][min(from, len(f.lists[k])):], ""
		if f.page > 0 && len(all) > f.page {
			all, next = all[:f.page], fmt.Sprintf(`,"nextCursor":"%d"`, from+f.page)
		}
		return says(r, m, fmt.Sprintf(`{%q:[%s],"ttlMs":7000,"cacheScope":"public"%s}`, of[k].member, strings.Join(all, ","),
			next))
	}
	name := jsonrpc.TextAt(m.Params, protocol.NameMember[m.Method])
	if m.Method == methodComplete {
		name = jsonrpc.TextAt(m.Params, "ref", "name") + jsonrpc.TextAt(m.Params, "ref", "uri")
	}
	f.seen = r.Header
	f.calls = append(f.calls, name)
	return says(r, m, fmt.Sprintf(`{"said":%q}`, r.URL.Host+" "+name))
}

// says is an answer with a result.
func says(r *http.Request, m jsonrpc.Message, result string) *http.Response {
	return respond(r, http.StatusOK, jsonrpc.Result(m.ID, jsontext.Value(result)))
}

func (f *fake) count(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[method]
}

// set are members that a virtual server connects to by their names.
type set struct {
	mu  sync.Mutex
	all map[string]*fake
}

func (s *set) connect(to *url.URL) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		s.mu.Lock()
		f := s.all[to.Host]
		s.mu.Unlock()
		if f == nil {
			return nil, errors.New("connection refused")
		}
		return f.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// member is one that joined at a place, with its name and _ as prefix.
func memberAt(name string, joined int64, edit ...func(*Member)) Member {
	m := Member{
		Key: Key{"MCPServer", name}, URL: "http://" + name + "/mcp", Prefix: name + "_", Joined: joined,
	}
	for _, e := range edit {
		e(&m)
	}
	return m
}

func prefixed(prefix string) func(*Member) { return func(m *Member) { m.Prefix = prefix } }

// serverOf is a virtual server of fakes, of which each is a member by its name, in the order of their names.
func serverOf(fakes map[string]*fake, edit ...func(*Config)) *Server {
	all := &set{all: fakes}
	config := Config{
		Name: "all", Version: "1", Connect: all.connect, Log: slog.New(slog.DiscardHandler),
	}
	for _, e := range edit {
		e(&config)
	}
	return New(config)
}

// ask asks a virtual server, and returns the status, and the result or the error as JSON.
func ask(
	t *testing.T, s *Server, method, params string, edit ...func(*http.Request),
) (status int, result, fault string) {
	t.Helper()
	return askFor(t.Context(), t, s, method, params, edit...)
}

func askFor(
	ctx context.Context, t *testing.T, s *Server, method, params string, edit ...func(*http.Request),
) (status int, result, fault string) {
	t.Helper()
	all := jsonrpc.Members(jsontext.Value(params))
	all["_meta"] = jsontext.Value(`{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}`)
	text := jsonrpc.Message{ID: jsontext.Value(`"x"`), Method: method, Params: all.Joined()}.Text()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://v/mcp", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, protocol.HeaderVersion: {protocol.Modern}, protocol.HeaderMethod: {method},
	}
	if member := protocol.NameMember[method]; member != "" {
		r.Header.Set(protocol.HeaderName, protocol.Encoded(jsonrpc.TextAt(jsontext.Value(params), member)))
	}
	for _, e := range edit {
		e(r)
	}
	answer, err := s.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s: %v", method, err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if len(body) == 0 {
		return answer.StatusCode, "", ""
	}
	said, _, err := jsonrpc.ParseAnswer(body)
	if err != nil || answer.Request != r || string(said[0].ID) != `"x"` && said[0].ID.Kind() != 'n' {
		t.Fatalf("%s is answered with %s: %v", method, body, err)
	}
	return answer.StatusCode, string(said[0].Result), string(said[0].Error)
}

// namesIn are the names in the result of a list.
func namesIn(t *testing.T, k kind, result string) (names []string) {
	t.Helper()
	var items []map[string]any
	if err := json.Unmarshal(jsonrpc.At(jsontext.Value(result), of[k].member), &items); err != nil {
		t.Fatalf("%s: %v", result, err)
	}
	for _, one := range items {
		name, _ := one[of[k].name].(string)
		names = append(names, name)
	}
	return names
}

// lateIn are the members that a list says are late.
func lateIn(t *testing.T, result string) (names []string) {
	t.Helper()
	late := jsonrpc.At(jsontext.Value(result), "_meta", metaLate)
	if late == nil {
		return nil
	}
	if err := json.Unmarshal(late, &names); err != nil {
		t.Fatal(err)
	}
	return names
}

// list is the names of a list, and who is late.
func list(t *testing.T, s *Server, k kind) (names, late []string) {
	t.Helper()
	status, result, fault := ask(t, s, of[k].method, `{}`)
	if status != http.StatusOK || fault != "" {
		t.Fatalf("%s is answered with HTTP %d %s", of[k].method, status, fault)
	}
	return namesIn(t, k, result), lateIn(t, result)
}

package virtual

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// Lists are in the order in which members joined, and then in their own. What is not a name passes as it is.
func TestListsAreThoseOfAllMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, a := toolsOf("one", "two.x"), toolsOf("delete_it", "get")
		b.lists[prompts] = []string{`{"name":"p"}`}
		b.lists[resources] = []string{`{"uri":"x://1","name":"n"}`, `{"uri":"x://2"}`}
		a.lists[templates] = []string{`{"uriTemplate":"x://{id}"}`}
		a.lacks = []string{"prompts"}
		s := serverOf(map[string]*fake{"a": a, "b": b})
		s.Set([]Member{
			memberAt("a", 2, func(m *Member) { m.Exclude = []string{"delete*"} }), memberAt("b", 1, prefixed("")),
		}, nil)
		names, late := list(t, s, tools)
		equal(t, "tools", names, "one", "two_x", "a_get")
		equal(t, "late", late)
		names, _ = list(t, s, prompts)
		equal(t, "prompts", names, "p")
		names, _ = list(t, s, resources)
		equal(t, "resources", names, "x://1", "x://2")
		names, _ = list(t, s, templates)
		equal(t, "templates", names, "x://{id}")
		if n := a.count("prompts/list"); n != 0 {
			t.Errorf("a member without prompts is asked for them %d times", n)
		}
		_, result, _ := ask(t, s, "tools/list", `{}`)
		for _, want := range []string{
			`{"description":"about two.x","name":"two_x","x":1}`, `"resultType":"complete"`, `"ttlMs":7000`,
			`"cacheScope":"public"`, `"io.modelcontextprotocol/serverInfo":{"name":"all","version":"1"}`,
		} {
			if !strings.Contains(result, want) {
				t.Errorf("%s has no %s", result, want)
			}
		}
	})
}

// hangs has a member's answer to a method wait until go on is closed.
func hangs(method string) (answer func(*http.Request, jsonrpc.Message) (*http.Response, error), goOn chan struct{}) {
	goOn = make(chan struct{})
	return func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
		if m.Method != method {
			return nil, nil //nolint:nilnil // the fake answers
		}
		select {
		case <-goOn:
			return nil, nil //nolint:nilnil // the fake answers
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}, goOn
}

// took is how long something takes.
func took(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// A member that is slow costs its own tools, after a bound, and is told. Nobody waits for it twice as long.
func TestAListDoesNotWaitForASlowMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := toolsOf("x"), toolsOf("y")
		var goOn chan struct{}
		b.answer, goOn = hangs("tools/list")
		s := serverOf(map[string]*fake{"a": a, "b": b})
		s.Set([]Member{memberAt("a", 1), memberAt("b", 2)}, nil)
		time.Sleep(3 * time.Second) // it is waited for since it was asked first
		var names, late []string
		if is := took(func() { names, late = list(t, s, tools) }); is != firstWait-3*time.Second {
			t.Errorf("the first list took %s", is)
		}
		equal(t, "the first list", names, "a_x")
		equal(t, "late", late, "b")
		if is := took(func() { names, _ = list(t, s, tools) }); is != 0 {
			t.Errorf("the second list took %s", is)
		}
		time.Sleep(askTime) // it fails
		if is := took(func() { names, late = list(t, s, tools) }); is != laterWait {
			t.Errorf("a list after it has failed took %s", is)
		}
		close(goOn)
		synctest.Wait()
		names, late = list(t, s, tools)
		equal(t, "all", names, "a_x", "b_y")
		equal(t, "late", late)
		b.answer, goOn = hangs("tools/list")
		time.Sleep(fresh)
		if is := took(func() { names, late = list(t, s, tools) }); is != laterWait {
			t.Errorf("a list where the last one is known took %s", is)
		}
		equal(t, "the last known", names, "a_x", "b_y")
		equal(t, "late", late, "b")
		close(goOn)
	})
}

// Discover waits for nobody.
func TestDiscoverWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := toolsOf("x")
		a.hello = `,"instructions":"Line one.\nLine two.","_meta":{"io.modelcontextprotocol/serverInfo":{"title":"T"}}`
		b := toolsOf("y")
		var goOn chan struct{}
		b.answer, goOn = hangs(protocol.MethodDiscover)
		s := serverOf(map[string]*fake{"a": a, "b": b}, func(c *Config) { c.Instructions, c.Title = "First.", "All" })
		s.Set([]Member{memberAt("a", 1), memberAt("b", 2)}, nil)
		synctest.Wait()
		var result string
		if is := took(func() { _, result, _ = ask(t, s, protocol.MethodDiscover, `{}`) }); is != 0 {
			t.Errorf("it took %s", is)
		}
		if got := jsonrpc.TextAt(jsontext.Value(result), "instructions"); got != "First.\na (a_*): Line one. Line two." {
			t.Errorf("its instructions are %q", got)
		}
		if !strings.Contains(result, `"supportedVersions":["2026-07-28"]`) || !strings.Contains(result, `"title":"All"`) {
			t.Errorf("it says %s", result)
		}
		close(goOn)
	})
}

// Many clients at once have a member asked once, and nobody asks while a list is fresh, nor while nobody lists.
func TestMembersAreAskedOnceForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := toolsOf("x")
		s := serverOf(map[string]*fake{"a": a})
		s.Set([]Member{memberAt("a", 1)}, nil)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() { list(t, s, tools) })
		}
		all.Wait()
		if n := a.count("tools/list"); n != 1 {
			t.Errorf("it is asked %d times", n)
		}
		time.Sleep(time.Hour)
		if n := a.count("tools/list") + a.count(protocol.MethodDiscover); n != 2 {
			t.Errorf("it is asked %d times in quiet", n)
		}
		a.lists[tools] = []string{tool("other")}
		names, _ := list(t, s, tools)
		equal(t, "a list after long", names, "a_other")
	})
}

// Pages hold what was said, any pod goes on with them, and where the list has changed a client begins anew.
func TestPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &fake{page: 7}
		var want []string
		for i := range 50 {
			name := fmt.Sprintf("tool%d", i)
			a.lists[tools] = append(a.lists[tools], fmt.Sprintf(`{"name":%q,"d":%q}`, name, strings.Repeat("x", 60<<10)))
			want = append(want, "a_"+name)
		}
		pods := []*Server{serverOf(map[string]*fake{"a": a}), serverOf(map[string]*fake{"a": a})}
		for _, pod := range pods {
			pod.Set([]Member{memberAt("a", 1)}, nil)
		}
		var got []string
		params, pages := `{}`, 0
		var last string
		for params != "" {
			_, result, fault := ask(t, pods[pages%2], "tools/list", params)
			if fault != "" || len(result) > maxPage+64<<10 {
				t.Fatalf("a page of %d bytes: %s", len(result), fault)
			}
			got = append(got, namesIn(t, tools, result)...)
			pages++
			last, params = params, ""
			if next := jsonrpc.At(jsontext.Value(result), "nextCursor"); next != nil {
				params = `{"cursor":` + string(next) + `}`
			}
		}
		equal(t, "all pages", got, want...)
		if pages < 3 {
			t.Errorf("there are %d pages", pages)
		}
		a.lists[tools] = a.lists[tools][:40]
		time.Sleep(2 * fresh)
		list(t, pods[0], tools)
		for _, params := range []string{last, `{"cursor":"x"}`, `{"cursor":""}`, `{"cursor":7}`} {
			if _, result, fault := ask(t, pods[0], "tools/list", params); !strings.Contains(fault, "-32602") {
				t.Errorf("%s is answered with %.100s %s", params, result, fault)
			}
		}
	})
}

// A name stays with the member that had it first, whatever comes, goes or is late.
func TestANameStaysWithItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := toolsOf("b_x", "one"), toolsOf("x")
		first, second := memberAt("first", 1, prefixed("a_")), memberAt("second", 2, prefixed("a_b_"))
		fakes := map[string]*fake{"first": a, "second": b}
		s := serverOf(fakes)
		holder := func(s *Server) string {
			t.Helper()
			_, result, fault := ask(t, s, "tools/call", `{"name":"a_b_x"}`)
			return jsonrpc.TextAt(jsontext.Value(result), "said") + fault
		}
		s.Set([]Member{second}, nil)
		if got := holder(s); got != "second x" {
			t.Errorf("alone: %s", got)
		}
		s.Set([]Member{first, second}, nil)
		names, _ := list(t, s, tools)
		equal(t, "one that joins", names, "a_one", "a_b_x")
		if got := holder(s); got != "second x" {
			t.Errorf("after another one joined before it: %s", got)
		}
		want := []Collision{{Name{"tools", "a_b_x"}, second.Key, first.Key}}
		if got := s.Facts().Collisions; !slices.Equal(got, want) {
			t.Errorf("it tells %v, want %v", got, want)
		}
		other := serverOf(fakes) // another pod, which knows what is recorded, or nothing
		other.Set([]Member{first, second}, map[Name]Key{{"tools", "a_b_x"}: second.Key})
		if got := holder(other); got != "second x" {
			t.Errorf("in another pod: %s", got)
		}
		fresh := serverOf(fakes)
		fresh.Set([]Member{first, second}, nil)
		if got := holder(fresh); got != "first b_x" {
			t.Errorf("where nobody has had it: %s", got)
		}
		down := func(*http.Request, jsonrpc.Message) (*http.Response, error) { return nil, errors.New("down") }
		b.answer = down
		cold := serverOf(fakes)
		cold.Set([]Member{first, second}, map[Name]Key{{"tools", "a_b_x"}: second.Key})
		if got := holder(cold); !strings.Contains(got, "MemberUnreachable") {
			t.Errorf("while its holder is down: %s", got)
		}
		if names, _ := list(t, cold, tools); slices.Contains(names, "a_b_x") {
			t.Errorf("while its holder is down there are %q", names)
		}
		if got := holder(s); !strings.Contains(got, "MemberUnreachable") {
			t.Errorf("in a pod that knows it, while its holder is down: %s", got)
		}
		b.answer = nil
		b.lists[tools] = nil
		time.Sleep(time.Minute)
		if names, _ := list(t, s, tools); !slices.Equal(names, []string{"a_b_x", "a_one"}) {
			t.Errorf("after its holder has given it up: %q", names)
		}
	})
}

// A pod that has just started asks all who may have a name before it gives it to one.
func TestAColdPodAsksAllThatMayHaveAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := toolsOf("b_x"), toolsOf("x"), toolsOf("z")
		var goOn, never chan struct{}
		a.answer, goOn = hangs("tools/list")
		c.answer, never = hangs("tools/list") // its prefix is another one
		s := serverOf(map[string]*fake{"first": a, "second": b, "c": c})
		s.Set([]Member{memberAt("first", 1, prefixed("a_")), memberAt("second", 2, prefixed("a_b_")), memberAt("c", 3)}, nil)
		time.AfterFunc(time.Second, func() { close(goOn) })
		var result string
		if is := took(func() { _, result, _ = ask(t, s, "tools/call", `{"name":"a_b_x"}`) }); is != time.Second {
			t.Errorf("it took %s", is)
		}
		if got := jsonrpc.TextAt(jsontext.Value(result), "said"); got != "first b_x" {
			t.Errorf("it is called %s", got)
		}
		close(never)
	})
}

// What a hostile member tells is bounded, and told.
func TestHostileMembersAreBounded(t *testing.T) {
	long, many := strings.Repeat("x", 11<<20), []string{}
	for i := range maxItems + 5 {
		many = append(many, fmt.Sprintf(`{"name":"n%d"}`, i))
	}
	pageWithCursor := func(cursor func(n int) string) *fake {
		f, n := &fake{}, 0
		f.answer = func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Method != "tools/list" {
				return nil, nil //nolint:nilnil // the fake answers
			}
			n++
			return says(r, m, fmt.Sprintf(`{"tools":[{"name":"t%d"}],"nextCursor":%q}`, n, cursor(n))), nil
		}
		return f
	}
	raw := func(text string) *fake {
		f := &fake{}
		f.answer = func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Method != "tools/list" {
				return nil, nil //nolint:nilnil // the fake answers
			}
			return respond(r, http.StatusOK, []byte(text)), nil
		}
		return f
	}
	for name, tc := range map[string]struct {
		hostile *fake
		tools   int
		reason  string
	}{
		"a list of 11 MiB":  {&fake{lists: [lists][]string{tools: {`{"name":"a","d":"` + long + `"}`}}}, 0, ReasonTooLong},
		"10,005 tools":      {&fake{lists: [lists][]string{tools: many}}, maxItems, ReasonTooLong},
		"the same in pages": {&fake{lists: [lists][]string{tools: many}, page: 100}, maxItems, ReasonTooLong},
		"one name twice":    {toolsOf("a", "b", "a"), 2, ""},
		"one cursor":        {pageWithCursor(func(int) string { return "same" }), 2, ReasonNotReadable},
		"cursors without end": {
			pageWithCursor(func(n int) string { return fmt.Sprint(n) }), maxPages, ReasonTooLong,
		},
		"a long name": {toolsOf(strings.Repeat("n", maxName+1), "a"), 1, ReasonTooLong},
		"no name": {
			&fake{lists: [lists][]string{tools: {`{"name":7}`, `7`, `{"name":"a"}`, `{}`}}}, 1, ReasonNotReadable,
		},
		"no list":         {raw(`{"jsonrpc":"2.0","id":1,"result":{"tools":{"a":1}}}`), 0, ""},
		"no JSON":         {raw(`<html>`), 0, ReasonNotReadable},
		"half of it":      {raw(`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},`), 0, ReasonNotReadable},
		"nothing":         {raw(``), 0, ReasonNotReadable},
		"an error":        {raw(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"x"}}`), 0, ReasonNotAnswering},
		"no such method":  {raw(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"x"}}`), 0, ""},
		"a hello of 1 MB": {&fake{hello: `,"instructions":"` + long[:1<<20] + `"`}, 0, ReasonTooLong},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serverOf(map[string]*fake{"a": toolsOf("x"), "h": tc.hostile})
				s.Set([]Member{memberAt("a", 1), memberAt("h", 2)}, nil)
				all, _ := s.await(t.Context(), tools, fresh, never)
				if n := len(all.entries); n != tc.tools+1 || all.entries[0].full != "a_x" {
					t.Errorf("there are %d tools, want %d", n, tc.tools+1)
				}
				if got := s.Facts().Members[1]; got.Reason != tc.reason {
					t.Errorf("it is told %+v, want %q", got, tc.reason)
				}
				if s.held > maxHeld {
					t.Errorf("%d bytes are kept", s.held)
				}
				s.Set(nil, nil)
				if s.held != 0 {
					t.Errorf("%d bytes are kept of members that have left", s.held)
				}
			})
		})
	}
}

// All lists together are bounded: who comes later is told so.
func TestAllListsTogetherAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fakes, members := map[string]*fake{}, []Member{}
		for i := range 9 {
			name := fmt.Sprintf("m%d", i)
			fakes[name] = &fake{lists: [lists][]string{tools: {fmt.Sprintf(`{"name":"n","d":%q}`, strings.Repeat("x", 1000))}}}
			members = append(members, memberAt(name, int64(i+1)))
		}
		s := serverOf(fakes)
		s.most = 5_000
		s.Set(members, nil)
		all, _ := s.await(t.Context(), tools, fresh, never)
		told := slices.DeleteFunc(s.Facts().Members, func(m MemberFacts) bool { return m.Reason != ReasonTooLong })
		if n := len(all.entries); s.held > s.most || len(told) == 0 || n == 0 || n > 4 {
			t.Errorf("%d bytes are kept, %d tools, and %v is told", s.held, len(all.entries), told)
		}
	})
}

// What is recorded of a name is told on while a pod does not know whether it is so still.
func TestARecordStaysUntilItIsKnownToBeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := toolsOf("b_x"), toolsOf("x")
		a.answer = func(*http.Request, jsonrpc.Message) (*http.Response, error) { return nil, errors.New("down") }
		first, second := memberAt("first", 1, prefixed("a_")), memberAt("second", 2, prefixed("a_b_"))
		s := serverOf(map[string]*fake{"first": a, "second": b})
		name := Name{"tools", "a_b_x"}
		s.Set([]Member{first, second}, map[Name]Key{name: second.Key, {"tools", "other"}: {"MCPServer", "gone"}})
		list(t, s, tools)
		if got := s.Facts().Collisions; len(got) != 1 || got[0].Name != name || got[0].Holder != second.Key {
			t.Errorf("while the other one is down it tells %v", got)
		}
		a.answer = nil
		a.set(tools)
		time.Sleep(time.Minute)
		list(t, s, tools)
		if got := s.Facts().Collisions; len(got) != 0 {
			t.Errorf("when nobody else has the name it tells %v", got)
		}
	})
}

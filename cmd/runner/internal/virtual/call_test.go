package virtual

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// A call goes to the member that has the name, by the member's own, with headers that say so. What lets a client in
// stays here.
func TestACallGoesToItsMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := toolsOf("say.it"), toolsOf("say.it")
		a.lists[prompts] = []string{`{"name":"greet"}`}
		b.lists[resources] = []string{`{"uri":"x://1"}`}
		b.lists[templates] = []string{`{"uriTemplate":"x://{id}"}`}
		s := serverOf(map[string]*fake{"a": a, "b": b})
		s.Set([]Member{memberAt("a", 1), memberAt("b", 2)}, nil)
		for _, tc := range []struct{ method, params, said string }{
			{"tools/call", `{"name":"b_say_it","arguments":{"name":"b_say_it"}}`, "b say.it"},
			{"prompts/get", `{"name":"a_greet"}`, "a greet"},
			{"resources/read", `{"uri":"x://1"}`, "b x://1"},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"a_greet"},"argument":{}}`, "a greet"},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"x://{id}"},"argument":{}}`, "b x://{id}"},
			{"completion/complete", `{"ref":{"type":"ref/resource","uri":"x://1"},"argument":{}}`, "b x://1"},
		} {
			status, result, fault := ask(t, s, tc.method, tc.params, func(r *http.Request) {
				for _, name := range []string{
					"X-Api-Key", "Authorization", "Cookie", "Mcp-Session-Id", "X-Forwarded-For", "Freehold-Caller", "Origin",
				} {
					r.Header.Set(name, "secret")
				}
				r.Header.Set("Mcp-Param-A", "1")
				r.Header.Set("Traceparent", "00-1")
			})
			if got := jsonrpc.TextAt(jsontext.Value(result), "said"); status != http.StatusOK || got != tc.said {
				t.Errorf("%s %s is answered by %q, HTTP %d %s", tc.method, tc.params, got, status, fault)
			}
			seen := a.seen
			if strings.HasPrefix(tc.said, "b") {
				seen = b.seen
			}
			if seen.Get("Mcp-Param-A") != "1" || seen.Get("Traceparent") != "00-1" {
				t.Errorf("the member misses headers: %v", seen)
			}
			for name, values := range seen {
				if values[0] == "secret" {
					t.Errorf("the member sees %s", name)
				}
			}
		}
	})
}

// What is not there, or is wrong, is answered as the revision says.
func TestWhatIsWrongIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serverOf(map[string]*fake{"a": toolsOf("x")})
		s.Set([]Member{memberAt("a", 1), memberAt("gone", 2)}, nil)
		for _, tc := range []struct {
			method, params string
			status         int
			fault          string
		}{
			{"tools/call", `{"name":"a_none"}`, 200, `-32602`},
			{"tools/call", `{"name":"x"}`, 200, `-32602`},
			{"tools/call", `{"name":"gone_x"}`, 200, `MemberUnreachable`},
			{"prompts/get", `{"name":"a_none"}`, 200, `-32602`},
			{"tools/call", `{}`, 400, `-32602`},
			{"completion/complete", `{"ref":{"type":"ref/prompt","name":"a_none"}}`, 200, `-32602`},
			{"completion/complete", `{}`, 400, `-32602`},
			{"ping", `{}`, 404, `-32601`},
			{"initialize", `{}`, 404, `-32601`},
			{"resources/subscribe", `{}`, 404, `-32601`},
		} {
			status, result, fault := ask(t, s, tc.method, tc.params)
			if status != tc.status || !strings.Contains(fault, tc.fault) {
				t.Errorf("%s %s: got HTTP %d %s %s, want %d %s", tc.method, tc.params, status, result, fault, tc.status, tc.fault)
			}
		}
		status, _, fault := ask(t, s, "tools/call", `{"name":"a_x"}`, func(r *http.Request) {
			r.Header.Set(protocol.HeaderName, "other")
		})
		if status != 400 || !strings.Contains(fault, "-32020") {
			t.Errorf("a header that says something else: HTTP %d %s", status, fault)
		}
	})
}

// A member's status of HTTP is never the virtual server's, but for what the revision has clients act on.
func TestAMembersStatusIsItsOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		text   string
		err    error
		want   int
		fault  string
	}{
		"401":             {401, `{"error":"x"}`, nil, 200, "-32009,MemberRefuses: the member a asks for a login"},
		"403 of policies": {403, `{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"why"}}`, nil, 200, "-32018,why"},
		"404":             {404, `nothing here`, nil, 200, "-32012,HTTP 404"},
		"404 of a method": {404, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"m"}}`, nil, 200, "-32601,m"},
		"429":             {429, ``, nil, 200, "-32012,HTTP 429"},
		"500":             {500, `<html>`, nil, 200, "-32012,HTTP 500"},
		"503 of a proxy":  {503, `{"jsonrpc":"2.0","id":null,"error":{"code":-32011,"message":"s"}}`, nil, 200, "-32011,s"},
		"HeaderMismatch":  {400, `{"jsonrpc":"2.0","id":"x","error":{"code":-32020,"message":"h"}}`, nil, 400, "-32020,h"},
		"302":             {302, ``, nil, 200, "-32012,HTTP 302"},
		"an error":        {200, `{"jsonrpc":"2.0","id":"x","error":{"code":-5,"message":"own"}}`, nil, 200, "-5,own"},
		"no connection":   {0, ``, errors.New("refused"), 200, "-32012,no answer from the member a: it broke"},
	} {
		t.Run(name, func(t *testing.T) {
			a := toolsOf("x")
			a.answer = func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
				if m.Method != protocol.MethodCallTool {
					return nil, nil //nolint:nilnil // the fake answers
				}
				if tc.err != nil {
					return nil, tc.err
				}
				answer := respond(r, tc.status, []byte(tc.text))
				answer.Header.Set("Www-Authenticate", "Bearer")
				return answer, nil
			}
			s := serverOf(map[string]*fake{"a": a})
			s.Set([]Member{memberAt("a", 1)}, nil)
			status, _, fault := ask(t, s, "tools/call", `{"name":"a_x"}`)
			if code, text, _ := strings.Cut(tc.fault, ","); status != tc.want || !strings.Contains(fault, `"code":`+code+`,`) ||
				!strings.Contains(fault, text) {
				t.Errorf("it is answered with HTTP %d %s, want %d %s", status, fault, tc.want, tc.fault)
			}
			if n := a.count(protocol.MethodCallTool); n != 1 {
				t.Errorf("it is called %d times", n)
			}
		})
	}
}

// A user interface calls the tools of its server by their own names (MCP Apps).
func TestAnInterfaceCallsByTheMembersOwnName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := toolsOf("plain", "both"), toolsOf("other", "both")
		a.lists[tools] = append(a.lists[tools], `{"name":"show","_meta":{"ui":{"resourceUri":"ui://a"}}}`)
		s := serverOf(map[string]*fake{"a": a, "b": b}, func(c *Config) { c.OwnNames = true })
		s.Set([]Member{memberAt("a", 1), memberAt("b", 2)}, nil)
		judged := serverOf(map[string]*fake{"a": a, "b": b}) // policies have judged another name
		judged.Set([]Member{memberAt("a", 1), memberAt("b", 2)}, nil)
		if _, result, fault := ask(t, judged, "tools/call", `{"name":"plain"}`); !strings.Contains(fault, "-32602") {
			t.Errorf("behind policies a bare name is answered with %s%s", result, fault)
		}
		for name, want := range map[string]string{"plain": "a plain", "show": "a show", "both": "", "other": ""} {
			_, result, fault := ask(t, s, "tools/call", `{"name":"`+name+`"}`)
			got := jsonrpc.TextAt(jsontext.Value(result), "said")
			if got != want || want == "" && !strings.Contains(fault, "-32602") {
				t.Errorf("%s is answered by %q %s", name, got, fault)
			}
		}
	})
}

// A resource that nobody lists is read where it is: members are asked in order, who has a template like it first.
func TestAResourceThatNobodyListsIsLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hasNot := func(r *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Method != methodRead {
				return nil, nil //nolint:nilnil // the fake answers
			}
			return respond(r, http.StatusOK, []byte(`{"jsonrpc":"2.0","id":"x","error":{"code":-32602,"message":"no"}}`)), nil
		}
		a, b, c := &fake{answer: hasNot}, &fake{}, &fake{lacks: []string{"resources"}}
		d := &fake{lists: [lists][]string{templates: {`{"uriTemplate":"d://{id}"}`}}}
		s := serverOf(map[string]*fake{"a": a, "b": b, "c": c, "d": d})
		s.Set([]Member{memberAt("c", 1), memberAt("a", 2), memberAt("b", 3), memberAt("d", 4)}, nil)
		synctest.Wait()
		for uri, want := range map[string]string{"d://1": "d d://1", "ui://b": "b ui://b"} {
			_, result, fault := ask(t, s, methodRead, `{"uri":"`+uri+`"}`)
			if got := jsonrpc.TextAt(jsontext.Value(result), "said"); got != want {
				t.Errorf("%s is read at %q %s", uri, got, fault)
			}
		}
		a.answer = func(_ *http.Request, m jsonrpc.Message) (*http.Response, error) {
			if m.Method != methodRead {
				return nil, nil //nolint:nilnil // the fake answers
			}
			return nil, errors.New("down")
		}
		if _, result, fault := ask(t, s, methodRead, `{"uri":"ui://b"}`); result != `{"said":"b ui://b"}` {
			t.Errorf("while another member is down it is read at %s%s", result, fault)
		}
		var goOn chan struct{}
		a.answer, goOn = hangs(methodRead)
		if is := took(func() { ask(t, s, methodRead, `{"uri":"ui://b"}`) }); is != laterWait {
			t.Errorf("while another member hangs it took %s", is)
		}
		close(goOn)
		a.answer, b.answer, d.answer = hasNot, hasNot, hasNot
		_, _, fault := ask(t, s, methodRead, `{"uri":"x://"}`)
		if !strings.Contains(fault, `-32602,"message":"unknown resource`) {
			t.Errorf("what nobody has is answered with %s", fault)
		}
		if n := c.count(methodRead); n != 0 {
			t.Error("a member without resources is asked")
		}
	})
}

// A member that cannot be called now keeps its names, and is not asked.
func TestAMemberWithoutAnAddressKeepsItsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := toolsOf("x")
		s := serverOf(map[string]*fake{"a": a})
		s.Set([]Member{memberAt("a", 1)}, nil)
		list(t, s, tools)
		away := memberAt("a", 1, func(m *Member) { m.URL = "" })
		s.Set([]Member{away}, nil)
		names, late := list(t, s, tools)
		equal(t, "its tools", names, "a_x")
		equal(t, "late", late, "a")
		if _, _, fault := ask(t, s, "tools/call", `{"name":"a_x"}`); !strings.Contains(fault, "MemberUnreachable") {
			t.Errorf("a call is answered with %s", fault)
		}
		if n := a.count(protocol.MethodCallTool); n != 0 {
			t.Error("it is called")
		}
		s.Set([]Member{memberAt("a", 1)}, nil)
		if _, result, _ := ask(t, s, "tools/call", `{"name":"a_x"}`); result != `{"said":"a x"}` {
			t.Errorf("when it is back: %s", result)
		}
	})
}

package cedar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/cmd/runner/internal/budget"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/pipeline/pipelinetest"
	"github.com/freehold-dev/freehold/controllers/authz"
)

const policies = `
permit(principal, action == Action::"call_tool", resource == Tool::"add");
permit(principal == Client::"ann", action == Action::"call_tool", resource == Tool::"größe");
permit(principal, action == Action::"call_tool", resource == Tool::"write") when { resource.arg_path like "/tmp/*" };
permit(principal, action == Action::"get_prompt", resource == Prompt::"hello");
permit(principal, action == Action::"read_resource", resource == Resource::"file:///a");
forbid(principal, action == Action::"list_prompts", resource);
`

// What stands for refusals that are answered with no status of their own.
const denied, unclear = 450, 451

// backend answers as the test says, and remembers what reached it.
type backend struct {
	kind, body, encoding string
	got                  string
	reached              bool
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	b.reached, b.got = true, string(data)
	if b.encoding != "" && (b.encoding != "gzip" || r.Header.Get("Accept-Encoding") != "identity") {
		w.Header().Set("Content-Encoding", b.encoding)
	}
	w.Header().Set("Content-Type", b.kind)
	for chunk := range strings.SplitAfterSeq(b.body, "\n") {
		if _, err := fmt.Fprint(w, chunk); err != nil {
			panic(http.ErrAbortHandler) // as httputil.ReverseProxy does
		}
		w.(http.Flusher).Flush()
	}
}

func guarded(t *testing.T, b http.Handler, audit io.Writer) http.Handler {
	t.Helper()
	p, err := authz.Parse([]authz.Source{{Name: "p", Text: policies}}, "")
	if err != nil {
		t.Fatal(err)
	}
	config := Config{
		Policies: p,
		Refuse: func(w http.ResponseWriter, _ *http.Request, _ http.Handler, r Refusal) {
			w.Header().Set("Content-Type", "text/plain")
			w.WriteHeader(map[Reason]int{
				NotPermitted: denied, Unclear: unclear, NotReadable: 400, HeaderMismatch: 400,
				NotFilterable: 502, NotFound: 404,
			}[r.Reason])
			fmt.Fprintf(w, "%s: %s", r.ID, r.Message)
		},
	}
	if audit != nil {
		config.Audit = slog.New(slog.NewJSONHandler(audit, nil))
	}
	return pipelinetest.Begin(New(config)(b), budget.New(budget.Default), func(r *http.Request) authz.Caller {
		return authz.Caller{Subject: r.Header.Get("As"), Issuer: "https://a"}
	})
}

func post(h http.Handler, body string, header http.Header) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body)), httptest.NewRecorder()
	r.Header = http.Header{"As": {"ann"}, "Content-Type": {"application/json"}}
	for name, values := range header {
		r.Header[name] = values
	}
	h.ServeHTTP(w, r)
	return w
}

func call(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
}

// attempt is a message with headers, and its answer.
type attempt struct {
	body   string
	header http.Header
	status int
	want   string
}

func attempts() map[string]attempt {
	return map[string]attempt{
		"a tool": {call("tools/call", `{"name":"add","arguments":{"a":1}}`), nil, 200, ""},
		"headers that agree": {
			call("tools/call", `{"name":"add"}`),
			http.Header{"Mcp-Method": {"tools/call"}, "Mcp-Name": {"add"}},
			200, "",
		},
		"a header in base64": {
			call("tools/call", `{"name":"größe"}`),
			http.Header{"Mcp-Name": {"=?base64?Z3LDtsOfZQ==?="}},
			200, "",
		},
		"an argument": {call("tools/call", `{"name":"write","arguments":{"path":"/tmp/a"}}`), nil, 200, ""},
		"a prompt":    {call("prompts/get", `{"name":"hello"}`), nil, 200, ""},
		"a resource":  {call("resources/read", `{"uri":"file:///a"}`), nil, 200, ""},
		"a completion": {
			call("completion/complete", `{"ref":{"type":"ref/prompt","name":"hello"}}`), nil,
			200, "",
		},
		"initialize": {call("initialize", `{}`), nil, 200, ""},
		"a newer header": {
			call("initialize", `{}`),
			http.Header{"Mcp-Protocol-Version": {"2026-07-28"}},
			200,
			"",
		},
		"discover":                {call("server/discover", `{}`), nil, 200, ""},
		"a notification":          {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 200, ""},
		"an answer to the server": {`{"jsonrpc":"2.0","id":3,"result":{}}`, nil, 200, ""},
		"an answer of an old client": {
			`{"jsonrpc":"2.0","id":3,"result":{}}`,
			http.Header{"Mcp-Protocol-Version": {"2025-11-25"}},
			200, "",
		},
		"an answer to nothing": {
			`{"jsonrpc":"2.0","id":3,"result":{}}`,
			http.Header{"Mcp-Protocol-Version": {"2026-07-28"}},
			400, "3: an answer to nothing",
		},
		"an error to nothing": {
			`{"jsonrpc":"2.0","id":3,"error":{"code":1}}`,
			http.Header{"Mcp-Protocol-Version": {"2026-07-28"}},
			400, "an answer to nothing",
		},
		"an answer of two revisions": {
			`{"jsonrpc":"2.0","id":3,"result":{}}`,
			http.Header{"Mcp-Protocol-Version": {"2025-11-25", "2026-07-28"}},
			400, "2 times",
		},
		"an answer in a batch": {
			"[" + call("server/discover", `{}`) + `,{"id":3,"result":{}}]`,
			http.Header{"Mcp-Protocol-Version": {"2026-07-28"}},
			400, ": an answer to nothing",
		},
		"a subscription": {
			call("subscriptions/listen", `{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a"]}}`),
			nil, 200, "",
		},
		"a batch": {
			"[" + call("tools/call", `{"name":"add"}`) + "," + call("ping", `{}`) + "]", nil,
			200, "",
		},
		"another tool": {
			call("tools/call", `{"name":"drop"}`), nil, denied,
			`7: Client::"ann" may not call tool "drop": no policy permits it`,
		},
		"another's tool": {
			call("tools/call", `{"name":"größe"}`),
			http.Header{"As": {"bob"}},
			denied,
			"no policy permits it",
		},
		"another argument": {
			call("tools/call", `{"name":"write","arguments":{"path":"/etc/a"}}`), nil, denied,
			"no policy",
		},
		"another prompt":   {call("prompts/get", `{"name":"x"}`), nil, denied, "may not get prompt"},
		"another resource": {call("resources/read", `{"uri":"file:///b"}`), nil, denied, "may not read resource"},
		"subscribing to another": {
			call("resources/subscribe", `{"uri":"file:///b"}`), nil, denied,
			"may not read resource",
		},
		"listening to another": {
			call("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["file:///a","file:///b"]}}`), nil, denied,
			"file:///b",
		},
		"completing another": {
			call("completion/complete", `{"ref":{"type":"ref/resource","uri":"file:///b"}}`),
			nil, denied, "file:///b",
		},
		"a list that is forbidden": {call("prompts/list", `{}`), nil, denied, "forbidden by policy p"},
		"one of a batch": {
			"[" + call("ping", `{}`) + "," + call("tools/call", `{"name":"drop"}`) + "]", nil,
			denied, ": Client",
		},
		"an unknown method": {call("tasks/get", `{}`), nil, denied, "does not know"},
		"an unknown modern method": {
			call("tasks/get", `{}`),
			http.Header{"Mcp-Protocol-Version": {"2026-07-28"}},
			404,
			"does not have the method tasks/get",
		},
		"a method that is gone": {
			call("resources/subscribe", `{}`),
			http.Header{"Mcp-Protocol-Version": {"2026-07-28"}},
			404, "does not have the method resources/subscribe",
		},
		"another case":           {`{"id":1,"method":"ping","Method":"tools/call"}`, nil, 400, `write "method"`},
		"another case of params": {call("tools/call", `{"name":"add","Name":"drop"}`), nil, 400, `write "name"`},
		"names that a server mixes up": {
			call("tools/call", `{"name":"add","arguments":{"a":1,"A":2}}`), nil, unclear,
			`7: tools/call: the arguments have the names "a" and "A"`,
		},
		"a name that a policy misses": {
			call("tools/call", `{"name":"write","arguments":{"Path":"/tmp/a"}}`), nil, unclear,
			`write "path"`,
		},
		"names of a prompt": {
			call("prompts/get", `{"name":"hello","arguments":{"a":"1","A":"2"}}`), nil, unclear,
			`"a" and "A"`,
		},
		"no name":   {call("tools/call", `{}`), nil, 400, "params.name is missing"},
		"no params": {`{"id":7,"method":"tools/call"}`, nil, 400, "params.name is missing"},
		"no JSON":   {"hello", nil, 400, "reading the message"},
		"another method in a header": {
			call("tools/call", `{"name":"add"}`),
			http.Header{"Mcp-Method": {"tools/list"}},
			400,
			"Mcp-Method",
		},
		"another name in a header": {
			call("tools/call", `{"name":"drop"}`),
			http.Header{"Mcp-Name": {"add"}},
			400,
			"Mcp-Name",
		},
		"a header twice": {
			call("tools/call", `{"name":"add"}`),
			http.Header{"Mcp-Name": {"add", "drop"}},
			400,
			"send the header Mcp-Name once",
		},
		"a subscription to many": {
			call("subscriptions/listen", `{"notifications":{"resourceSubscriptions":[`+manyURIs(jsonrpc.MaxBatch+1)+`]}}`), nil,
			400, "more than 100 URIs",
		},
		"a subscription again": {
			call("subscriptions/listen", `{"notifications":{"resourceSubscriptions":[`+strings.Repeat(`"file:///a",`, 1000)+
				`"file:///a"]}}`), nil, 200, "",
		},
		"a subscription to nothing": {
			call("subscriptions/listen", `{"notifications":{"resourceSubscriptions":null}}`), nil,
			200, "",
		},
		"a subscription to null": {
			call("subscriptions/listen", `{"notifications":{"resourceSubscriptions":[null]}}`), nil,
			400, "not a list of URIs",
		},
		"many arguments": {
			call("tools/call", `{"name":"add","arguments":{"a":[`+strings.Repeat("[],", maxValues)+`0]}}`),
			nil, 400, "more than 20000 names and values",
		},
		"a long argument": {
			call("tools/call", `{"name":"add","arguments":{"a":"`+strings.Repeat("[],", maxValues)+`"}}`),
			nil, 200, "",
		},
		"a compressed body": {"x", http.Header{"Content-Encoding": {"gzip"}}, 400, "encoded"},
	}
}

// The backend may read a body by its headers.
func TestContentThatIsReadInOneWayOnly(t *testing.T) {
	for want, headers := range map[string][]http.Header{
		"": {
			{"Content-Type": {"application/json; charset=utf-8"}},
			{"Content-Type": {`Application/JSON;charset="UTF-8"`}},
			{"Content-Encoding": {""}},
			{"Content-Encoding": {"Identity"}},
		},
		"encoded": {
			{"Content-Encoding": {"", "gzip"}},
			{"Content-Encoding": {"identity, gzip"}},
			{"Content-Encoding": {"identity", "identity"}},
		},
		"2 times": {{"Content-Type": {"application/json", "application/json"}}},
		"UTF-8": {
			{"Content-Type": {"application/json; charset=utf-7"}},
			{"Content-Type": {"application/json; charset*=utf-8''utf-7"}},
		},
		"Content-Type": {
			{"Content-Type": nil},
			{"Content-Type": {"text/plain"}},
			{"Content-Type": {"application/json; charset="}},
			{"Content-Type": {"application/json; charset=utf-8; charset=utf-7"}},
			{"Content-Type": {"application/json; charset=utf-7; charset*=utf-8''utf-8"}},
			{"Content-Type": {`application/json; a="; charset=utf-7"`}},
			{"Content-Type": {`application/json; charset="utf\-8"`}},
		},
	} {
		for _, header := range headers {
			var audit bytes.Buffer
			b := &backend{kind: "application/json", body: `{}`}
			got := post(guarded(t, b, &audit), call("tools/call", `{"name":"add"}`), header)
			if b.reached != (want == "") || !strings.Contains(got.Body.String(), want) ||
				!b.reached && (got.Code != 400 || !strings.Contains(audit.String(), `"deny"`)) {
				t.Errorf("%v: got %d %s, want %q; the audit is %s", header, got.Code, got.Body, want, &audit)
			}
		}
	}
}

func manyURIs(count int) string {
	uris := make([]string, count)
	for i := range uris {
		uris[i] = fmt.Sprintf("%q", "file:///"+strconv.Itoa(i))
	}
	return strings.Join(uris, ",")
}

func TestCalls(t *testing.T) {
	for name, tc := range attempts() {
		t.Run(name, func(t *testing.T) {
			b := &backend{kind: "application/json", body: `{"jsonrpc":"2.0","id":7,"result":{}}`}
			got := post(guarded(t, b, nil), tc.body, tc.header)
			if got.Code != tc.status || !strings.Contains(got.Body.String(), tc.want) {
				t.Errorf("got %d %s, want %d with %q", got.Code, got.Body, tc.status, tc.want)
			}
			if b.reached != (tc.status == 200) {
				t.Errorf("the backend was reached: %t", b.reached)
			}
			if b.reached && b.got != tc.body {
				t.Errorf("the backend got %s", b.got)
			}
		})
	}
}

// A body has room as long as it is held, not as long as its call is answered.
func TestCallsThatHangLeaveRoom(t *testing.T) {
	reached, over := make(chan struct{}), make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		reached <- struct{}{}
		<-over
	}))
	defer backend.Close()
	defer close(over)
	at, err := url.Parse(backend.URL)
	if err != nil {
		t.Fatal(err)
	}
	h := guarded(t, httputil.NewSingleHostReverseProxy(at), nil)
	for range 16 {
		r := httptest.NewRequest(http.MethodPost, "/mcp",
			strings.NewReader(`{"id":1,"method":"ping","params":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`))
		r.Header.Set("Content-Type", "application/json")
		r.ContentLength = -1
		go h.ServeHTTP(httptest.NewRecorder(), r)
		select {
		case <-reached:
		case <-time.After(time.Minute):
			t.Fatal("calls that wait for their answers keep others from the backend")
		}
	}
}

func TestAuditTellsEachDecisionWithoutArguments(t *testing.T) {
	var audit bytes.Buffer
	h := guarded(t, &backend{kind: "application/json", body: "{}"}, &audit)
	post(h, `{"id":1,"method":"tools/call","params":{"name":"add","arguments":{"secret":"s3cr3t"}}}`, nil)
	post(h, `{"id":1,"method":"tools/call","params":{"name":"drop"}}`, nil)
	post(h, `{"id":1,"method":"initialize","params":{}}`, nil)
	post(h, `{"id":1,"method":"tasks/get","params":{"taskId":"s3cr3t"}}`, nil)
	post(h, `{"id":1,"method":"tools/call","params":{"name":"add","Name":"s3cr3t"}}`, nil)
	post(h, `{"id":1,"method":"tools/call","params":{"name":"add"}}`, http.Header{"Mcp-Name": {"s3cr3t"}})
	post(h, `{"id":1,"result":"s3cr3t"}`, http.Header{"Mcp-Protocol-Version": {"2026-07-28"}})
	post(h, `s3cr3t`, nil)
	post(h, `{"id":1,"method":"tools/call","params":{"name":"`+strings.Repeat("a", 300)+`"}}`, nil)
	post(h, call("subscriptions/listen", `{"notifications":{"resourceSubscriptions":["file:///a","file:///a"]}}`), nil)
	post(h, `s3cr3t`, http.Header{"Content-Encoding": {"s3cr3t"}})
	var got []map[string]any
	for line := range strings.Lines(audit.String()) {
		var one map[string]any
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		delete(one, "time")
		delete(one, "duration")
		got = append(got, one)
	}
	line := func(method, name, decision string, policies any) map[string]any {
		return map[string]any{
			"level": "INFO", "msg": "authorization", "subject": "ann", "issuer": "https://a", "method": method, "name": name,
			"decision": decision, "policies": policies, "failed": nil,
		}
	}
	refused := func(method, reason string) map[string]any {
		all := line(method, "", "deny", nil)
		all["detail"] = reason
		return all
	}
	want := []map[string]any{
		line("tools/call", "add", "allow", []any{"p"}), line("tools/call", "drop", "deny", nil),
		refused("tasks/get", "an unknown method"), refused("tools/call", "the parameters cannot be read"),
		refused("tools/call", "headers name another call"), refused("", "an answer to nothing"),
		refused("", "the body is no message"),
		line("tools/call", strings.Repeat("a", 256)+"…", "deny", nil),
		line("subscriptions/listen", "file:///a", "allow", []any{"p"}), refused("", "headers tell of another body"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzBody holds any body to: no panic, and the tool that nobody may call is not
// called.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"method":"tools/call","params":{"name":"drop"}}`, `[{"id":1,"method":"tools/list"}]`,
		`{"method":"tools/call","params":{"name":"add","Name":"drop"}}`,
	} {
		f.Add(seed, "tools/call", "drop")
	}
	f.Fuzz(func(t *testing.T, body, method, name string) {
		b := &backend{kind: "application/json", body: body}
		post(guarded(t, b, nil), body, http.Header{"Mcp-Method": {method}, "Mcp-Name": {name}})
		var m struct {
			Method string `json:"method"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		// The most lenient reader there is: case does not count, the last wins.
		if b.reached && json.Unmarshal([]byte(b.got), &m) == nil && m.Method == "tools/call" && m.Params.Name == "drop" {
			t.Errorf("%q reached the backend", b.got)
		}
	})
}

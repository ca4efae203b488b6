package cedar

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListsHoldWhatTheCallerMayUse(t *testing.T) {
	const (
		unfiltered = "1: the backend's answer to a list is not JSON that can be filtered"

		list     = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		tools    = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","x":1},{"name":"drop"},{"name":"write"},{"name":"größe"}],"nextCursor":"c"}}`
		filtered = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","x":1},{"name":"write"},{"name":"größe"}],"nextCursor":"c"}}`
		// what servers say that is no message
		notes = ": ping\n\nretry: 1\n\nid: 1\ndata:\n\nevent: ping\ndata: ping\n\ndata: 2026-01-01 [00:00]\n\nevent: " +
			"more\ndata: /mcp?a=b\n\ndata: {\"type\":\"heartbeat\"}\n\n"
		note    = `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"drop"}}`
		tooLong = "1: the backend's answer to a list is longer than the 2 MiB that are filtered"
	)
	for name, tc := range map[string]struct {
		request          string
		kind, body, want string
		status           int
	}{
		"JSON": {list, "application/json; charset=utf-8", tools, filtered, 200},
		"a stream": {
			list, "text/event-stream",
			"id: 1\ndata: " + note + "\n\nevent: message\ndata: " + tools + "\n\n",
			"id: 1\ndata: " + note + "\n\nevent: message\ndata: " + filtered + "\n\n", 200,
		},
		"a mark": {
			list, "text/event-stream", "\ufeffdata: " + tools + "\n\n",
			"data: " + filtered + "\n\n", 200,
		},
		"a mark before JSON": {list, "application/json", "\ufeff" + tools, filtered, 200},
		"a type in capitals": {
			list, "Text/Event-Stream", "data: " + tools + "\n\n",
			"data: " + filtered + "\n\n", 200,
		},
		"a parameter that is none": {list, "application/json; odata", tools, filtered, 200},
		"a resumption": {
			"", "text/event-stream", ": ping\n\ndata: " + tools + "\n\n",
			": ping\n\ndata: " + filtered + "\n\n", 200,
		},
		"where a client of HTTP+SSE sends to": {
			"", "text/event-stream",
			"event: endpoint\ndata: /mcp?a=b\n\ndata: " + tools + "\n\n",
			"event: endpoint\ndata: /mcp?a=b\n\ndata: " + filtered + "\n\n", 200,
		},
		"a list that is said to be that": {
			"", "text/event-stream", "event: endpoint\ndata:  " + tools + "\n\n",
			"event: endpoint\ndata:  " + filtered + "\n\n", 200,
		},
		"what is no message": {
			list, "text/event-stream", notes + "data: " + tools + "\n\n",
			notes + "data: " + filtered + "\n\n", 200,
		},
		"a message of another name": {
			"", "text/event-stream", "event: more\ndata: " + tools + "\n\n",
			"event: more\ndata: " + filtered + "\n\n", 200,
		},
		"a list behind what some skip": {"", "text/event-stream", "data: \ufeff" + tools + "\n\n", "", 200},
		"a batch":                      {"[" + list + "]", "application/json", "[" + tools + "]", "[" + filtered + "]", 200},
		"an error": {
			list, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":1}}`,
			`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`, 200,
		},
		"templates": {
			`{"id":1,"method":"resources/templates/list"}`, "application/json",
			`{"id":1,"result":{"resourceTemplates":[{"uriTemplate":"file:///{p}"},{"uriTemplate":"file:///a"}]}}`,
			`{"id":1,"result":{"resourceTemplates":[{"uriTemplate":"file:///a"}]}}`, 200,
		},
		"no JSON": {list, "application/json", "tools: drop", unfiltered, 502},
		"a name twice": {
			list, "application/json", `{"id":1,"result":{"tools":[{"name":"add","name":"drop"}]}}`, unfiltered,
			502,
		},
		"another case": {list, "application/json", `{"id":1,"result":{"Tools":[{"name":"drop"}]}}`, unfiltered, 502},
		"another type": {list, "text/plain", tools, unfiltered, 502},
		"too long":     {list, "application/json", tools + strings.Repeat(" ", maxAnswer), tooLong, 502},
	} {
		t.Run(name, func(t *testing.T) {
			code, got := answered(t, tc.request, tc.kind, tc.body)
			if diff := cmp.Diff(tc.want, got); diff != "" || code != tc.status {
				t.Errorf("%d (-want +got):\n%s", code, diff)
			}
		})
	}
}

// answered is what a caller gets of what the backend answers: to a request, or to a GET.
func answered(t *testing.T, request, kind, body string) (status int, got string) {
	t.Helper()
	h := guarded(t, &backend{kind: kind, body: body, encoding: "gzip"}, nil)
	r, w := httptest.NewRequest(http.MethodGet, "/mcp", http.NoBody), httptest.NewRecorder()
	if request != "" {
		r = httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(request))
	}
	r.Header = http.Header{"As": {"ann"}, "Accept-Encoding": {"gzip"}, "Content-Type": {"application/json"}}
	defer func() {
		_ = recover() // as net/http does
		status, got = w.Code, w.Body.String()
	}()
	h.ServeHTTP(w, r)
	return
}

// without is a message without the items that are called drop, as a client reads it.
func without(message any) any {
	switch m := message.(type) {
	case []any:
		for i := range m {
			m[i] = without(m[i])
		}
	case map[string]any:
		result, _ := m["result"].(map[string]any)
		for _, one := range items {
			if list, ok := result[one.member].([]any); ok {
				result[one.member] = slices.DeleteFunc(list, func(item any) bool { return item.(map[string]any)[one.id] == "drop" })
			}
		}
	}
	return message
}

// FuzzFilter holds any answer of a backend to: no panic, and that it is passed on without the items that the caller
// may not use, and else as it was.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"result":{"tools":[{"name":"add"},{"name":"drop"}]}}`, `[{"result":{"tools":[{"name":"drop"}]}}]`,
		`{"result":{"tools":[{"name":"add","Name":"drop"}]}}`,
		`{"result":{"Tools":[{"name":"drop"}]}}`, `{"Result":{"tools":[{"name":"drop"}]}}`, `{"method":"x","params":{}}`,
		`{"result":{"tools":[{"name":"drop"},{"n\u0061me":"drop"}, {"name":"a"} , {"name":null}],"a":1,"prompts":[{"name":"b"}]}}`,
		`[[{"result":{"resources":[{"uri":"drop"},{"uri":"a"}],"resourceTemplates":[{"uriTemplate":"drop"}],"tools":[ ]}}]]`,
		`{"result":{"tools":null},"result":{}}`, `{"result":{"tools":[{"name":"a\ud83d"},{"name":"drop","x":"\ud83d"}]}}x`,
		`{"result":{"tools":[{"name":"a","a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1,"q":1,"p":2}]}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		filtered, err := filter([]byte(body), func(string, string) func(string) bool {
			return func(id string) bool { return id != "drop" }
		})
		if err != nil {
			return
		}
		var want, got any
		if err := errors.Join(json.Unmarshal([]byte(body), &want), json.Unmarshal(filtered, &got)); err != nil {
			t.Fatalf("%q is answered with %q: %v", body, filtered, err)
		}
		if diff := cmp.Diff(without(want), got); diff != "" {
			t.Errorf("%q is answered with %q (-want +got):\n%s", body, filtered, diff)
		}
	})
}

func BenchmarkFilter(b *testing.B) {
	var list []string
	for n := range 20 {
		list = append(list, fmt.Sprintf(
			`{"name":"do-%d-%s","description":"does what its name says","inputSchema":{"type":"object",`+
				`"properties":{"text":{"type":"string"}},"required":["text"]}}`, n, []string{"even", "odd"}[n%2]))
	}
	message := []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.Join(list, ",") + `]}}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(message)))
	for b.Loop() {
		if _, err := filter(message, func(string, string) func(string) bool {
			return func(id string) bool { return !strings.HasSuffix(id, "-odd") }
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// A hostile backend's answers to lists are held a few at a time, whatever comes
// of them, and the places are given back.
func TestLargeAnswersTakeTurns(t *testing.T) {
	long := `{"id":1,"result":{"tools":[{"name":"add","x":"` + strings.Repeat("a", smallBody) + `"}]}}`
	for _, b := range []*backend{
		{kind: "application/json", body: long},
		{kind: "application/json", body: long[1:]},
		{kind: "text/event-stream", body: "data: " + long + "\n\n"},
		{kind: "text/event-stream", body: "data: " + long},
	} {
		h := guarded(t, b, nil)
		for range 2 * largeAnswers {
			post(h, `{"id":1,"method":"tools/list"}`, nil)
		}
	}
}

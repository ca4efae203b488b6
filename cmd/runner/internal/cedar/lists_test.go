package cedar

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freehold-dev/freehold/controllers/authz"
)

func TestListsHoldWhatTheCallerMayUse(t *testing.T) {
	const (
		unfiltered = "1: the backend's answer to a list is not JSON that can be filtered"

		list     = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		tools    = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","x":1},{"name":"drop"},{"name":"write"},{"name":"größe"}],"nextCursor":"c"}}`
		filtered = `{"id":1,"jsonrpc":"2.0","result":{"nextCursor":"c","tools":[{"name":"add","x":1},{"name":"write"},{"name":"größe"}]}}`
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
			"event: endpoint\ndata: " + filtered + "\n\n", 200,
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

// FuzzFilter holds any answer of a backend to: no panic, and the tool that the caller
// may not use is not in a list.
func FuzzFilter(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"result":{"tools":[{"name":"add"},{"name":"drop"}]}}`, `[{"result":{"tools":[{"name":"drop"}]}}]`,
		`{"result":{"tools":[{"name":"add","Name":"drop"}]}}`,
		`{"result":{"Tools":[{"name":"drop"}]}}`, `{"Result":{"tools":[{"name":"drop"}]}}`, `{"method":"x","params":{}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		filtered, err := filter([]byte(body), func(call authz.Call) bool { return call.ID != "drop" })
		if err != nil {
			return
		}
		var m struct {
			Result struct {
				Tools []struct {
					Name string `json:"name"`
				} `json:"tools"`
			} `json:"result"`
		}
		if json.Unmarshal(filtered, &m) != nil {
			return
		}
		for _, tool := range m.Result.Tools {
			if tool.Name == "drop" {
				t.Errorf("%q is answered with %q", body, filtered)
			}
		}
	})
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

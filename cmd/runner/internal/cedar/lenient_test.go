package cedar

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// An answer passes whatever is in the items of a list, but for their names.
func TestListsHoldWhatServersWrite(t *testing.T) {
	const (
		list     = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		tools    = `{"id":1,"result":{"tools":[{"name":"add"},{"name":"drop"}]}}`
		filtered = `{"id":1,"result":{"tools":[{"name":"add"}]}}`

		unfiltered = "1: the backend's answer to a list is not JSON that can be filtered"
	)
	for name, tc := range map[string]struct {
		request          string
		kind, body, want string
		status           int
	}{
		"a text that is cut": {
			list, "application/json", `{"id":1,"result":{"tools":[{"name":"add","description":"\ud83d"},{"name":"drop"}]}}`,
			`{"id":1,"result":{"tools":[{"name":"add","description":"` + "\ufffd" + `"}]}}`, 200,
		},
		"members that occur twice, below": {
			list, "application/json", `{"id":1,"result":{"tools":[{"name":"add","inputSchema":{"a":1,"a":2}},{"name":"drop"}]}}`,
			`{"id":1,"result":{"tools":[{"name":"add","inputSchema":{"a":1,"a":2}}]}}`, 200,
		},
		"a notification that is cut": {
			"", "text/event-stream", "data: {\"method\":\"a\",\"params\":{\"b\":\"\\ud83d\"}}\n\ndata: " + tools + "\n\n",
			"data: {\"method\":\"a\",\"params\":{\"b\":\"\\ud83d\"}}\n\ndata: " + filtered + "\n\n", 200,
		},
		"names that are cut": {
			list, "application/json", `{"id":1,"result":{"tools":[{"name":"add\ud83d"},{"name":"add"},{"name":"add` + "\xff" +
				`"},{"name":"drop\ud83d"}]}}`, filtered, 200,
		},
		"a name that decoders of Go take for tools": {
			list, "application/json", `{"id":1,"result":{"toolſ":[{"name":"drop"}]}}`, unfiltered, 502,
		},
		"its escape": {
			list, "application/json", `{"id":1,"result":{"tool\u017f":[{"name":"drop"}]}}`, unfiltered, 502,
		},
		"a name that decoders of Go take for result": {
			list, "application/json", `{"id":1,"reſult":{"tools":[{"name":"drop"}]}}`, unfiltered, 502,
		},
		"no name": {
			list, "application/json", `{"id":1,"result":{"tools":[{"name":1}]}}`,
			unfiltered, 502,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := httptest.NewRequest(http.MethodGet, "/mcp", http.NoBody), httptest.NewRecorder()
			if tc.request != "" {
				r = httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(tc.request))
			}
			r.Header = http.Header{"As": {"ann"}, "Content-Type": {"application/json"}}
			guarded(t, &backend{kind: tc.kind, body: tc.body}, nil).ServeHTTP(w, r)
			if diff := cmp.Diff(tc.want, w.Body.String()); diff != "" || w.Code != tc.status {
				t.Errorf("%d (-want +got):\n%s", w.Code, diff)
			}
		})
	}
}

// Policies judge the name that a client reads, and by which it calls.
func TestACutNameIsJudgedAsItIsRead(t *testing.T) {
	var judged []string
	got, err := filter([]byte(`{"id":1,"result":{"tools":[{"name":"cut\ud83d"},{"name":"cut`+"\xe2\x82"+
		`"},{"name":"cut\udc00ter"}]}}`), func(string, string) func(string) bool {
		return func(id string) bool {
			judged = append(judged, id)
			return true
		}
	})
	var read struct {
		Result struct {
			Tools []struct{ Name string }
		}
	}
	if err != nil || json.Unmarshal(got, &read) != nil {
		t.Fatalf("%q: %v", got, err)
	}
	var names []string
	for _, tool := range read.Result.Tools {
		names = append(names, tool.Name)
	}
	if diff := cmp.Diff(judged, names); diff != "" || len(names) != 3 || !utf8.Valid(got) {
		t.Errorf("%q: (-judged +read):\n%s", got, diff)
	}
}

// A list of which no more passes is not judged on.
func TestAListIsJudgedAsFarAsItMayBeLong(t *testing.T) {
	const item = `{"name":"a"}`
	judged := 0
	_, err := filter([]byte(`{"id":1,"result":{"tools":[`+strings.Repeat(item+",", 4*maxAnswer/len(item))+item+`]}}`),
		func(string, string) func(string) bool {
			return func(string) bool { judged++; return true }
		})
	if !errors.Is(err, errList) || judged > maxAnswer/len(item) {
		t.Errorf("%d items are judged: %v", judged, err)
	}
}

// What the header says decides, and not that it is there: the C# SDK writes identity on each stream.
func TestAnAnswerIsFilteredUnlessItIsEncoded(t *testing.T) {
	const list, filtered = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"id":1,"result":{"tools":[{"name":"add"}]}}`
	for encoding, status := range map[string]int{"identity": 200, "Identity": 200, "none": 200, "br": 502} {
		for kind, frame := range map[string]string{"application/json": "%s", "text/event-stream": "data: %s\n\n"} {
			b := &backend{
				kind: kind, body: fmt.Sprintf(frame, `{"id":1,"result":{"tools":[{"name":"add"},{"name":"drop"}]}}`),
				encoding: encoding,
			}
			got := post(guarded(t, b, nil), list, nil)
			if got.Code != status || status == 200 && got.Body.String() != fmt.Sprintf(frame, filtered) {
				t.Errorf("%s %s: %d %s", encoding, kind, got.Code, got.Body)
			}
		}
	}
}

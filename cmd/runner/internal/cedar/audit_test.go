package cedar

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What is refused without a decision is told, too: a body that is too long, an answer
// that cannot be filtered.
func TestAuditTellsWhatCannotBeJudged(t *testing.T) {
	list := `{"id":1,"method":"tools/list"}`
	for name, tc := range map[string]struct {
		body   string
		answer *backend
		want   string
	}{
		"a long body": {
			`{"id":1,"method":"` + strings.Repeat("a", 100) + `"}`, &backend{},
			`"method":"","name":"","decision":"deny","policies":null,"failed":null,"detail":"the body is too long"`,
		},
		"not JSON": {
			list, &backend{kind: "application/json", body: "{"},
			`"method":"tools/list","name":"","decision":"deny","policies":null,"failed":null,"detail":"the answer cannot be filtered: the backend's answer to a list is not JSON that can be filtered"`,
		},
		"another kind": {
			list, &backend{kind: "text/html", body: "x"},
			`"detail":"the answer cannot be filtered: the backend's answer to a list is not JSON`,
		},
		"an event not JSON": {
			list, &backend{kind: "text/event-stream", body: "data: {\n\n"},
			`"detail":"the answer cannot be filtered: the backend's answer to a list is not JSON`,
		},
		"a long event": {
			list, &backend{kind: "text/event-stream", body: "data: " + strings.Repeat("a", maxAnswer)},
			`"detail":"the answer cannot be filtered: the backend's answer to a list is longer than the 2 MiB`,
		},
		"an answer in order": {list, &backend{kind: "application/json", body: "{}"}, ""},
	} {
		var audit bytes.Buffer
		h := guarded(t, tc.answer, &audit)
		func() {
			defer func() { _ = recover() }() // the backend's, as httputil.ReverseProxy panics
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(tc.body))
			r.Header = http.Header{"As": {"ann"}, "Content-Type": {"application/json"}}
			r.Body = http.MaxBytesReader(w, r.Body, 80)
			h.ServeHTTP(w, r)
		}()
		if n := strings.Count(audit.String(), `"detail"`); !strings.Contains(audit.String(), tc.want) ||
			n != min(1, len(tc.want)) {
			t.Errorf("%s: the log is %s", name, &audit)
		}
	}
}

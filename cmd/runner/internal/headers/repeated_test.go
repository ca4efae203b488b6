package headers

import (
	"net/http"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

func TestHeadersThatRepeatTheBody(t *testing.T) {
	const version, method, name = protocol.HeaderVersion, protocol.HeaderMethod, protocol.HeaderName
	for title, tc := range map[string]struct {
		header  map[string][]string
		without string // what the body lacks
		code    int    // of what is wrong
		lenient bool   // whether that is also wrong where headers may be absent
	}{
		"all":                   {nil, "", 0, false},
		"no revision":           {map[string][]string{version: nil}, "", protocol.CodeHeaderMismatch, false},
		"another revision":      {map[string][]string{version: {"2026-07-29"}}, "", protocol.CodeHeaderMismatch, false},
		"an older revision":     {map[string][]string{version: {protocol.Legacy}}, "", protocol.CodeHeaderMismatch, false},
		"no revision in it":     {nil, "revision", protocol.CodeInvalidParams, false},
		"a method that is gone": {map[string][]string{method: {"ping"}}, "revision", protocol.CodeMethodNotFound, true},
		"no method":             {map[string][]string{method: nil}, "", protocol.CodeHeaderMismatch, false},
		"another method":        {map[string][]string{method: {"tools/list"}}, "", protocol.CodeHeaderMismatch, true},
		"an encoded method": {
			map[string][]string{method: {"=?base64?dG9vbHMvY2FsbA==?="}},
			"",
			protocol.CodeHeaderMismatch, true,
		},
		"no name":                {map[string][]string{name: nil}, "", protocol.CodeHeaderMismatch, false},
		"another name":           {map[string][]string{name: {"b"}}, "", protocol.CodeHeaderMismatch, true},
		"a name twice":           {map[string][]string{name: {"ä", "b"}}, "", protocol.CodeHeaderMismatch, true},
		"a name that is no text": {map[string][]string{name: {"=?base64?%?="}}, "", protocol.CodeHeaderMismatch, true},
	} {
		t.Run(title, func(t *testing.T) {
			header := http.Header{version: {protocol.Modern}, method: {"tools/call"}, name: {"=?base64?w6Q=?="}}
			for name, values := range tc.header {
				if header[name] = values; values == nil {
					delete(header, name)
				}
			}
			m := jsonrpc.Message{Method: "tools/call", Params: []byte(`{"name":"ä"}`)}
			if tc.code == protocol.CodeMethodNotFound {
				m.Method = "ping"
			}
			if tc.without == "" {
				m.Params = []byte(`{"name":"ä","_meta":{"` + protocol.MetaVersion + `":"` + protocol.Modern + `"}}`)
			}
			_, wrong := Revision(header, m, func(method string) bool { return method == "ping" })
			if wrong == nil {
				wrong = Call(header, m)
			}
			if code := codeOf(wrong); code != tc.code {
				t.Errorf("got %v", wrong)
			}
			if err := Agree(header, "tools/call", "ä", true); (err != nil) != tc.lenient {
				t.Errorf("where headers may be absent: %v", err)
			}
		})
	}
}

func codeOf(f *jsonrpc.Fault) int {
	if f == nil {
		return 0
	}
	return f.Code
}

package jsonrpc

import (
	"net/http"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

func TestWhichEraAMessageIsOf(t *testing.T) {
	const told, escaped = `,"params":{"_meta":{"` + protocol.MetaVersion + `":"2026-07-28"}}`,
		`,"params":{"_meta":{"io.modelcontextprotocol\/protocolVersion":"x"}}`
	for name, tc := range map[string]struct {
		version, body string
		want          bool
	}{
		"nothing tells":                {"", `{"id":1,"method":"tools/list"}`, false},
		"a legacy header":              {"2025-11-25", `{"id":1,"method":"tools/list"}`, false},
		"a modern header":              {"2026-07-28", `{"id":1,"method":"tools/list"}`, true},
		"a header of a later revision": {"2099-01-01", `{"id":1,"method":"tools/list"}`, true},
		"a header that is no revision": {"\xff", `{"id":1,"result":{}}`, true},
		"its own words":                {"", `{"id":1,"method":"tools/list"` + told + `}`, true},
		"its own words, escaped":       {"", `{"id":1,"method":"tools/list"` + escaped + `}`, true},
		"its own words, not in _meta": {
			"",
			`{"id":1,"method":"tools/list","params":{"` + protocol.MetaVersion + `":"2026-07-28"}}`, false,
		},
		"header and words differ":          {"2025-11-25", `{"id":1,"method":"tools/list"` + told + `}`, true},
		"discover":                         {"", `{"id":1,"method":"server/discover"}`, true},
		"initialize":                       {"", `{"id":1,"method":"initialize"}`, false},
		"initialize, a legacy header":      {"2025-03-26", `{"id":1,"method":"initialize"}`, false},
		"initialize, a modern header":      {"2026-07-28", `{"id":1,"method":"initialize"}`, false},
		"initialize, an unknown header":    {"2099-01-01", `{"id":1,"method":"initialize"}`, false},
		"initialize, modern words":         {"2026-07-28", `{"id":1,"method":"initialize"` + told + `}`, false},
		"initialized, as it was agreed on": {"2025-11-25", `{"method":"notifications/initialized"}`, false},
	} {
		messages, _, err := Parse([]byte(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{}
		if tc.version != "" {
			header.Set(protocol.HeaderVersion, tc.version)
		}
		if got := Modern(header, messages[0]); got != tc.want {
			t.Errorf("%s: modern is %t", name, got)
		}
	}
}

func TestWhichRequestsMayBeginASession(t *testing.T) {
	for name, tc := range map[string]struct {
		version, method string
		want            bool
	}{
		"a legacy client":                         {"", "", true},
		"a legacy client that names its revision": {"2025-11-25", "", true},
		"one that names the newest it knows":      {"2026-07-28", "", true},
		"one that names its method, too":          {"2026-07-28", "initialize", true},
		"a modern client":                         {"2026-07-28", "tools/call", false},
	} {
		header := http.Header{}
		header.Set(protocol.HeaderVersion, tc.version)
		header.Set(protocol.HeaderMethod, tc.method)
		if got := MayInitialize(header); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

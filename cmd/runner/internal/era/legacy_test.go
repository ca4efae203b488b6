package era_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

func TestInitializeIsAnsweredFromDiscover(t *testing.T) {
	status, got := send(t, front(t, newBackend(t, modernOnly)), initialize)
	want := map[string]any{
		"protocolVersion": "2025-06-18", "instructions": "be kind",
		"serverInfo":   map[string]any{"name": "behind", "version": "1"},
		"capabilities": map[string]any{"tools": map[string]any{}, "prompts": map[string]any{}, "resources": map[string]any{}},
	}
	if diff := cmp.Diff(want, got.Result); status != http.StatusOK || diff != "" {
		t.Errorf("HTTP %d with %s", status, diff)
	}
}

// Which revision that is has not been agreed on yet.
func TestInitializeIsOfTheLegacyEraWhateverItsHeaderSays(t *testing.T) {
	for name, speaks := range map[string]eras{"legacy": legacyOnly, "modern": modernOnly} {
		b := newBackend(t, speaks)
		b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool { // the SDK's own is stricter
			if speaks == legacyOnly && strings.Contains(string(body), `"initialize"`) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{}}}`)
				return true
			}
			return false
		})
		endpoint := front(t, b)
		for _, says := range []string{"2025-03-26", "2026-07-28", "2099-01-01"} {
			status, got := send(t, endpoint, initialize, "Mcp-Protocol-Version", says)
			if status != http.StatusOK || got.Result["protocolVersion"] != "2025-06-18" {
				t.Errorf("a %s backend, %s: HTTP %d with %+v", name, says, status, got)
			}
		}
	}
}

// Clients refuse revisions that they do not know.
func TestALegacyClientAgreesOnItsRevisionWithAModernBackend(t *testing.T) {
	endpoint := front(t, newBackend(t, modernOnly))
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26",
		"2025-11-25": "2025-11-25", "1999-01-01": "2025-11-25",
	} {
		status, got := send(t, endpoint, strings.Replace(initialize, "2025-06-18", asked, 1))
		if status != http.StatusOK || got.Result["protocolVersion"] != want {
			t.Errorf("%s: HTTP %d with %v", asked, status, got.Result["protocolVersion"])
		}
	}
}

func TestWhatALegacyClientGetsFromAModernBackend(t *testing.T) {
	_, endpoint := behind(t, modernOnly)
	if status, got := send(t, endpoint, initialize); status != http.StatusOK {
		t.Fatal(got)
	}
	for name, tc := range map[string]struct {
		body   string
		status int
		code   int
	}{
		"initialized":  {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, 202, 0},
		"ping":         {`{"jsonrpc":"2.0","id":2,"method":"ping"}`, 200, 0},
		"a list":       {`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, 200, 0},
		"a call":       {`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{` + echo + `}}`, 200, 0},
		"no such tool": {`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"absent"}}`, 200, -32602},
		"a subscription": {
			`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"test://a"}}`, 200,
			-32601,
		},
		"a level": {`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"info"}}`, 200, -32601},
	} {
		t.Run(name, func(t *testing.T) {
			status, got := send(t, endpoint, tc.body, "Mcp-Protocol-Version", "2025-06-18")
			code := 0
			if got.Error != nil {
				code = got.Error.Code
			}
			if status != tc.status || code != tc.code {
				t.Errorf("HTTP %d with %+v %+v", status, got, got.Error)
			}
			for _, member := range []string{"resultType", "ttlMs", "cacheScope"} {
				if got.Result[member] != nil {
					t.Errorf("the result has %s", member)
				}
			}
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		r, err := http.NewRequestWithContext(t.Context(), method, endpoint, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("%s gets HTTP %d", method, response.StatusCode)
		}
	}
}

// Each answer of a modern server that a legacy client cannot use.
func TestWhatALegacyClientIsToldInstead(t *testing.T) {
	for name, tc := range map[string]struct {
		status int
		answer string
		code   int
		words  string
	}{
		"input": {400, `"result":{"resultType":"input_required","requestState":"x"}`, -32600, "asks for input"},
		"a capability": {
			400, `"error":{"code":-32021,"message":"needs sampling"}`, -32600,
			"needs a client of revision 2026-07-28: needs sampling",
		},
		"a version": {400, `"error":{"code":-32022,"message":"unsupported"}`, -32603, "unsupported"},
		"a length":  {413, `"error":{"code":-32016,"message":"too large"}`, -32016, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			b, endpoint := behind(t, modernOnly)
			send(t, endpoint, initialize)
			b.says("tools/call", tc.status, `{"jsonrpc":"2.0","id":ID,`+tc.answer+`}`)
			status, got := send(t, endpoint, `{"jsonrpc":"2.0","id":"mine","method":"tools/call","params":{`+echo+`}}`)
			if status != http.StatusOK || got.Error == nil || got.Error.Code != tc.code ||
				!strings.Contains(got.Error.Message, tc.words) || string(got.ID) != `"mine"` {
				t.Errorf("HTTP %d with %s %+v", status, got.ID, got.Error)
			}
			if n := len(b.got("tools/call")); n != 1 {
				t.Errorf("it was called %d times", n)
			}
		})
	}
}

// A tool that wants headers is told them, once the backend has refused the call for their want.
func TestHeadersOfATool(t *testing.T) {
	b, endpoint := behind(t, modernOnly)
	send(t, endpoint, initialize)
	var seen http.Header
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		id, _, _ := strings.Cut(string(body[strings.Index(string(body), `"id":`)+5:]), ",")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(string(body), "tools/list"):
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+
				`,"result":{"resultType":"complete","tools":[{"name":"echo","inputSchema":{"properties":{
				"text":{"type":"string","x-mcp-header":"Text"},"in":{"properties":{"n":{"x-mcp-header":"N"}}},"no":{"x-mcp-header":"a b"},"none":{"x-mcp-header":"None"}}}}]}}`)
		case strings.Contains(string(body), "tools/call") && r.Header.Get("Mcp-Param-Text") == "":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32020,"message":"HeaderMismatch"}}`)
		case strings.Contains(string(body), "tools/call"):
			seen = r.Header.Clone()
			return false
		default:
			return false
		}
		return true
	})
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"größe","in":{"n":42},"none":null}}}`
	for attempt, want := range []int{2, 3} {
		status, _ := send(t, endpoint, call)
		if n := len(b.got("tools/call")); n != want || status != http.StatusOK {
			t.Errorf("call %d: HTTP %d, sent %d times", attempt, status, n)
		}
	}
	got := map[string]string{}
	for name := range seen {
		if strings.HasPrefix(name, "Mcp-") {
			got[name] = seen.Get(name)
		}
	}
	want := map[string]string{
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo",
		"Mcp-Param-Text": "=?base64?Z3LDtsOfZQ==?=", "Mcp-Param-N": "42",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestABackendThatAlwaysMissesHeadersIsCalledTwice(t *testing.T) {
	b, endpoint := behind(t, modernOnly)
	send(t, endpoint, initialize)
	b.says("tools/call", http.StatusBadRequest,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"HeaderMismatch"}}`)
	status, got := send(t, endpoint, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{`+echo+`}}`)
	if n := len(b.got("tools/call")); status != http.StatusOK || got.Error == nil || n != 2 {
		t.Errorf("HTTP %d with %+v after %d calls", status, got.Error, n)
	}
}

// regional adds a tool of which a header tells the region.
func regional(b *backend) {
	b.server.AddTool(&mcp.Tool{Name: "deploy", InputSchema: map[string]any{"type": "object", "properties": map[string]any{
		"region": map[string]any{"type": "string", "x-mcp-header": "Region"},
	}}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
}

// The proxy is the server of a modern client, also where the one behind it knows no such headers.
func TestHeadersOfArgumentsAreCheckedForALegacyServer(t *testing.T) {
	b := newBackend(t, legacyOnly)
	regional(b)
	endpoint := front(t, b)
	call := modern("1", "tools/call", `"name":"deploy","arguments":{"region":"eu"}`, "")
	for name, tc := range map[string]struct {
		body, header string
		status, code int
	}{
		"it repeats the argument": {call, "eu", 200, 0},
		"another value":           {call, "us", 400, -32020},
		"none":                    {call, "", 400, -32020},
		"of no argument":          {modern("1", "tools/call", `"name":"deploy"`, ""), "eu", 400, -32020},
		"of an answer": {modern("1", "tools/call",
			`"name":"deploy","arguments":{"region":"eu"},"requestState":"x"`, ""), "us", 400, -32020},
	} {
		t.Run(name, func(t *testing.T) {
			before, headers := len(b.got("tools/call")), asModern("tools/call", "deploy")
			if tc.header != "" {
				headers = append(headers, "Mcp-Param-Region", tc.header)
			}
			status, got := send(t, endpoint, tc.body, headers...)
			code := 0
			if got.Error != nil {
				code = got.Error.Code
			}
			if status != tc.status || code != tc.code {
				t.Errorf("HTTP %d with %+v and %+v", status, got.Result, got.Error)
			}
			if ran := len(b.got("tools/call")) - before; (ran != 0) != (tc.status == http.StatusOK) {
				t.Errorf("the backend was called %d times", ran)
			}
		})
	}
}

// The Go SDK's client repeats arguments once it has the list.
func TestAModernClientRepeatsArgumentsForALegacyServer(t *testing.T) {
	b := newBackend(t, legacyOnly)
	regional(b)
	session := connect(t, front(t, b), "", nil)
	if _, err := session.ListTools(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := session.CallTool(t.Context(),
		&mcp.CallToolParams{Name: "deploy", Arguments: map[string]any{"region": "größe"}}); err != nil {
		t.Error(err)
	}
}

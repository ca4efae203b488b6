package era_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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

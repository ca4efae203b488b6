package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatAClientSawIsComparedWithoutIDsAndTimes(t *testing.T) {
	const seen = `{"b":[{"resultType":"complete","ttlMs":0,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n"}},"text":"at 2026-11-22T16:05:18.296Z"}],
		"a":"6a1f0c1e-0000-4000-8000-123456789abc at 4:54:13 PM: -32002",
		"failed":"calling \"tools/call\": sending \"tools/call\": unknown tool \"x\": rejected by transport: Bad Request"}`
	const other = `{"a":"6a1f0c1e-1111-4111-8111-123456789abc at 5:00:00 AM: -32602","b":[{"text":"at 2025-01-01T00:00:00Z"}],
		"failed":"calling \"tools/call\": unknown tool \"x\""}`
	one, err := Normal([]byte(seen))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Normal([]byte(other))
	if err != nil {
		t.Fatal(err)
	}
	if one != two {
		t.Errorf("%s\nis not\n%s", one, two)
	}
	for _, changed := range []string{
		`{"a":"6a1f0c1e-1111-4111-8111-123456789abc at 5:00:00 AM: -32602","b":[{"text":"at 2025-01-01T00:00:00Z"}],
			"failed":"calling \"tools/call\": unknown tool \"y\""}`,
		`{"a":"6a1f0c1e-1111-4111-8111-123456789abc at 5:00:00 AM: -32603","b":[{"text":"at 2025-01-01T00:00:00Z"}],"failed":"calling \"tools/call\": unknown tool \"x\""}`,
		`{"a":"6a1f0c1e-1111-4111-8111-123456789abc at 5:00:00 AM: -32602","b":[{"text":"at 2025-01-01T00:00:00Z","_meta":{"x":1}}],"failed":"calling \"tools/call\": unknown tool \"x\""}`,
		`{"a":"6a1f0c1e-1111-4111-8111-123456789abc at 5:00:00 AM: -32602","b":[],"failed":"calling \"tools/call\": unknown tool \"x\""}`,
	} {
		if got, err := Normal([]byte(changed)); err != nil || got == one {
			t.Errorf("%s is the same, %v", changed, err)
		}
	}
	if _, err := Normal([]byte("no JSON")); err == nil {
		t.Error("what is no JSON was read")
	}
}

func TestAClientThatHasRunOutOfTimeIsTold(t *testing.T) {
	const seen = "{\n \"description\": \"has a timeout\",\n \"tools\": [\n  \"one\"\n ],\n \"read\": \"text\"\n}"
	for after, want := range map[string]bool{
		seen:                                    false,
		strings.Replace(seen, `"one"`, "", 1):   false,
		strings.Replace(seen, `"text"`, "1", 1): false,
		strings.Replace(seen, `"text"`, `{"failed": "context deadline exceeded"}`, 1):              true,
		strings.Replace(seen, `"text"`, `{"failed": "MCP error -32001: Request timed out"}`, 1):    true,
		strings.Replace(seen, `"text"`, `{"failed": "TimeoutError: aborted due to timeout"}`, 1):   true,
		strings.Replace(seen, `"text"`, `{"failed": "HTTP 502: the backend broke the stream"}`, 1): false,
		strings.Replace(seen, `"text"`, `{"failed": "HTTP 503: TooManySessions: try again"}`, 1):   false,
	} {
		if got := Late(cmp.Diff(seen, after)); got != want {
			t.Errorf("%v of\n%s", got, cmp.Diff(seen, after))
		}
	}
}

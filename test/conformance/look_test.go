package conformance

import "testing"

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

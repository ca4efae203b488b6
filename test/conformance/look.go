package conformance

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// Plan is what a client does with a server beside reading its lists.
type Plan struct {
	Tools     []Named  `json:"tools,omitempty"`
	Prompts   []Named  `json:"prompts,omitempty"`
	Resources []string `json:"resources,omitempty"`
	// More has the client be one that can be asked all that clients can be asked, and do what they do beside calls one
	// after the other: the first tool is called ten times at once, and once more after a call of it was cancelled.
	More bool `json:"more,omitempty"`
}

// Named is a tool or a prompt with its arguments.
type Named struct {
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments,omitempty"`
}

// Target is a server: an endpoint, the stream of one of the transport HTTP+SSE, or a command that speaks stdio with its
// environment.
type Target struct {
	URL     string            `json:"url,omitempty"`
	Events  string            `json:"events,omitempty"`
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// ofAnEra are the members of results that one era of MCP has and the other has not: a client may see a server in
// another era through Freehold than directly.
var ofAnEra = map[string]bool{
	"execution":  true, // of tools: the tasks of 2025-11-25
	"resultType": true, "ttlMs": true, "cacheScope": true, "io.modelcontextprotocol/serverInfo": true,
}

// varying are texts that differ from one run to the next, and what stands in their place.
var varying = []struct {
	text *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\b\d{1,2}:\d\d:\d\d( [AP]M)?`), "TIME"},
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "ID"},
	// The code of a resource that is not there: -32002 up to revision 2025-11-25.
	{regexp.MustCompile(`-32002\b`), "-32602"},
	// What the Go SDK says of the transport around the error of the server, where that came with another HTTP status than
	// 200.
	{regexp.MustCompile(`sending \\"[a-z/]+\\": (.*): rejected by transport: [A-Z][A-Za-z ]+`), "$1"},
}

// Normal is what a client saw, as text without ids and times and without what differs between the eras of MCP.
func Normal(seen []byte) (string, error) {
	var value any
	if err := json.Unmarshal(seen, &value); err != nil {
		return "", fmt.Errorf("reading what a client saw: %w: %s", err, seen)
	}
	text, err := json.MarshalIndent(common(value), "", " ")
	if err != nil {
		return "", err
	}
	normal := string(text)
	for _, v := range varying {
		normal = v.text.ReplaceAllString(normal, v.with)
	}
	return normal, nil
}

// common is a value without what one era has alone, and without the members that are empty for that.
func common(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			inner, object := common(member).(map[string]any)
			if ofAnEra[name] || name == "_meta" && object && len(inner) == 0 {
				delete(v, name)
			}
		}
	case []any:
		for i := range v {
			v[i] = common(v[i])
		}
	}
	return value
}

// outOfTime are the words of clients that have run out of time.
var outOfTime = regexp.MustCompile(`(?mi)^\s*[-+].*(deadline exceeded|timed out|timeout)`)

// Late reports whether a difference of two looks, as cmp.Diff tells it, is one of a client that has run out of time.
// Any other one would be there again, or is a fault.
func Late(diff string) bool { return outOfTime.MatchString(diff) }

package era_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// asking is a call of a client that can be asked.
func asking(id, more string) string {
	return strings.Replace(modern(id, "tools/call", `"name":"ask","arguments":{}`+more, ""), `clientCapabilities":{}`,
		`clientCapabilities":{"elicitation":{}}`, 1)
}

func TestAQuestionGoesToWhoMadeTheCall(t *testing.T) {
	endpoint := front(t, newBackend(t, legacyOnly))
	ann, bob := append(asModern("tools/call", "ask"), "X-Api-Key", "ann"),
		append(asModern("tools/call", "ask"), "X-Api-Key", "bob")
	_, got := send(t, endpoint, asking("1", ""), ann...)
	if got.Result["resultType"] != "input_required" {
		t.Fatalf("%+v", got)
	}
	state := fmt.Sprintf(`,"requestState":%q`, got.Result["requestState"])
	answer := `,"inputResponses":{"input":{"action":"accept","content":{"name":"Ada"}}}`
	if _, other := send(t, endpoint, asking("2", state+answer), bob...); other.Error == nil || other.Error.Code != -32602 {
		t.Errorf("another caller gets %+v", other)
	}
	another := strings.Replace(asking("3", state+answer), `"arguments":{}`, `"arguments":{"a":1}`, 1)
	if _, other := send(t, endpoint, another, ann...); other.Error == nil || other.Error.Code != -32602 {
		t.Errorf("another call gets %+v", other)
	}
	_, again := send(t, endpoint, asking("4", state), ann...)
	if again.Result["resultType"] != "input_required" {
		t.Fatalf("without an answer: %+v", again)
	}
	state = fmt.Sprintf(`,"requestState":%q`, again.Result["requestState"])
	_, done := send(t, endpoint, asking("5", state+answer), ann...)
	if text := fmt.Sprint(done.Result["content"]); !strings.Contains(text, "hello Ada") || string(done.ID) != "5" {
		t.Errorf("with an answer: %+v", done)
	}
	if _, twice := send(t, endpoint, asking("6", state+answer), ann...); twice.Error == nil {
		t.Errorf("with an answer again: %+v", twice)
	}
}

func TestALegacyServerAsksForWhatIsNotDeclared(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	send(t, endpoint, modern("1", "tools/list", "", ""), asModern("tools/list", "")...)
	b.answers(func(w http.ResponseWriter, _ *http.Request, body []byte) bool {
		if !strings.Contains(string(body), "tools/call") {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\n")
		return true
	})
	status, got := send(t, endpoint, modern("2", "tools/call", echo, ""), asModern("tools/call", "echo")...)
	if status != http.StatusBadRequest || got.Error == nil || got.Error.Code != -32021 {
		t.Fatalf("HTTP %d with %+v", status, got)
	}
	if diff := cmp.Diff(map[string]any{"requiredCapabilities": map[string]any{"roots": map[string]any{}}},
		got.Error.Data); diff != "" {
		t.Error(diff)
	}
}

func TestASubscriptionIsServedFromTheStreamOfASession(t *testing.T) {
	b := newBackend(t, legacyOnly)
	endpoint := front(t, b)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint,
		strings.NewReader(modern("7", "subscriptions/listen",
			`"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}`, "")))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	next := func() message {
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				m := message{}
				if err := json.Unmarshal([]byte(text), &m); err != nil {
					t.Fatal(err)
				}
				return m
			}
		}
		t.Fatal("the stream has ended")
		return message{}
	}
	ack := next()
	if want := `{"_meta":{"io.modelcontextprotocol/subscriptionId":7},"notifications":{"toolsListChanged":true,"resourceSubscriptions":["test://a"]}}`; ack.Method != "notifications/subscriptions/acknowledged" || string(ack.Params) != want {
		t.Errorf("first comes %s %s", ack.Method, ack.Params)
	}
	b.server.AddPrompt(&mcp.Prompt{Name: "unasked"}, nil)
	if err := b.server.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: "test://a"}); err != nil {
		t.Fatal(err)
	}
	if m := next(); m.Method != "notifications/resources/updated" ||
		!strings.Contains(string(m.Params), `"io.modelcontextprotocol/subscriptionId":7`) {
		t.Errorf("then comes %s %s", m.Method, m.Params)
	}
	b.server.RemoveTools("hang")
	if m := next(); m.Method != "notifications/tools/list_changed" {
		t.Errorf("then comes %s %s", m.Method, m.Params)
	}
	leave()
	await(t, func() bool { return len(b.got(http.MethodDelete)) == 2 }) // of the probe, and of the subscription
}

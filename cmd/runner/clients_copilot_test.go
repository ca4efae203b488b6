//go:build clients

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// model is a model of the API of OpenAI, with which Copilot CLI needs no account. It calls the tool "say" of the server
// "echo" once, whether or not there is one, and says nothing else.
type model struct {
	mu sync.Mutex
	// read is what it was told of its call.
	read string
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	delta, end := map[string]any{"role": "assistant", "content": "done"}, "stop"
	if last := asked.Messages[len(asked.Messages)-1]; last.Role == "tool" {
		m.mu.Lock()
		m.read = fmt.Sprint(last.Content)
		m.mu.Unlock()
	} else {
		for _, tool := range asked.Tools {
			if strings.Contains(tool.Function.Name, "say") {
				delta, end = map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{
					"index": 0, "id": "one", "type": "function",
					"function": map[string]any{"name": tool.Function.Name, "arguments": `{"words":"a"}`},
				}}}, "tool_calls"
			}
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choice := range []map[string]any{
		{"index": 0, "delta": delta}, {"index": 0, "delta": map[string]any{}, "finish_reason": end},
	} {
		data, _ := json.Marshal(map[string]any{
			"id": "one", "object": "chat.completion.chunk", "created": 1, "model": "model", "choices": []any{choice},
		})
		fmt.Fprintf(w, "data: %s\n\n", data)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// failed is what Copilot CLI logs of a server that it cannot use.
var failed = regexp.MustCompile(`Recorded failure for server echo: (.*) \{"server_name"`)

// copilot has Copilot CLI call the tool.
func (e endpoint) copilot(ctx context.Context, node, program string) string {
	m := &model{}
	at := httptest.NewServer(m)
	defer at.Close()
	e.more = []string{"COPILOT_PROVIDER_BASE_URL=" + at.URL, "COPILOT_MODEL=model", "COPILOT_OFFLINE=true"}
	e.run(ctx, "", node, append([]string{program, "mcp", "add", "--transport", "http", "echo", e.url},
		e.header("--header")...)...)
	return e.copilotSaid(m, e.run(ctx, "", "/bin/sh", "-c", strings.Replace(askCopilot, "copilot", node+" "+program, 1)))
}

// askCopilot has Copilot CLI ask its model.
const askCopilot = `copilot -p "say a" --allow-all-tools --log-level debug --log-dir "$HOME/logs"`

// copilotSaid is what the model has read of its call, or the log about a server whose tools there are not.
func (e endpoint) copilotSaid(m *model, said string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.read != "" {
		return m.read
	}
	files, _ := filepath.Glob(filepath.Join(e.home, "logs", "*"))
	for _, file := range files {
		log, _ := os.ReadFile(file)
		if found := failed.FindSubmatch(log); found != nil {
			return string(found[1])
		}
	}
	if strings.Contains(said, "done") {
		return "(no tool of the server, and no word why)"
	}
	return said
}

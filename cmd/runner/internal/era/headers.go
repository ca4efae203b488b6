package era

import (
	"net/http"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

const (
	// maxTools is of how many tools the headers are remembered, and maxDepth how deep in a schema they may stand.
	maxTools = 1000
	maxDepth = 16
)

// toolHeaders are the headers that tools want (MCP specification 2026-07-28, basic/transports/streamable-http, x-mcp-header).
type toolHeaders struct {
	mu    sync.Mutex
	known map[string][]binding
}

// binding is a header and the argument whose value it repeats.
type binding struct {
	header string
	path   []string
}

// learn remembers what a tool's schema says.
func (h *toolHeaders) learn(tool string, schema jsontext.Value) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil || len(h.known) >= maxTools {
		h.known = map[string][]binding{}
	}
	h.known[tool] = bindings(schema, nil)
}

func bindings(schema jsontext.Value, path []string) []binding {
	if len(path) > maxDepth {
		return nil
	}
	var all []binding
	for name, property := range members(members(schema)["properties"]) {
		here := append(path[:len(path):len(path)], name)
		if header, err := members(property).Text("x-mcp-header"); err == nil && token(header) {
			all = append(all, binding{"Mcp-Param-" + header, here})
		}
		all = append(all, bindings(property, here)...)
	}
	return all
}

// add adds the headers of a call of a tool. Values that are null or absent have none.
func (h *toolHeaders) add(header http.Header, tool string, arguments jsontext.Value) {
	h.mu.Lock()
	wanted := h.known[tool]
	h.mu.Unlock()
	for _, b := range wanted {
		value := arguments
		for _, name := range b.path {
			value = members(value)[name]
		}
		switch value.Kind() {
		case '"':
			if text, err := (jsonrpc.Object{"": value}).Text(""); err == nil {
				header.Set(b.header, protocol.Encoded(text))
			}
		case '0', 't', 'f':
			header.Set(b.header, string(value))
		default: // null, absent, or of a type that no header carries
		}
	}
}

// token reports whether a text can be part of a header's name (https://www.rfc-editor.org/rfc/rfc9110#section-5.6.2).
func token(text string) bool {
	for _, r := range text {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return false
		}
	}
	return text != ""
}

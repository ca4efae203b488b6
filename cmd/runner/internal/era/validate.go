package era

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// validate holds the headers of a modern request against its body, as a server that reads the body has to
// (MCP specification 2026-07-28, basic/transports/streamable-http, server validation), and the members that each request needs
// (basic/index, per-request protocol fields). It returns what is wrong, or nil.
func validate(header http.Header, m jsonrpc.Message, supported []string) *rpcError {
	mismatch := func(format string, args ...any) *rpcError {
		return &rpcError{http.StatusBadRequest, codeHeaderMismatch, "HeaderMismatch: " + fmt.Sprintf(format, args...), nil}
	}
	invalid := func(text string) *rpcError {
		return &rpcError{http.StatusBadRequest, codeInvalidParams, text, nil}
	}
	meta := metaOf(m.Params)
	version, err := meta.Text(metaVersion)
	told := header.Values(versionHeader)
	switch {
	case len(told) != 1:
		return mismatch("send the header MCP-Protocol-Version once")
	case err != nil || version == "":
		return invalid("params._meta has no text " + metaVersion)
	case told[0] != version:
		return mismatch("header MCP-Protocol-Version is %q, the body says %q", told[0], version)
	case version != Modern:
		return &rpcError{
			http.StatusBadRequest, codeUnsupportedVersion, "UnsupportedProtocolVersion: " + version,
			map[string]any{"supported": supported, "requested": version},
		}
	case meta[metaCapabilities] == nil || meta[metaCapabilities].Kind() != '{':
		return invalid("params._meta has no object " + metaCapabilities)
	}
	if method := header.Values(methodHeader); len(method) != 1 || method[0] != m.Method {
		return mismatch("header Mcp-Method is %q, the body's method is %q", strings.Join(method, ", "), m.Method)
	}
	member, named := nameMember[m.Method]
	if !named {
		return nil
	}
	name, err := members(m.Params).Text(member)
	if err != nil || name == "" {
		return invalid("params." + member + " is missing")
	}
	values := header.Values(nameHeader)
	if len(values) != 1 {
		return mismatch("send the header Mcp-Name once")
	}
	if value, ok := decodedHeader(values[0]); !ok || value != name {
		return mismatch("header Mcp-Name is %q, the body names %q", values[0], name)
	}
	return nil
}

// nameMember is which parameter the header Mcp-Name repeats, by method.
var nameMember = map[string]string{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

// The sentinel of values that no header can have as they are (basic/transports/streamable-http, value encoding).
const (
	sentinelBegin = "=?base64?"
	sentinelEnd   = "?="
)

func decodedHeader(value string) (string, bool) {
	inner, begins := strings.CutPrefix(value, sentinelBegin)
	inner, ends := strings.CutSuffix(inner, sentinelEnd)
	if !begins || !ends {
		return value, true
	}
	text, err := base64.StdEncoding.DecodeString(inner)
	return string(text), err == nil
}

// headerValue is a text as a header value.
func headerValue(text string) string {
	plain := text == strings.TrimSpace(text) && (!strings.HasPrefix(text, sentinelBegin) || !strings.HasSuffix(text, sentinelEnd))
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] >= ' ' && text[i] <= '~'
	}
	if plain {
		return text
	}
	return sentinelBegin + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelEnd
}

// identified reports whether a message is a request, which has an id that is not null.
func identified(m jsonrpc.Message) bool { return m.ID != nil && m.ID.Kind() != jsontext.Kind('n') }

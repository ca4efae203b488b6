package headers

import (
	"net/http"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// Valid holds the headers of a modern request against its body, and looks for the members that each request needs (MCP
// specification 2026-07-28, basic/index, per-request protocol fields). Lacks reports whether a method is not served,
// and supported are the revisions that are. It returns what is wrong, or nil.
func Valid(header http.Header, m jsonrpc.Message, lacks func(method string) bool, supported []string) *jsonrpc.Fault {
	invalid := func(text string) *jsonrpc.Fault {
		return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams, "%s", text)
	}
	version, wrong := Revision(header, m, lacks)
	capabilities := jsonrpc.At(m.Params, "_meta", protocol.MetaCapabilities)
	switch {
	case wrong != nil:
		return wrong
	case version != protocol.Modern:
		f := jsonrpc.Fail(http.StatusBadRequest, protocol.CodeUnsupportedVersion, "UnsupportedProtocolVersion: %s", version)
		f.Data = map[string]any{"supported": supported, "requested": version}
		return f
	case capabilities == nil || capabilities.Kind() != '{':
		return invalid("params._meta has no object " + protocol.MetaCapabilities)
	}
	if member, named := protocol.NameMember[m.Method]; named {
		if name, err := jsonrpc.Members(m.Params).Text(member); err != nil || name == "" {
			return invalid("params." + member + " is missing")
		}
	}
	return Call(header, m)
}

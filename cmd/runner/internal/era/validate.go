package era

import (
	"net/http"
	"slices"

	"github.com/freehold-dev/freehold/cmd/runner/internal/headers"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// unknown reports whether the modern era lacks a method, or the translator does not serve it.
func unknown(method string) bool {
	return method != protocol.MethodDiscover && method != protocol.MethodListen && !slices.Contains(translated, method)
}

// validate holds the headers of a modern request against its body, and looks for the members that each request needs
// (MCP specification 2026-07-28, basic/index, per-request protocol fields). It returns what is wrong, or nil.
func validate(header http.Header, m jsonrpc.Message, supported []string) *jsonrpc.Fault {
	invalid := func(text string) *jsonrpc.Fault {
		return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams, "%s", text)
	}
	version, wrong := headers.Revision(header, m, unknown)
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
	return headers.Call(header, m)
}

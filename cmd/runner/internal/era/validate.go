package era

import (
	"net/http"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// known reports whether the modern era has a method that the translator serves.
func known(method string) bool {
	return method == protocol.MethodDiscover || method == protocol.MethodListen || slices.Contains(translated, method)
}

// validate holds the headers of a modern request against its body, as a server that reads the body has to
// (MCP specification 2026-07-28, basic/transports/streamable-http, server validation), and the members that each
// request needs (basic/index, per-request protocol fields). It returns what is wrong, or nil.
func validate(header http.Header, m jsonrpc.Message, supported []string) *jsonrpc.Fault {
	mismatch := func(format string, args ...any) *jsonrpc.Fault {
		return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeHeaderMismatch, "HeaderMismatch: "+format, args...)
	}
	invalid := func(text string) *jsonrpc.Fault {
		return jsonrpc.Fail(http.StatusBadRequest, protocol.CodeInvalidParams, "%s", text)
	}
	meta := metaOf(m.Params)
	version, err := meta.Text(protocol.MetaVersion)
	told := header.Values(protocol.HeaderVersion)
	switch {
	case len(told) != 1:
		return mismatch("send the header MCP-Protocol-Version once")
	case told[0] == protocol.Modern && !known(m.Method):
		// Before the body's members: a client that sends what the revision does not have, as a ping, need not know those
		// either.
		return jsonrpc.Fail(http.StatusNotFound, protocol.CodeMethodNotFound, "the method %s is not of revision %s", m.Method,
			protocol.Modern)
	case err != nil || version == "":
		return invalid("params._meta has no text " + protocol.MetaVersion)
	case told[0] != version:
		return mismatch("header MCP-Protocol-Version is %q, the body says %q", told[0], version)
	case version != protocol.Modern:
		f := jsonrpc.Fail(http.StatusBadRequest, protocol.CodeUnsupportedVersion, "UnsupportedProtocolVersion: %s", version)
		f.Data = map[string]any{"supported": supported, "requested": version}
		return f
	case meta[protocol.MetaCapabilities] == nil || meta[protocol.MetaCapabilities].Kind() != '{':
		return invalid("params._meta has no object " + protocol.MetaCapabilities)
	}
	if method := header.Values(protocol.HeaderMethod); len(method) != 1 || method[0] != m.Method {
		return mismatch("header Mcp-Method is %q, the body's method is %q", strings.Join(method, ", "), m.Method)
	}
	member, named := protocol.NameMember[m.Method]
	if !named {
		return nil
	}
	name, err := jsonrpc.Members(m.Params).Text(member)
	if err != nil || name == "" {
		return invalid("params." + member + " is missing")
	}
	values := header.Values(protocol.HeaderName)
	if len(values) != 1 {
		return mismatch("send the header Mcp-Name once")
	}
	if value, err := protocol.Decoded(values[0]); err != nil || value != name {
		return mismatch("header Mcp-Name is %q, the body names %q", values[0], name)
	}
	return nil
}

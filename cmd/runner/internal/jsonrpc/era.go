package jsonrpc

import (
	"net/http"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

// methodInitialize begins a session of the legacy era.
const methodInitialize = "initialize"

// Modern reports whether a message is of the modern era, which has no sessions (MCP specification 2026-07-28): where
// its method does not tell, its header or its own words do. A client that sends initialize has not agreed on a revision
// yet, and whatever it writes into the header is a guess (2025-11-25, basic/transports, protocol version header).
func Modern(header http.Header, m Message) bool {
	switch m.Method {
	case methodInitialize:
		return false
	case protocol.MethodDiscover:
		return true
	}
	if NamesModern(header) {
		return true
	}
	return At(m.Params, "_meta", protocol.MetaVersion) != nil
}

// Connects reports whether a message is the first that a client says to a server.
func (m Message) Connects() bool {
	return m.Method == methodInitialize || m.Method == protocol.MethodDiscover
}

// NamesModern reports whether the header of a request names the modern era. Without a message nothing else tells.
func NamesModern(header http.Header) bool {
	return header.Get(protocol.HeaderVersion) >= protocol.Modern
}

// MayInitialize reports whether a POST whose message is not read may be initialize: one of the modern era names its
// method in a header (2026-07-28, basic/transports/streamable-http, standard request headers).
func MayInitialize(header http.Header) bool {
	method := header.Get(protocol.HeaderMethod)
	return !NamesModern(header) || method == "" || method == methodInitialize
}

// Package bridge offers an MCP server that does not speak streamable HTTP as one that
// does, in the backend's own pod: a server on standard input and output, or one of the
// deprecated HTTP+SSE transport.
//
//   - bridge.go: requests by method and era; errors.go: what they are refused with
//   - legacy.go, session.go, sessions.go, shared.go: sessions, each with a server of its own or all with one
//   - modern.go: requests without sessions, all to one server; probe.go: whether that speaks the era
//   - own.go: what proxies ask, for which no server is started beside those of clients
//   - old.go: clients of the HTTP+SSE transport
//   - peer.go: one connection to the server, with the ids of many clients rewritten;
//     conn.go: what it is, start.go: how one is made; failures.go: when it breaks; cancel.go: calls that are not wanted
//     any more; call.go, message.go: what is rewritten
//   - stream.go, write.go: what a client reads, bounded; unread.go: in memory, beside all others
//   - sse.go, post.go: a server of the HTTP+SSE transport
//
// A change of these files, of internal/budget, internal/stdio, internal/jsonrpc, internal/protocol,
// internal/headers, internal/sessions, internal/share or internal/sse reaches pods that run only
// with a new runconfig.BridgeVersion, which a test asks for.
package bridge

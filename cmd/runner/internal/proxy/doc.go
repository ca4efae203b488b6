// Package proxy is the data path: it passes streamable HTTP of the Model
// Context Protocol (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports)
// through to one backend, without reading more of it than it must.
//
// proxy.go says which requests are served and in which order they are judged;
// origin.go, body.go and rewrite.go are those judgements; transport.go is the
// way to the backend, outgoing.go the bodies on it, direct.go how a short call is made and a stream opened, wire.go on
// which connection, pods.go the addresses there, sessions.go which of them a request is for; stream.go ends event
// streams in a defined way; drain.go ends the whole; errors.go is what callers read when something is wrong.
//
// Who may call, and what, is decided in front of it (Config.Guard). A server whose
// spec asks for what nothing enforces is not served at all (Config.Refusal).
package proxy

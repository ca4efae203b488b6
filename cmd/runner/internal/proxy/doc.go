// Package proxy is the data path: it passes streamable HTTP of the Model
// Context Protocol (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports)
// through to backends, without reading more of it than it must. docs/maintainers/call.md draws the way of a call.
//
// proxy.go is what all targets share, target.go one of them: the stages of its chain, in order. origin.go and cors.go
// judge pages in browsers, sessions.go finds where a session is and pods.go the addresses there, rewrite.go makes the
// request to the backend; transport.go is the way there, outgoing.go the bodies on it, direct.go how a short call is
// made and a stream opened, wire.go on which connection; stream.go ends event streams in a defined way, idle.go has
// those that are silent; drain.go ends the whole; errors.go is what callers read when something is wrong.
//
// A server whose spec asks for what nothing enforces is not served at all (Config.Refusal).
package proxy

// Package bridge offers an MCP server that does not speak streamable HTTP as one that
// does, in the backend's own pod: a server on standard input and output, or one of the
// deprecated HTTP+SSE transport.
//
// Read Bridge.ServeHTTP first. A change of this package, or of another one that version_test.go names, does not reach
// pods that run: proxies of later releases call them as they are.
package bridge

// Package proxy is the data path: it passes streamable HTTP of the Model
// Context Protocol (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports)
// through to backends, without reading more of it than it must. docs/maintainers/call.md draws the way of a call.
//
// Read New and newTarget first: what all targets share, and the stages of one.
//
// A server whose spec asks for what nothing enforces is not served at all (Config.Refusal).
package proxy

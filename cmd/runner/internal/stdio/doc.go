// Package stdio runs an MCP server that speaks on its standard input and output
// (https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio)
// as a child: one message a line, both ways.
//
//   - process.go: a child with its process group, from its start to its end; marked.go: what has left that
//   - lines.go: messages on its standard output, bounded
//   - words.go: what it says on standard error, bounded a line and a second
//   - environment.go: which variables it gets
//   - reap.go: orphans, where this process is the first of its container
package stdio

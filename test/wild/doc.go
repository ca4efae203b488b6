// Program wild looks at MCP servers of others with clients of others, directly and through Freehold, and tells what
// differs. It is run by `make wild`, in a network that has nothing but loopback.
//
// servers.go has the servers, known.go the differences that are right, serve.go runs a server as the operator would,
// and main.go compares. Read main.go first.
package main

// Package protocol is what revisions of MCP call things (https://modelcontextprotocol.io/specification), in one place
// for whoever reads messages: the names of revisions, headers and members, the codes of errors, and how headers hold
// values.
package protocol

import (
	"encoding/base64"
	"slices"
	"strings"
)

// The newest revisions of both eras: with sessions, and without.
const (
	Legacy = "2025-11-25"
	Modern = "2026-07-28"
)

// LegacyRevisions are those that begin with initialize, the newest first.
var LegacyRevisions = []string{Legacy, "2025-06-18", "2025-03-26", "2024-11-05"}

// Agreed is the revision in which a server of the legacy era, whose newest is most, serves a client that asked for one:
// that, where it is a legacy revision which the server has, and else the server's newest (2025-11-25, basic/lifecycle,
// version negotiation).
func Agreed(asked, most string) string {
	if asked <= most && slices.Contains(LegacyRevisions, asked) {
		return asked
	}
	return most
}

// Headers of streamable HTTP, in Go's spelling (2026-07-28, basic/transports/streamable-http, and the same page of
// 2025-11-25).
const (
	HeaderSession = "Mcp-Session-Id"
	HeaderVersion = "Mcp-Protocol-Version"
	HeaderMethod  = "Mcp-Method"
	HeaderName    = "Mcp-Name"
	HeaderLast    = "Last-Event-Id"
)

// HeaderCaller tells a bridge who called, where its proxy knows: a text that is another one for another caller, and
// says nothing else. The proxy removes it from requests of clients.
const HeaderCaller = "Freehold-Caller"

// HeaderProxy shows a bridge that a request comes from a proxy of its server, by credentials that those alone have,
// with spaces between them. The proxy removes it from requests of clients. A bridge that refuses has it in its answer.
const HeaderProxy = "Freehold-Proxy"

// HeaderPod names the pod of the backend to which a question of the proxy's own goes. It leaves no process: of clients
// nobody reads it.
const HeaderPod = "Freehold-Pod"

// HeaderApart has a member of a virtual server keep sessions with its backend for each client of that apart: a text
// that is another one for another client, and says nothing else. Whoever else sends it is kept apart as well. No
// backend sees it.
const HeaderApart = "Freehold-Session"

// OwnClient is the name of the client as which a proxy itself asks its backend. A bridge begins no session with a
// server for that alone.
const OwnClient = "freehold-runner"

// QuerySession is the parameter of the query with which a bridge names the session of a client of the transport
// HTTP+SSE (2024-11-05, basic/transports, HTTP with SSE). The proxy seals what it names.
const QuerySession = "freeholdSession"

// Methods that are treated in ways of their own.
const (
	MethodDiscover  = "server/discover"
	MethodListen    = "subscriptions/listen"
	MethodListTools = "tools/list"
	MethodCallTool  = "tools/call"
)

// Members of _meta (2026-07-28, basic/index, _meta).
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaClient       = "io.modelcontextprotocol/clientInfo"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLevel        = "io.modelcontextprotocol/logLevel"
	MetaServer       = "io.modelcontextprotocol/serverInfo"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaProgress     = "progressToken"
)

// Codes of errors (2026-07-28, basic/index, error codes).
const (
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
	// Of the legacy era alone.
	CodeNotFound    = -32002
	CodeURLRequired = -32042
)

// NameMember is which parameter the header Mcp-Name repeats, by method.
var NameMember = map[string]string{MethodCallTool: "name", "prompts/get": "name", "resources/read": "uri"}

// The mark of values that no header can have as they are (2026-07-28, basic/transports/streamable-http, value
// encoding).
const (
	markBegin = "=?base64?"
	markEnd   = "?="
)

// Decoded is what the value of a header says. The error is that of base64 that is none.
func Decoded(value string) (string, error) {
	inner, begins := strings.CutPrefix(value, markBegin)
	inner, ends := strings.CutSuffix(inner, markEnd)
	if !begins || !ends {
		return value, nil
	}
	text, err := base64.StdEncoding.DecodeString(inner)
	return string(text), err
}

// Encoded is a text as the value of a header.
func Encoded(text string) string {
	plain := text == strings.TrimSpace(text) && (!strings.HasPrefix(text, markBegin) || !strings.HasSuffix(text, markEnd))
	for i := 0; plain && i < len(text); i++ {
		plain = text[i] >= ' ' && text[i] <= '~'
	}
	if plain {
		return text
	}
	return markBegin + base64.StdEncoding.EncodeToString([]byte(text)) + markEnd
}

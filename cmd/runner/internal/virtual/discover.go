package virtual

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
)

const (
	// maxInstructions is how long the instructions of a virtual server are: clients cut longer ones.
	maxInstructions = 2 << 10
	// maxLine is how much of a member's instructions is told.
	maxLine = 300
)

// capabilities are what every virtual server has, whatever its members have now: clients read them once.
const capabilities = `{"completions":{},"prompts":{"listChanged":true},` +
	`"resources":{"listChanged":true,"subscribe":true},"tools":{"listChanged":true}}`

// discover is the answer to server/discover. It waits for no member.
func (s *Server) discover() jsontext.Value {
	result := jsonrpc.Object{
		"resultType": quoted("complete"), "supportedVersions": encoded([]string{protocol.Modern}),
		"capabilities": jsontext.Value(capabilities), "ttlMs": jsontext.Value("0"), "cacheScope": quoted("private"),
		"_meta": jsonrpc.Object{protocol.MetaServer: s.info}.Joined(),
	}
	if text := s.instructions(); text != "" {
		result["instructions"] = quoted(text)
	}
	return result.Joined()
}

// instructions are the server's own, and then a line of each member that says what it is for, while there is room.
func (s *Server) instructions() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	b.WriteString(s.config.Instructions)
	for _, m := range s.members {
		if m.hello == nil {
			continue
		}
		says := printable.Line(m.hello.instructions, maxLine)
		if says == "" {
			says = printable.Line(m.hello.title, maxLine)
		}
		if says == "" {
			continue
		}
		line := m.Name + ": " + says
		if prefix := m.full("", s.config.Verbatim); prefix != "" {
			line = m.Name + " (" + prefix + "*): " + says
		}
		if b.Len() > 0 {
			line = "\n" + line
		}
		if b.Len()+len(line) > maxInstructions {
			break
		}
		b.WriteString(line)
	}
	return b.String()
}

package jsonrpc

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// longestSkimmed is the longest id that Skim keeps, in bytes. Names of methods are shorter.
const longestSkimmed = 4 << 10

// Skim finds id and method of one message while its bytes pass, and keeps nothing else of it. It looks at the top level
// alone: what a tool is given, and what it returns, may hold the same words. The zero Skim has seen nothing.
type Skim struct {
	depth   int
	quoted  bool   // in a string
	escaped bool   // behind a backslash in it
	value   bool   // at the top level, behind a colon
	name    []byte // of what is at the top level, with its quotes, or its beginning
	id      []byte
	method  []byte
	ids     int // members called id
	methods int
	results int // members called result or error
}

// Next begins another message.
func (s *Skim) Next() { *s = Skim{name: s.name[:0], id: s.id[:0], method: s.method[:0]} }

// Message is id and method of what has passed. The id is nil where there is none, more than one, or one that is too
// long or none of JSON-RPC. It is valid until Next.
func (s *Skim) Message() (m Message) {
	id := jsontext.Value(bytes.TrimSpace(s.id))
	if s.ids == 1 && len(s.id) < longestSkimmed && (id.Kind() == '"' || id.Kind() == '0') && id.IsValid() {
		m.ID = id
	}
	if method, err := jsontext.AppendUnquote(nil, bytes.TrimSpace(s.method)); err == nil && s.methods == 1 {
		m.Method = string(method)
	}
	return m
}

// Answers reports whether what has passed has a result or an error, and no method.
func (s *Skim) Answers() bool { return s.results > 0 && s.methods == 0 }

// Read takes the next part of the message.
func (s *Skim) Read(p []byte) {
	for len(p) > 0 {
		if s.quoted && !s.escaped && s.depth != 1 {
			// Inside of a text that does not matter: most of most messages.
			skip := bytes.IndexAny(p, `"\\`)
			if skip < 0 {
				return
			}
			p = p[skip:]
		}
		s.take(p[0])
		p = p[1:]
	}
}

func (s *Skim) take(b byte) {
	if s.quoted {
		s.keep(b)
		switch {
		case s.escaped:
			s.escaped = false
		case b == '\\':
			s.escaped = true
		case b == '"':
			s.quoted = false
		}
		return
	}
	switch b {
	case '"':
		if s.depth == 1 && !s.value {
			s.name = s.name[:0]
		}
		s.quoted = true
		s.keep(b)
	case '{', '[':
		s.keep(b)
		s.depth++
	case '}', ']':
		s.depth--
		s.keep(b)
	case ':':
		if s.depth == 1 {
			s.member()
		}
	case ',':
		if s.depth == 1 {
			s.value = false
		}
	default:
		if s.value {
			s.keep(b)
		}
	}
}

// member begins the value of a member.
func (s *Skim) member() {
	s.value = true
	switch string(s.name) {
	case `"id"`:
		s.ids++
	case `"method"`:
		s.methods++
	case `"result"`, `"error"`:
		s.results++
	}
}

// keep keeps a byte of a name at the top level, or of the value of what is looked for.
func (s *Skim) keep(b byte) {
	if s.depth != 1 {
		return
	}
	kept, longest := &s.name, len(`"method"`)+1
	if s.value {
		longest = longestSkimmed
		switch string(s.name) {
		case `"id"`:
			kept = &s.id
		case `"method"`:
			kept = &s.method
		default:
			return
		}
	}
	if len(*kept) < longest {
		*kept = append(*kept, b)
	}
}

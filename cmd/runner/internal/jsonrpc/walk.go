package jsonrpc

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Decode reads what a server has said part by part, as leniently as ReadAnswer. done must be called when that is over.
func Decode(text []byte) (decoder *jsontext.Decoder, done func()) { return decoderOf(text, Lenient) }

// Ended is an error where something follows what a decoder has read.
func Ended(decoder *jsontext.Decoder) error { return ended(decoder) }

// Walk reads the object to which a decoder of text has come, where it begins and what ReadAnswer refuses of it. It
// calls member with each name, which may read the value.
func Walk(
	decoder *jsontext.Decoder, text []byte, names []string, member func(name []byte) error,
) (begin int64, err error) {
	switch token, err := decoder.ReadToken(); {
	case err != nil:
		return 0, err
	case token.Kind() != '{':
		return 0, errNoObject
	}
	begin = decoder.InputOffset() - 1
	depth := decoder.StackDepth()
	var seen nameSet
	for decoder.PeekKind() != '}' {
		quoted, err := decoder.ReadValue()
		if err != nil {
			return 0, err
		}
		end := decoder.InputOffset()
		name, err := unquote(text[end-int64(len(quoted)) : end])
		if err != nil {
			return 0, err
		}
		if err := seen.add(name); err != nil {
			return 0, err
		}
		if err := cased(name, names); err != nil {
			return 0, err
		}
		if err := member(name); err != nil {
			return 0, err
		}
		if _, read := decoder.StackIndex(depth); read%2 == 1 {
			if err := decoder.SkipValue(); err != nil {
				return 0, err
			}
		}
	}
	_, err = decoder.ReadToken()
	return begin, err
}

// unquote is a name, a part of quoted where it has no escapes.
func unquote(quoted []byte) ([]byte, error) {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return quoted[1 : len(quoted)-1], nil
	}
	return jsontext.AppendUnquote(nil, quoted)
}

// cased refuses a name that differs from the given ones in case only.
func cased(name []byte, names []string) error {
	for _, known := range names {
		if string(name) != known && bytes.EqualFold(name, []byte(known)) {
			return fmt.Errorf("the message has the member %q: write %q", name, known)
		}
	}
	return nil
}

// nameSet are the names of an object so far.
type nameSet struct {
	few  [16][]byte
	many map[string]bool
	n    int
}

// add refuses a name that is there, and more than MaxMembers.
func (s *nameSet) add(name []byte) error {
	few := s.few[:min(s.n, len(s.few))]
	twice := s.many[string(name)] || slices.ContainsFunc(few, func(other []byte) bool { return bytes.Equal(other, name) })
	switch {
	case twice:
		return fmt.Errorf("it has the member %.100q twice", name)
	case s.n == MaxMembers:
		return fmt.Errorf("it has an object of more than %d members", MaxMembers)
	case s.n < len(s.few):
		s.few[s.n] = name
	case s.many == nil:
		s.many = map[string]bool{string(name): true}
	default:
		s.many[string(name)] = true
	}
	s.n++
	return nil
}

package jsonrpc

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// At is the value in the text of an object, by the names that lead to it; nil where there is none.
func At(text jsontext.Value, path ...string) jsontext.Value {
	begin, end, ok := Span(text, path...)
	if !ok {
		return nil
	}
	return text[begin:end]
}

// TextAt is the content of the text at a path, empty for anything else.
func TextAt(text jsontext.Value, path ...string) string {
	value := At(text, path...)
	if value.Kind() != '"' {
		return ""
	}
	content, _ := jsontext.AppendUnquote(nil, value) //nolint:errcheck // what is not UTF-8 becomes U+FFFD
	return string(content)
}

// Swapped is the text of an object with another value at a path, and what stood there; the text itself where there is
// nothing.
func Swapped(text, value jsontext.Value, path ...string) (other, old jsontext.Value) {
	begin, end, ok := Span(text, path...)
	if !ok {
		return text, nil
	}
	return bytes.Join([][]byte{text[:begin], value, text[end:]}, nil), text[begin:end].Clone()
}

// Span is where the value at a path is in the text of an object, by the names that lead to it.
func Span(text jsontext.Value, path ...string) (begin, end int, ok bool) {
	if !bytes.Contains(text, []byte(`"`+path[len(path)-1]+`"`)) && !bytes.ContainsRune(text, '\\') {
		return 0, 0, false // no name can be it, for none is escaped
	}
	decoder, done := decoderOf(text, Lenient)
	defer done()
	if t, err := decoder.ReadToken(); err != nil || t.Kind() != '{' {
		return 0, 0, false
	}
	for decoder.PeekKind() == '"' {
		name, err := decoder.ReadToken()
		if err != nil {
			return 0, 0, false
		}
		here := name.String() == path[0]
		value, err := decoder.ReadValue()
		if err != nil {
			return 0, 0, false
		}
		if !here {
			continue
		}
		end = int(decoder.InputOffset())
		begin = end - len(value)
		if len(path) == 1 {
			return begin, end, true
		}
		inner, innerEnd, ok := Span(text[begin:end], path[1:]...)
		return begin + inner, begin + innerEnd, ok
	}
	return 0, 0, false
}

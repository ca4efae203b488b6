package bridge

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// code is that of an answer's error, 0 where there is none.
func code(m jsonrpc.Message) int {
	var e struct {
		Code int `json:"code"`
	}
	if m.Error == nil || json.Unmarshal(m.Error, &e) != nil {
		return 0
	}
	return e.Code
}

// read takes what a server says apart, a message or a batch of them.
func read(line []byte) (all []jsonrpc.Message) {
	texts := []json.RawMessage{line}
	if line[0] == '[' && json.Unmarshal(line, &texts) != nil {
		return nil
	}
	for _, text := range texts {
		if m, err := jsonrpc.Lax(jsontext.Value(text)); err == nil {
			all = append(all, m)
		}
	}
	return all
}

// oneLine is JSON without line ends, which would end the message.
func oneLine(text []byte) []byte {
	if !bytes.ContainsAny(text, "\r\n") {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, text) != nil {
		return nil // it was read before
	}
	return compact.Bytes()
}

// number is an id of ours.
func number(id int64) []byte { return strconv.AppendInt(nil, id, 10) }

// span is where a value is in the text of an object, by the names that lead to it.
func span(text []byte, path ...string) (begin, end int, ok bool) {
	if !bytes.Contains(text, []byte(`"`+path[len(path)-1]+`"`)) && !bytes.ContainsRune(text, '\\') {
		return 0, 0, false // no name can be it, for none is escaped
	}
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))
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
		inner, innerEnd, ok := span(text[begin:end], path[1:]...)
		return begin + inner, begin + innerEnd, ok
	}
	return 0, 0, false
}

// swapped is the text with another value at a path, and what stood there; the text
// itself where there is nothing.
func swapped(text, value []byte, path ...string) (other, old []byte) {
	begin, end, ok := span(text, path...)
	if !ok {
		return text, nil
	}
	return bytes.Join([][]byte{text[:begin], value, text[end:]}, nil), bytes.Clone(text[begin:end])
}

// at is the value at a path, nil where there is none.
func at(text []byte, path ...string) []byte {
	begin, end, ok := span(text, path...)
	if !ok {
		return nil
	}
	return text[begin:end]
}

// text is a JSON text's content, empty for anything else.
func text(value []byte) string {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return ""
	}
	return s
}

// texts are the texts of a list.
func texts(value []byte) []string {
	var all []string
	if json.Unmarshal(value, &all) != nil {
		return nil
	}
	return all
}

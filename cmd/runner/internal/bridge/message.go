package bridge

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// said is a message of the server's. It is read as it comes: where its server is not
// strict, its clients decide what they make of it.
type said struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func (m said) answers() bool { return m.Method == "" && (m.Result != nil || m.Error != nil) }

// code is that of an error, 0 where there is none.
func (m said) code() int {
	var e struct {
		Code int `json:"code"`
	}
	if m.Error == nil || json.Unmarshal(m.Error, &e) != nil {
		return 0
	}
	return e.Code
}

// read takes a message, or a batch of them, apart.
func read(line []byte) []said {
	if line[0] != '[' {
		var m said
		if json.Unmarshal(line, &m) != nil {
			return nil
		}
		return []said{m}
	}
	var batch []said
	if json.Unmarshal(line, &batch) != nil {
		return nil
	}
	return batch
}

// request is a request or notification as one line, with another id.
func request(id []byte, method string, params []byte) []byte {
	name, _ := json.Marshal(method) //nolint:errcheck,errchkjson // a text
	line := append([]byte(`{"jsonrpc":"2.0"`), member("id", id)...)
	line = append(append(line, `,"method":`...), name...)
	return append(append(line, member("params", params)...), '}')
}

// response is an answer as one line, with another id. Beside a result an error is none that is null: some libraries
// write both.
func response(id []byte, m said) []byte {
	line := append(make([]byte, 0, len(m.Result)+len(m.Error)+len(id)+48), `{"jsonrpc":"2.0"`...)
	line = append(line, member("id", id)...)
	if m.Error != nil && (m.Result == nil || string(m.Error) != "null") {
		return append(append(line, member("error", m.Error)...), '}')
	}
	return append(append(line, member("result", m.Result)...), '}')
}

func member(name string, value []byte) []byte {
	if len(value) == 0 {
		return nil
	}
	return append([]byte(`,"`+name+`":`), value...)
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

package bridge

import (
	"bytes"
	"encoding/json"

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
	var texts []json.RawMessage
	if line[0] != '[' {
		texts = append(texts, line)
	} else if json.Unmarshal(line, &texts) != nil {
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

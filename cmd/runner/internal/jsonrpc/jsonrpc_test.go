package jsonrpc

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for body, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`: "",
		`{"jsonrpc":"2.0","id":"x","result":{}}`:                               "",
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`:               "",
		" [{\"method\":\"ping\",\"id\":1}]\n":                                  "",
		`{"method":"ping","method":"tools/call"}`:                              "duplicate",
		`{"method":"ping","Method":"tools/call"}`:                              `write "method"`,
		`{"method":"ping","ſ":1,"paramſ":{}}`:                                  `write "params"`,
		`{"method":"tools/call","params":{"name":"a","name":"b"}}`:             "duplicate",
		"{\"method\":\"p\xffing\"}":                                            "UTF-8",
		`{"method":"ping","result":{}}`:                                        "a method and a result",
		`{"id":1}`:                                                             "no method",
		`{"id":{},"method":"ping"}`:                                            "neither a string nor a number",
		`{"method":1}`:                                                         "reading the message",
		`[]`:                                                                   "0 messages",
		"[" + strings.Repeat(`{"method":"ping"},`, MaxBatch) + `{"method":"ping"}]`: "101 messages",
		`[[{"method":"ping"}]]`: "reading the message",
		`null`:                  "not an object",
		``:                      "reading the message",
		`{"method":"ping"} {}`:  "reading the message",
	} {
		_, _, err := Parse([]byte(body))
		if got := errText(err); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q in it", body, got, want)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzParse holds any body to: no panic, and what is read is one method or one
// answer.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"id":1,"method":"ping"}`, `[{"id":1,"result":{}}]`, `{"Method":"ping"}`, "\x00", `[[]]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		messages, _, err := Parse(body)
		if err != nil {
			return
		}
		for _, m := range messages {
			if m.Response() == (m.Method != "") {
				t.Errorf("%q is read as %+v", body, m)
			}
		}
	})
}

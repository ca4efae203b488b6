package jsonrpc

import (
	"bytes"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/freehold-dev/freehold/cmd/runner/internal/protocol"
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
		"[" + strings.Repeat(`{"method":"ping"},`, MaxBatch) + `{"method":"ping"}]`: "more than 100 messages",
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

// A failed call stays failed where the other member is there too, and null.
func TestOfResultAndErrorTheOneThatIsNullIsNone(t *testing.T) {
	for body, want := range map[string]Message{
		`{"id":1,"result":null,"error":{"code":1}}`: {ID: jsontext.Value("1"), Error: jsontext.Value(`{"code":1}`)},
		`{"id":1,"result":{},"error":null}`:         {ID: jsontext.Value("1"), Result: jsontext.Value(`{}`)},
		`{"id":1,"result":null}`:                    {ID: jsontext.Value("1"), Result: jsontext.Value(`null`)},
	} {
		got, _, err := Parse([]byte(body))
		if err != nil || !reflect.DeepEqual(got, []Message{want}) {
			t.Errorf("%s: got %s, %v", body, got, err)
		}
	}
}

// What a server writes may be JSON to encoding/json alone.
func TestAnAnswerToAnyID(t *testing.T) {
	for id, want := range map[string]string{
		`7`: `7`, `"a"`: `"a"`, ``: `null`, `"\ud800"`: `null`, "\"\xff\"": `null`, `{"a":1,"a":2}`: `null`, `x`: `null`,
	} {
		got := string(Fail(200, 5, "no \xff").Response([]byte(id)))
		if want = `{"jsonrpc":"2.0","id":` + want + `,"error":{"code":5,"message":"no ` + "\uFFFD" + `"}}`; got != want {
			t.Errorf("%q: got %s, want %s", id, got, want)
		}
	}
}

func TestExceeds(t *testing.T) {
	for text, values := range map[string]int{
		``: 0, `1`: 1, `[]`: 1, `{}`: 1, `[[],[]]`: 3, `{"a":[1,{"b":2}]}`: 7, `{"a":"[,,,,:{"}`: 3, `[1,[2,3],"x,y"]`: 6,
	} {
		if Exceeds([]byte(text), values) || values > 0 && !Exceeds([]byte(text), values-1) {
			t.Errorf("%s does not have %d names and values", text, values)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// FuzzParse holds any body to: no panic, objects are those of the library, and what is
// read is one method or one answer.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"id":1,"method":"ping"}`, `[{"id":1,"result":{}}]`, `{"Method":"ping"}`, "\x00",
		`[[]]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		object, failed := Read(body)
		var same map[string]jsontext.Value
		err := json.Unmarshal(body, &same)
		if (err == nil && same != nil) != (failed == nil) {
			t.Errorf("%q is read with %v, and by the library with %v", body, failed, err)
		}
		for name, value := range same {
			if err == nil && (!bytes.Equal(object[name], value) || len(object) != len(same)) {
				t.Errorf("%q is read as %s, and by the library as %s", body, object, same)
			}
		}
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

// A batch is read message by message: what is behind the last that there may be takes no memory.
func TestOfABatchNothingIsReadBehindItsLastMessage(t *testing.T) {
	for body, most := range map[string]float64{
		"[" + strings.Repeat("0,", 1<<21) + "0]":                         50,
		"[" + strings.Repeat(`{"method":"a"},`, 1<<18) + `{}]`:           50 * MaxBatch,
		`{"id":1,"method":"a",` + strings.Repeat(`"a":0,`, 9) + `"b":0}`: 100,
	} {
		if got := testing.AllocsPerRun(1, func() {
			if _, _, err := Parse([]byte(body)); err == nil {
				t.Errorf("%.40s… is read", body)
			}
		}); got > most {
			t.Errorf("%.40s… takes %v allocations: want at most %v", body, got, most)
		}
	}
}

func TestAnObjectHasABoundedNumberOfMembers(t *testing.T) {
	object := func(members int) []byte {
		var text bytes.Buffer
		text.WriteByte('{')
		for i := range members {
			fmt.Fprintf(&text, `"%d":0,`, i)
		}
		text.WriteString(`"method":"a"}`)
		return text.Bytes()
	}
	if _, _, err := Parse(object(MaxMembers - 1)); err != nil {
		t.Errorf("an object of %d members: %v", MaxMembers, err)
	}
	if _, _, err := Parse(object(MaxMembers)); err == nil || !strings.Contains(err.Error(), "more than 10000 members") {
		t.Errorf("an object of more: got %v", err)
	}
}

func TestABodyHasABoundedNumberOfValues(t *testing.T) {
	body := func(values int) []byte { return []byte("[" + strings.Repeat("0,", values-2) + "0]") }
	if err := Bounded(body(MaxValues)); err != nil {
		t.Errorf("a body of %d values: %v", MaxValues, err)
	}
	if err := Bounded(body(MaxValues + 1)); err == nil {
		t.Errorf("a body of %d values is read", MaxValues+1)
	}
}

// What a server has said is read though its texts are cut in the middle of a character: the envelope alone is held to
// the letter.
func TestParseAnswer(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":1,"result":{"text":"\ud83d"}}`:                     "\ufffd",
		`{"id":1,"result":{"text":"` + "caf\xe9" + `"}}`:          "caf\ufffd",
		`{"id":1,"result":{"text":"a","text":"b"}}`:               "b",
		`{"id":1,"result":{"o":{"a":1,"a":"\udc00"},"text":"c"}}`: "c",
		`[{"id":1,"result":{"text":"\ud83d"}}]`:                   "\ufffd",
	} {
		messages, _, err := ParseAnswer([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got, err := Members(messages[0].Result).Text("text"); got != want || err != nil {
			t.Errorf("%q has the text %q, %v, want %q", text, got, err, want)
		}
		if _, _, err := Parse([]byte(text)); err == nil {
			t.Errorf("%q is taken from a caller", text)
		}
	}
	for _, text := range []string{
		`{"id":1,"result":{},"result":{}}`, `{"id":1,"id":2,"result":{}}`, `{"id":1,"Result":{}}`, `{"id":1,"result":{}} {}`,
		`{"id":1,"result":{}`, `[{"id":1,"result":{},"id":2}]`,
		`{"id":1,"` + "\xff" + `":1,"result":{}}`,
	} {
		if messages, _, err := ParseAnswer([]byte(text)); err == nil {
			t.Errorf("%q is read as %+v", text, messages)
		}
	}
}

// Whatever a request says, and whatever a backend's error has, the answer is JSON in UTF-8.
func TestAFaultIsAlwaysAnAnswer(t *testing.T) {
	f := Fail(400, -1, "header \xff")
	for _, data := range []any{
		map[string]any{"requested": "\xff"},
		jsontext.Value(`{"a":"\ud83d","a":1}`),
		jsontext.Value(`"` + "\xff" + `"`), nil,
	} {
		f.Data = data
		for id, want := range map[string]string{`1`: `"id":1`, `"` + "\xff" + `"`: `"id":null`, ``: `"id":null`} {
			if got := f.Response([]byte(id)); !utf8.Valid(got) || !strings.Contains(string(got), want) {
				t.Errorf("%v for %q: %q", data, id, got)
			}
		}
	}
}

func TestWhichEraAMessageIsOf(t *testing.T) {
	const told, escaped = `,"params":{"_meta":{"` + protocol.MetaVersion + `":"2026-07-28"}}`,
		`,"params":{"_meta":{"io.modelcontextprotocol\/protocolVersion":"x"}}`
	for name, tc := range map[string]struct {
		version, body string
		want          bool
	}{
		"nothing tells":                {"", `{"id":1,"method":"tools/list"}`, false},
		"a legacy header":              {"2025-11-25", `{"id":1,"method":"tools/list"}`, false},
		"a modern header":              {"2026-07-28", `{"id":1,"method":"tools/list"}`, true},
		"a header of a later revision": {"2099-01-01", `{"id":1,"method":"tools/list"}`, true},
		"a header that is no revision": {"\xff", `{"id":1,"result":{}}`, true},
		"its own words":                {"", `{"id":1,"method":"tools/list"` + told + `}`, true},
		"its own words, escaped":       {"", `{"id":1,"method":"tools/list"` + escaped + `}`, true},
		"its own words, not in _meta": {
			"",
			`{"id":1,"method":"tools/list","params":{"` + protocol.MetaVersion + `":"2026-07-28"}}`, false,
		},
		"header and words differ":          {"2025-11-25", `{"id":1,"method":"tools/list"` + told + `}`, true},
		"discover":                         {"", `{"id":1,"method":"server/discover"}`, true},
		"initialize":                       {"", `{"id":1,"method":"initialize"}`, false},
		"initialize, a legacy header":      {"2025-03-26", `{"id":1,"method":"initialize"}`, false},
		"initialize, a modern header":      {"2026-07-28", `{"id":1,"method":"initialize"}`, false},
		"initialize, an unknown header":    {"2099-01-01", `{"id":1,"method":"initialize"}`, false},
		"initialize, modern words":         {"2026-07-28", `{"id":1,"method":"initialize"` + told + `}`, false},
		"initialized, as it was agreed on": {"2025-11-25", `{"method":"notifications/initialized"}`, false},
	} {
		messages, _, err := Parse([]byte(tc.body))
		if err != nil {
			t.Fatal(err)
		}
		header := http.Header{}
		if tc.version != "" {
			header.Set(protocol.HeaderVersion, tc.version)
		}
		if got := Modern(header, messages[0]); got != tc.want {
			t.Errorf("%s: modern is %t", name, got)
		}
	}
}

func TestWhichRequestsMayBeginASession(t *testing.T) {
	for name, tc := range map[string]struct {
		version, method string
		want            bool
	}{
		"a legacy client":                         {"", "", true},
		"a legacy client that names its revision": {"2025-11-25", "", true},
		"one that names the newest it knows":      {"2026-07-28", "", true},
		"one that names its method, too":          {"2026-07-28", "initialize", true},
		"a modern client":                         {"2026-07-28", "tools/call", false},
	} {
		header := http.Header{}
		header.Set(protocol.HeaderVersion, tc.version)
		header.Set(protocol.HeaderMethod, tc.method)
		if got := MayInitialize(header); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// An answer is matched to its request, a notification to its token, and a cancellation to its call by this comparison
// alone.
func TestIDsAreTheSameHoweverTheyAreSpelled(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"a number and itself":                {`7`, `7`, true},
		"a number and a text":                {`7`, `"7"`, true},
		"a number and a float":               {`7`, `7.0`, true},
		"a number and a float as text":       {`7`, `"7.00"`, true},
		"a number with an exponent":          {`100`, `1e+2`, true},
		"a negative number and a text":       {`-7`, `"-7"`, true},
		"zeros":                              {`0`, `-0.0`, true},
		"space around":                       {` 7`, `7 `, true},
		"an escaped text":                    {`"aé"`, `"\u0061\u00e9"`, true},
		"a digit as an escape":               {`7`, `"\u0037"`, true},
		"twenty digits":                      {`12345678901234567890`, `"12345678901234567890"`, true},
		"none":                               {``, ``, true},
		"other numbers":                      {`7`, `8`, false},
		"integers that are one as floats":    {`9007199254740993`, `9007199254740992`, false},
		"a long float":                       {`9007199254740993`, `9007199254740992.0`, false},
		"a fraction":                         {`7`, `7.5`, false},
		"a text with zeros in front":         {`7`, `"007"`, false},
		"a text in another base":             {`16`, `"0x10"`, false},
		"a text with an exponent, as of hex": {`100000`, `"1e5"`, false},
		"a text with space":                  {`7`, `" 7"`, false},
		"texts by case":                      {`"a"`, `"A"`, false},
		"a text that says null":              {`null`, `"null"`, false},
		"the empty text and none":            {``, `""`, false},
		"a text of a point":                  {`0`, `"."`, false},
	} {
		if a, b := jsontext.Value(tc.a), jsontext.Value(tc.b); SameID(a, b) != tc.same || SameID(b, a) != tc.same {
			t.Errorf("%s: %s and %s: same is %v", name, a, b, !tc.same)
		}
	}
}

// A caller's or a server's id becomes a key before anybody has looked at it.
func FuzzIDKey(f *testing.F) {
	for _, id := range []string{`7`, `7.0`, `"7"`, `1e2`, `-0`, `"a\u0061"`, `null`, `{}`, ``, `"`, `-`, `.`, "\"\xff\""} {
		f.Add([]byte(id))
	}
	f.Fuzz(func(t *testing.T, id []byte) {
		if !SameID(id, id) {
			t.Errorf("%q is not the same as itself", id)
		}
	})
}

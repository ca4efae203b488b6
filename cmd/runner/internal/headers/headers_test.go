package headers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

const schema = `{"properties":{
	"region":{"type":"string","x-mcp-header":"region"},"in":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
	"dry":{"type":"boolean","x-mcp-header":"Dry"},"plain":{"type":"string"}}}`

// lists is a server with one tool, on the second page, that counts how often it was asked for the first.
func lists(schema string, asked *int) List {
	return func(_ context.Context, cursor jsontext.Value) (jsontext.Value, error) {
		if cursor == nil {
			*asked++
			return jsontext.Value(`{"tools":[{"name":"other"}],"nextCursor":"more"}`), nil
		}
		if string(cursor) != `"more"` {
			return nil, errors.New("another cursor")
		}
		return jsontext.Value(`{"tools":[{"name":"run","inputSchema":` + schema + `}],"nextCursor":null}`), nil
	}
}

// What a server has to refuse (MCP specification 2026-07-28, basic/transports/streamable-http, server behavior for
// custom headers).
func TestHeadersAreHeldAgainstArguments(t *testing.T) {
	for name, tc := range map[string]struct {
		arguments string
		header    http.Header
		wrong     string
	}{
		"all": {
			`{"region":"eu","in":{"n":42},"dry":false}`,
			http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-N": {"42"}, "Mcp-Param-Dry": {"false"}},
			"",
		},
		"in base64":             {`{"region":"größe"}`, http.Header{"Mcp-Param-Region": {"=?base64?Z3LDtsOfZQ==?="}}, ""},
		"an empty text":         {`{"region":""}`, http.Header{"Mcp-Param-Region": {""}}, ""},
		"42.0":                  {`{"in":{"n":4.2e1}}`, http.Header{"Mcp-Param-N": {"42.0"}}, ""},
		"null":                  {`{"region":null,"plain":"x"}`, nil, ""},
		"absent":                {`{"plain":"x"}`, nil, ""},
		"a header nobody wants": {`{"plain":"x"}`, http.Header{"Mcp-Param-Other": {"x"}}, ""},
		"another value": {
			`{"region":"eu"}`,
			http.Header{"Mcp-Param-Region": {"us"}},
			`header Mcp-Param-Region is "us", and the argument region is "eu"`,
		},
		"another number":       {`{"in":{"n":42}}`, http.Header{"Mcp-Param-N": {"43"}}, "the argument in.n is 42"},
		"no number":            {`{"in":{"n":42}}`, http.Header{"Mcp-Param-N": {"x"}}, "the argument in.n is 42"},
		"a number in base 16":  {`{"in":{"n":42}}`, http.Header{"Mcp-Param-N": {"0x2Ap0"}}, "the argument in.n is 42"},
		"a number with a plus": {`{"in":{"n":42}}`, http.Header{"Mcp-Param-N": {"+42"}}, "the argument in.n is 42"},
		"a number with a zero": {`{"in":{"n":42}}`, http.Header{"Mcp-Param-N": {"042"}}, "the argument in.n is 42"},
		"a number out of range": {
			`{"in":{"n":9007199254740993}}`,
			http.Header{"Mcp-Param-N": {"9007199254740993"}},
			"between",
		},
		"no integer":              {`{"in":{"n":1.5}}`, http.Header{"Mcp-Param-N": {"1.5"}}, "between"},
		"a list":                  {`{"region":["eu"]}`, http.Header{"Mcp-Param-Region": {"eu"}}, "no text"},
		"no header":               {`{"region":"eu"}`, nil, "send the header Mcp-Param-Region once"},
		"twice":                   {`{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"eu", "eu"}}, "once"},
		"a header of null":        {`{"region":null}`, http.Header{"Mcp-Param-Region": {"eu"}}, "leave it out"},
		"a header of nothing":     {`{}`, http.Header{"Mcp-Param-Region": {"eu"}}, "leave it out"},
		"a header, no arguments":  {``, http.Header{"Mcp-Param-Region": {"eu"}}, "leave it out"},
		"no base64":               {`{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"=?base64?-?="}}, "is"},
		"a truth value in a text": {`{"dry":true}`, http.Header{"Mcp-Param-Dry": {"TRUE"}}, "the argument dry is true"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			err := new(Tools).Check(t.Context(), tc.header, "run", jsontext.Value(tc.arguments), lists(schema, &asked))
			if (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
				t.Errorf("got %v, want %q", err, tc.wrong)
			}
			if asked != 1 {
				t.Errorf("the list was read %d times", asked)
			}
		})
	}
}

func TestHeadersAreAdded(t *testing.T) {
	tools, asked, got := &Tools{}, 0, http.Header{}
	if err := tools.Learn(t.Context(), lists(schema, &asked)); err != nil {
		t.Fatal(err)
	}
	tools.Add(got, "run", jsontext.Value(`{"region":"größe","in":{"n":4.2e1},"dry":true,"plain":"x"}`))
	want := http.Header{"Mcp-Param-Region": {"=?base64?Z3LDtsOfZQ==?="}, "Mcp-Param-N": {"42"}, "Mcp-Param-Dry": {"true"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Clients over HTTP have to take a tool with such a schema for none.
func TestSchemasThatBreakTheRulesAreNotChecked(t *testing.T) {
	for name, schema := range map[string]string{
		"no token":   `{"properties":{"a":{"type":"string","x-mcp-header":"a b"},"r":{"type":"string","x-mcp-header":"R"}}}`,
		"empty":      `{"properties":{"a":{"type":"string","x-mcp-header":""},"r":{"type":"string","x-mcp-header":"R"}}}`,
		"no text":    `{"properties":{"a":{"type":"string","x-mcp-header":1},"r":{"type":"string","x-mcp-header":"R"}}}`,
		"number":     `{"properties":{"r":{"type":"number","x-mcp-header":"R"}}}`,
		"an object":  `{"properties":{"r":{"type":"object","x-mcp-header":"R"}}}`,
		"twice":      `{"properties":{"a":{"type":"string","x-mcp-header":"r"},"r":{"type":"string","x-mcp-header":"R"}}}`,
		"no schema":  `7`,
		"in a list":  `{"properties":{"r":{"type":"array","items":{"type":"string","x-mcp-header":"R"}}}}`,
		"in a union": `{"anyOf":[{"properties":{"r":{"type":"string","x-mcp-header":"R"}}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			if err := new(Tools).Check(t.Context(), http.Header{}, "run", jsontext.Value(`{"r":"x","a":"y"}`),
				lists(schema, &asked)); err != nil {
				t.Error(err)
			}
		})
	}
}

// A call does not pay for the list of another one, a client that knows a newer list is not refused, and a list that
// cannot be had is not asked for again with each call.
func TestHowOftenAListIsRead(t *testing.T) {
	tools, asked := &Tools{}, 0
	check := func(header http.Header, arguments, schema string) error {
		return tools.Check(t.Context(), header, "run", jsontext.Value(arguments), lists(schema, &asked))
	}
	none := `{"properties":{}}`
	if err := check(nil, `{}`, none); err != nil || asked != 0 {
		t.Errorf("a call without arguments: %v after %d lists", err, asked)
	}
	for range 3 {
		if err := check(nil, `{"region":"eu"}`, none); err != nil || asked != 1 {
			t.Errorf("a list that is known: %v after %d lists", err, asked)
		}
	}
	tools.read = tools.read.Add(-fresh)
	if err := check(nil, `{"region":"eu"}`, schema); err == nil || asked != 2 {
		t.Errorf("a list that is old: %v after %d lists", err, asked)
	}
	tools.read = tools.read.Add(-fresh / 2)
	if err := check(nil, `{"region":"eu"}`, none); err != nil || asked != 3 {
		t.Errorf("a client that knows a newer list: %v after %d lists", err, asked)
	}
	failing, tried := &Tools{}, 0
	for range 3 {
		if err := failing.Check(t.Context(), nil, "run", jsontext.Value(`{"region":"eu"}`),
			func(context.Context, jsontext.Value) (jsontext.Value, error) {
				tried++
				return nil, errors.New("it has none")
			}); err != nil || tried != 1 {
			t.Errorf("no list: %v after %d", err, tried)
		}
	}
}

func TestAListWithoutAnEndIsNotRead(t *testing.T) {
	asked := 0
	err := new(Tools).Learn(t.Context(), func(context.Context, jsontext.Value) (jsontext.Value, error) {
		asked++
		return jsontext.Value(`{"tools":[],"nextCursor":"more"}`), nil
	})
	if err == nil || asked != maxPages {
		t.Errorf("%v after %d pages", err, asked)
	}
}

// What was read of a list that is too long is held against calls.
func TestTheBeginningOfALongListIsKnown(t *testing.T) {
	var many strings.Builder
	for i := range maxBindings {
		fmt.Fprintf(&many, `,{"name":"tool-%d","inputSchema":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}`, i)
	}
	for name, result := range map[string]string{
		"pages":   `{"tools":[{"name":"run","inputSchema":` + schema + `}],"nextCursor":"more"}`,
		"headers": `{"tools":[{"name":"run","inputSchema":` + schema + `}` + many.String() + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			tools, asked := &Tools{}, 0
			for range 2 {
				err := tools.Check(t.Context(), nil, "run", jsontext.Value(`{"region":"eu"}`),
					func(context.Context, jsontext.Value) (jsontext.Value, error) {
						asked++
						return jsontext.Value(result), nil
					})
				if err == nil || !strings.Contains(err.Error(), "Mcp-Param-Region") {
					t.Error(err)
				}
			}
			if asked > maxPages {
				t.Errorf("the list was read again after %d pages", asked)
			}
		})
	}
}

// One failure does not leave calls unchecked for as long as a list is believed. A server that takes its time to fail is
// asked less often.
func TestAListThatFailedIsReadAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		takes, after time.Duration
		want         int
	}{
		"at once":          {0, retry - time.Millisecond, 1},
		"a little later":   {0, retry, 2},
		"slow":             {retry, retry, 1},
		"slow, much later": {retry, fresh, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tools, asked := &Tools{}, 0
				check := func() error {
					return tools.Check(t.Context(), nil, "run", jsontext.Value(`{"region":"eu"}`),
						func(context.Context, jsontext.Value) (jsontext.Value, error) {
							if asked++; asked == 1 {
								time.Sleep(tc.takes)
								return nil, errors.New("not now")
							}
							return jsontext.Value(`{"tools":[{"name":"run","inputSchema":` + schema + `}]}`), nil
						})
				}
				if err := check(); err != nil {
					t.Error(err)
				}
				time.Sleep(tc.after)
				if err := check(); (err != nil) != (tc.want == 2) || asked != tc.want {
					t.Errorf("%v, asked %d times", err, asked)
				}
			})
		})
	}
}

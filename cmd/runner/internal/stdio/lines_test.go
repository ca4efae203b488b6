package stdio

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is no message is told, and fails nothing: servers that log on standard output are diagnosed by it.
func TestLines_WhatIsNoMessage(t *testing.T) {
	long := strings.Repeat("x", MaxMessage+2)
	for name, tc := range map[string]struct {
		line string
		junk string
	}{
		"a log of JSON": {
			`{"level":30,"time":1,"msg":"listening","err":null}`,
			`{"level":30,"time":1,"msg":"listening","err":null}`,
		},
		"a long line":        {long, long[:shown]},
		"a request":          {`{"method":"ping","id":1}`, ""},
		"an answer":          {`{"result":{},"id":1}`, ""},
		"an error":           {`{"error":{},"id":null}`, ""},
		"names are escaped":  {`{"m\u0065thod":"ping","id":1}`, ""},
		"a batch":            {`[{"jsonrpc":"2.0","method":"ping","id":1}]`, ""},
		"no JSON":            {`{"jsonrpc":`, `{"jsonrpc":`},
		"an error in a log":  {`{"level":"error","error":"x"}`, `{"level":"error","error":"x"}`},
		"of the protocol":    {`{"jsonrpc":"2.0","id":1}`, ""},
		"a member is no one": {`{"msg":"method","id":1}`, `{"msg":"method","id":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			from, to, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer from.Close()
			go func() {
				_, _ = to.WriteString(tc.line + "\n" + `{"jsonrpc":"2.0","method":"last"}` + "\n")
				_ = to.Close()
			}()
			var junk string
			l := newLines(from, func(line []byte) { junk += string(line) })
			got, err := l.next()
			if err != nil {
				t.Fatal(err)
			}
			want := tc.line
			if tc.junk != "" {
				want = `{"jsonrpc":"2.0","method":"last"}`
			}
			if string(got) != want {
				t.Errorf("the message is %.200s", got)
			}
			if diff := cmp.Diff(tc.junk, junk); diff != "" {
				t.Error(diff)
			}
		})
	}
}

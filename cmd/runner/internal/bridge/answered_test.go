package bridge

import (
	"cmp"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// A server may spell the id of a call in another way, and leave it out where there is one call alone.
func TestAnAnswerWhoseIDIsSpelledInAnotherWay(t *testing.T) {
	for name, tc := range map[string]struct {
		says, want string
		calls      int
	}{
		"as a text":                       {`{"jsonrpc":"2.0","id":"1","result":{}}`, `{"jsonrpc":"2.0","id":"a","result":{}}`, 2},
		"as a number with a fraction":     {`{"jsonrpc":"2.0","id":1.0,"result":{}}`, `{"jsonrpc":"2.0","id":"a","result":{}}`, 2},
		"an error without an id":          {`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`, `{"jsonrpc":"2.0","id":"a","error":{"code":-32700,"message":"what?"}}`, 1},
		"an error without an id of which": {`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`, "", 2},
		"another number":                  {`{"jsonrpc":"2.0","id":1.5,"result":{}}`, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			conn := newPipe(t)
			b, p := peered(t, conn, false)
			s, x := sessionOf(b, p), b.stream("t", false, "")
			x.begin(tc.calls)
			for _, id := range []string{`"a"`, `"b"`}[:tc.calls] {
				if f := s.post(t.Context(), []jsonrpc.Message{{ID: []byte(id), Method: "tools/call"}}, x); f != nil {
					t.Fatal(f)
				}
				next(t, "call", conn.sent)
			}
			conn.says <- tc.says
			conn.says <- `{"jsonrpc":"2.0","id":1,"result":{"late":true}}`
			want := cmp.Or(tc.want, `{"jsonrpc":"2.0","id":"a","result":{"late":true}}`)
			if e, _, _ := x.take(t.Context()); string(e.data) != want {
				t.Errorf("the client gets %s, want %s", e.data, want)
			}
		})
	}
}

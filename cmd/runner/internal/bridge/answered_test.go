package bridge

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// A server may spell the id of a call in another way, and leave it out where there is one call alone.
func TestAnAnswerWhoseIDIsSpelledInAnotherWay(t *testing.T) {
	for name, tc := range map[string]struct {
		says, want string
		calls      int
	}{
		"as a text": {
			`{"jsonrpc":"2.0","id":"1","result":{}}`,
			`{"jsonrpc":"2.0","id":"a","result":{}}`, 2,
		},
		"as a number with a fraction": {
			`{"jsonrpc":"2.0","id":1.0,"result":{}}`,
			`{"jsonrpc":"2.0","id":"a","result":{}}`, 2,
		},
		"an error without an id": {
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}`,
			`{"jsonrpc":"2.0","id":"a","error":{"code":-32700,"message":"what?"}}`, 1,
		},
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
			if e, _, _ := x.take(t.Context(), x.reader); string(e.data) != want {
				t.Errorf("the client gets %s, want %s", e.data, want)
			}
		})
	}
}

// A server may spell the token of a call in another way where it tells its progress, and a client the id of a call that
// it cancels.
func TestATokenAndACancellationThatAreSpelledInAnotherWay(t *testing.T) {
	for name, alone := range map[string]bool{"a server of one client": true, "a server of many clients": false} {
		for _, spelled := range []string{`"1"`, "1.0"} {
			t.Run(name+": "+spelled, func(t *testing.T) {
				conn := newPipe(t)
				b, p := peered(t, conn, alone)
				s, x := sessionOf(b, p), b.stream("t", false, "")
				x.begin(1)
				call := jsonrpc.Message{ID: []byte("1"), Method: "tools/call", Params: []byte(`{"_meta":{"progressToken":1}}`)}
				if f := s.post(t.Context(), []jsonrpc.Message{call}, x); f != nil {
					t.Fatal(f)
				}
				next(t, "call", conn.sent)
				conn.says <- `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + spelled +
					`,"progress":1}}`
				soon, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				if e, _, _ := x.take(soon, x.reader); !strings.Contains(string(e.data), `"progressToken":1,`) {
					t.Errorf("the client gets %s", e.data)
				}
				cancel := jsonrpc.Message{Method: methodCancelled, Params: []byte(`{"requestId":` + spelled + `}`)}
				if f := s.post(t.Context(), []jsonrpc.Message{cancel}, nil); f != nil {
					t.Fatal(f)
				}
				next(t, "cancellation", conn.sent)
				if waiting := p.mine(nil); len(waiting) > 0 {
					t.Errorf("%d calls wait after the cancellation", len(waiting))
				}
			})
		}
	}
}

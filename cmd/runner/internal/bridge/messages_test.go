package bridge

import (
	"fmt"
	"testing"

	"github.com/freehold-dev/freehold/cmd/runner/internal/jsonrpc"
)

// What answers no call is about the one call that waits, or about none: changes of lists and resources are not, where
// the client reads the standing stream.
func TestWhereAMessageOfAServerGoesThatAnswersNoCall(t *testing.T) {
	for name, tc := range map[string]struct {
		method   string
		calls    int
		attached bool
		call     bool
	}{
		"a log line of one call":                   {"notifications/message", 1, true, true},
		"a log line of several":                    {"notifications/message", 2, true, false},
		"a log line of several, with no one there": {"notifications/message", 2, false, true},
		"a change":                    {"notifications/tools/list_changed", 1, true, false},
		"a change, with no one there": {"notifications/resources/updated", 1, false, true},
		"a log line of none":          {"notifications/message", 0, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			standing, _ := apart(1000, true)
			s, p := &session{standing: standing}, &peer{calls: map[string]*call{}}
			for i := range tc.calls {
				to, _ := apart(1000, true)
				p.calls[fmt.Sprint(i)] = &call{owner: s, to: to, began: int64(i)}
			}
			if tc.attached {
				standing.attach(false, 0)
			}
			s.other(p, jsonrpc.Message{Method: tc.method})
			ofCalls := 0
			for _, c := range p.calls {
				ofCalls += len(c.to.events)
			}
			if ofCalls+len(standing.events) != 1 || ofCalls == 1 != tc.call {
				t.Errorf("%d go to calls and %d to the standing stream", ofCalls, len(standing.events))
			}
		})
	}
}

// A resource of a shared server changes for the sessions that have subscribed to it.
func TestAChangeOfASharedServersResource(t *testing.T) {
	here, _ := apart(1000, true)
	there, _ := apart(1000, true)
	a := &shared{sessions: map[*session]bool{
		{standing: here, asked: map[string]bool{"test://a": true}}:  true,
		{standing: there, asked: map[string]bool{"test://b": true}}: true,
	}}
	a.other(nil, jsonrpc.Message{Method: "notifications/resources/updated", Params: []byte(`{"uri":"test://a"}`)})
	if len(here.events) != 1 || len(there.events) != 0 {
		t.Errorf("%d and %d sessions are told", len(here.events), len(there.events))
	}
}

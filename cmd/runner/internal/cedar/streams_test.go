package cedar

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is no list passes however long it is, and a list that does not pass ends as an error for its call.
func TestStreamsHoldWhatTheCallerMayUse(t *testing.T) {
	const (
		unfiltered = "1: the backend's answer to a list is not JSON that can be filtered"
		tooLong    = "1: the backend's answer to a list is longer than the 2 MiB that are filtered"

		list     = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		tools    = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add"},{"name":"drop"}]}}`
		filtered = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add"}]}}`
	)
	filler := strings.Repeat("x", maxAnswer)
	long := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","x":"` + filler + `"}]}}`
	image := `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"image","data":"` + filler + `"}]}}`
	question := `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":["` + filler +
		`"],"tools":[]}}`
	for name, tc := range map[string]struct{ request, body, want string }{
		"half in a stream": {
			list,
			"data: {\"result\":{\"tools\":[\n\ndata: {\"id\":1,\"result\":{}}\n\n",
			"event: message\ndata: " + unfiltered + "\n\n",
		},
		"of a batch, in a stream": {"[" + list + "]", "data: {\"result\":{\"tools\":[\n\n", ""},
		"too long in a stream": {
			list, "data: " + long + "\n\n",
			"event: message\ndata: " + tooLong + "\n\n",
		},
		"too long in a stream that is resumed": {
			"", "data: " + long + "\n\ndata: " + tools + "\n\n",
			"event: message\ndata: " + tooLong + "\n\ndata: " + filtered + "\n\n",
		},
		"half in a stream that is resumed": {
			"", "data: {\"result\":{\"tools\":[\n\ndata: " + tools + "\n\n",
			"data: " + filtered + "\n\n",
		},
		"half of another name": {
			list,
			"event: more\ndata: {\"result\":{\"tools\":[\n\ndata: " + tools + "\n\n", "data: " + filtered + "\n\n",
		},
		"a name twice in a stream that is resumed": {
			"",
			"data: {\"id\":1,\"result\":{\"tools\":[{\"name\":\"add\",\"name\":\"drop\"}]}}\n\n",
			"event: message\ndata: " + unfiltered + "\n\n",
		},
		"a long result": {"", "data: " + image + "\n\n", "data: " + image + "\n\n"},
		"a long question": {
			"", "data: " + question + "\n\ndata: " + tools + "\n\n",
			"data: " + question + "\n\ndata: " + filtered + "\n\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			code, got := answered(t, tc.request, "text/event-stream", tc.body)
			if diff := cmp.Diff(tc.want, got); diff != "" || code != http.StatusOK {
				t.Errorf("%d (-want +got):\n%.2000s", code, diff)
			}
		})
	}
}

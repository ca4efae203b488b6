package proxy

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestFramingOfEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		sent                string
		atEvent, identified bool
	}{
		"nothing":                 {"", true, false},
		"a whole event":           {"data: 1\n\n", true, false},
		"with carriage returns":   {"data: 1\r\n\r\n", true, false},
		"only carriage returns":   {"data: 1\r\r", true, false},
		"half a line":             {"data: 1", false, false},
		"a line":                  {"data: 1\n", false, false},
		"a line with both ends":   {"data: 1\r\n", false, false},
		"an event and a half":     {"data: 1\n\ndata", false, false},
		"an event with an id":     {"id: 7\ndata: 1\n\n", true, true},
		"an id after the data":    {"data: 1\nid:7\n\n", true, true},
		"a word that begins so":   {"idle: 7\n\n", true, false},
		"an id inside of data":    {"data: id: 7\n\n", true, false},
		"a comment in the middle": {": ping\n\ndata: 1\n\n", true, false},
	} {
		for _, chunk := range []int{1, 2, 1000} {
			l := lines{atEvent: true}
			for rest := tc.sent; rest != ""; {
				n := min(chunk, len(rest))
				l.scan([]byte(rest[:n]))
				rest = rest[n:]
			}
			if l.atEvent != tc.atEvent || l.identified != tc.identified {
				t.Errorf("%s, %d bytes at a time: got at event %v, identified %v", name, chunk, l.atEvent, l.identified)
			}
		}
	}
}

func TestTheAnswerInAStream(t *testing.T) {
	for name, tc := range map[string]struct {
		id, sent string
		want     bool
	}{
		"a result": {"12", `data: {"jsonrpc":"2.0","id":12,"result":{"content":[]}}` + "\n\n", true},
		"its id last": {
			"12",
			`data: {"result":{"id":7,"a":["id",{"id":8}]},"jsonrpc":"2.0","id": 12 }` + "\n\n", true,
		},
		"an error":     {`"a"`, `data:{"id":"a","error":{"code":1}}` + "\r\n\r\n", true},
		"with escapes": {`"aé\""`, `data: {"id" : "\u0061\u00e9\"","result":"\\\"}"}` + "\n\n", true},
		"in more lines": {
			"12", "event: message\ndata: {\"id\":\ndata: 12,\ndata: \"result\":1}\n: ping\n\n",
			true,
		},
		"after other messages": {
			"12", "data: {\"method\":\"x\",\"id\":12}\n\ndata: {\"id\":12,\"result\":1}\n\n",
			true,
		},
		"a number written otherwise": {"12", `data: {"id":1.2e1,"result":1}` + "\n\n", true},
		"half of it":                 {"12", `data: {"id":12,"result":1}` + "\n", false},
		"another id":                 {"12", `data: {"id":13,"result":1}` + "\n\n", false},
		"an id that begins so":       {"12", `data: {"id":123,"result":1}` + "\n\n", false},
		"a text of the number":       {"12", `data: {"id":"12","result":1}` + "\n\n", true},
		"a request of the backend's": {
			"12",
			`data: {"id":12,"method":"sampling/createMessage","params":{"result":1}}` + "\n\n", false,
		},
		"an id inside":                   {"12", `data: {"result":{"id":12},"id":7}` + "\n\n", false},
		"an id in a text":                {"12", `data: {"result":"\",\"id\":12,\"","id":7}` + "\n\n", false},
		"an id in a notification":        {"12", `data: {"method":"x","params":{"id":12,"result":1}}` + "\n\n", false},
		"two messages are not one":       {"12", "data: {\"id\":12\n\ndata: ,\"result\":1}\n\n", false},
		"no JSON":                        {"12", "data: ]]}}\"id\":12,\"result\":1\n\n", false},
		"an event of another name":       {"12", "event: ping\ndata: {\"id\":12,\"result\":1}\n\n", false},
		"named behind its data":          {"12", "data: {\"id\":12,\"result\":1}\nevent: message\n\n", true},
		"named twice":                    {"12", "event: ping\nevent: message\ndata: {\"id\":12,\"result\":1}\n\n", true},
		"a comment":                      {"12", `: {"id":12,"result":1}` + "\n\n", false},
		"an id that is none of JSON-RPC": {`{"a":1}`, `data: {"id":{"a":1},"result":1}` + "\n\n", false},
	} {
		for _, chunk := range []int{1, 3, 1000} {
			l := lines{atEvent: true, answer: newAnswerScan(json.RawMessage(tc.id))}
			for rest := []byte(tc.sent); len(rest) > 0; {
				n := min(chunk, len(rest))
				l.scan(rest[:n])
				rest = rest[n:]
			}
			if l.answered() != tc.want {
				t.Errorf("%s, %d bytes at a time: answered is %v", name, chunk, l.answered())
			}
		}
	}
}

// broken is what a client reads of a stream whose backend breaks off.
func broken(t *testing.T, method, body, sent string) (string, error) {
	t.Helper()
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		events(w)(sent)
		time.Sleep(20 * time.Millisecond) // so that the proxy has read it
		panic(http.ErrAbortHandler)
	}))
	got, err := io.ReadAll(b.call(method, "/mcp", body).Body)
	return string(got), err
}

func TestStreamWhoseBackendBreaksOff(t *testing.T) {
	const gone = `"error":{"code":-32013,"message":"BackendGone: the backend broke the stream off before it answered; the call may have run"}}` + "\n\n"
	const first = "data: 1\n\n"
	for name, tc := range map[string]struct{ method, body, sent, want string }{
		"a call with a number": {
			http.MethodPost, `{"jsonrpc":"2.0","id":12,"method":"tools/call"}`, first,
			first + `event: message` + "\n" + `data: {"jsonrpc":"2.0","id":12,` + gone,
		},
		"a call whose id comes last": {
			http.MethodPost, `{"method":"tools/call","params":{"id":3},"jsonrpc":"2.0","id":"a\"b"}`, first,
			first + `event: message` + "\n" + `data: {"jsonrpc":"2.0","id":"a\"b",` + gone,
		},
		"a call that can be resumed": {
			http.MethodPost, `{"jsonrpc":"2.0","id":12,"method":"tools/call"}`, "id: 1\n" + first,
			"id: 1\n" + first + "retry: 1000\n\n",
		},
		"an answer that has passed": {
			http.MethodPost, `{"jsonrpc":"2.0","id":12,"method":"tools/call"}`,
			"data: {\"result\":{},\"jsonrpc\":\"2.0\",\"id\":12}\n\n", "data: {\"result\":{},\"jsonrpc\":\"2.0\",\"id\":12}\n\n",
		},
		"an answer that has passed, and could be resumed": {
			http.MethodPost, `{"jsonrpc":"2.0","id":12,"method":"tools/call"}`,
			"id: 1\ndata: {\"id\":12,\"error\":{}}\n\n", "id: 1\ndata: {\"id\":12,\"error\":{}}\n\n",
		},
		"a batch":             {http.MethodPost, `[{"jsonrpc":"2.0","id":12,"method":"tools/call"}]`, first, first},
		"a standalone stream": {http.MethodGet, "", first, first + "retry: 1000\n\n"},
		"a body too long to be kept": {
			http.MethodPost, `{"method":"tools/call","params":{"x":"` + strings.Repeat("x", 64<<10) + `"},"id":12}`, first,
			first + `event: message` + "\n" + `data: {"jsonrpc":"2.0","id":12,` + gone,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := broken(t, tc.method, tc.body, tc.sent)
			if got != tc.want || err != nil {
				t.Errorf("got %q, %v\nwant %q", got, err, tc.want)
			}
		})
	}
}

func TestHalfAnEventIsNotCompleted(t *testing.T) {
	got, err := broken(t, http.MethodPost, `{"jsonrpc":"2.0","id":12,"method":"tools/call"}`, "data: {\"jso")
	if !errors.Is(err, io.ErrUnexpectedEOF) || got != "data: {\"jso" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCompressedStreamsAreNotTouched(t *testing.T) {
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		events(w)("not really")
		time.Sleep(20 * time.Millisecond)
		panic(http.ErrAbortHandler)
	}))
	response := b.call(http.MethodPost, "/mcp", `{"id":1,"method":"x"}`, "Accept-Encoding", "gzip")
	if got, err := io.ReadAll(response.Body); string(got) != "not really" || err == nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// A stream that says that it is not encoded is one as any other.
func TestStreamsThatSayTheyAreNotEncoded(t *testing.T) {
	for _, encoding := range []string{"identity", "none"} {
		b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			events(w)("data: 1\n\n")
			time.Sleep(20 * time.Millisecond)
			panic(http.ErrAbortHandler)
		}))
		response := b.call(http.MethodPost, "/mcp", `{"id":1,"method":"x"}`)
		got, err := io.ReadAll(response.Body)
		if response.Header.Get("X-Accel-Buffering") != "no" || err != nil || !strings.Contains(string(got), "-32013") {
			t.Errorf("%s: got %q, %v, with %v", encoding, got, err, response.Header)
		}
	}
}

func TestClientThatLeavesEndsTheBackendsRequest(t *testing.T) {
	left := make(chan struct{})
	b := serve(t, Config{}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		events(w)("data: 1\n\n")
		<-r.Context().Done()
		close(left)
	}))
	response := b.call(http.MethodPost, "/mcp", `{"id":1,"method":"x"}`)
	nextEvent(t, bufio.NewReader(response.Body))
	_ = response.Body.Close()
	wait(t, "the backend to see the client leave", left)
}

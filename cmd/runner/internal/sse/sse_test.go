package sse

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// split is what a reader makes of a stream: its events as they stand in it, as a client
// has them (name and data), and what is not whole.
func split(t *testing.T, limit int, chunks ...string) (texts []string, events [][2]string, rest string, err error) {
	t.Helper()
	r := &Reader{Limit: limit, Event: func(e Event) error {
		texts = append(texts, string(e.Text))
		if e.Data != nil {
			events = append(events, [2]string{string(e.Name), string(e.Data)})
		}
		return nil
	}}
	for _, chunk := range chunks {
		if _, err := r.Write([]byte(chunk)); err != nil {
			return texts, events, string(r.buffer), err
		}
	}
	return texts, events, string(r.buffer), nil
}

func TestEventsAsTheyStand(t *testing.T) {
	for name, tc := range map[string]struct {
		chunks []string
		events []string
		rest   string
	}{
		"one":            {[]string{"data: a\n\n"}, []string{"data: a\n\n"}, ""},
		"two in a chunk": {[]string{"data: a\n\nid: 1\ndata: b\n\n"}, []string{"data: a\n\n", "id: 1\ndata: b\n\n"}, ""},
		"byte by byte":   {strings.Split("data: a\r\n\r\ndata: b\r\r", ""), []string{"data: a\r\n\r", "data: b\r\r"}, ""},
		"an unfinished":  {[]string{"data: a\n\ndata: b\n"}, []string{"data: a\n\n"}, "data: b\n"},
		"a mark": {
			[]string{"\xef", "\xbb\xbfdata: a\n\n\ufeffdata: b\n\n"},
			[]string{"data: a\n\n", "\ufeffdata: b\n\n"},
			"",
		},
		"half a mark":      {[]string{"\xef\xbbdata: a\n\n"}, []string{"\xef\xbbdata: a\n\n"}, ""},
		"two marks":        {[]string{"\ufeff\ufeffdata: a\n\n"}, []string{"\ufeffdata: a\n\n"}, ""},
		"only empty lines": {[]string{"\n\n"}, []string{"\n", "\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			events, _, rest, err := split(t, 100, tc.chunks...)
			if diff := cmp.Diff(tc.events, events) + cmp.Diff(tc.rest, rest); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, _, _, err := split(t, 8, "data: 123456\n\n"); !errors.Is(err, ErrTooLong) {
		t.Errorf("a long event: %v", err)
	}
}

// What a client has is what the reference has, which testdata/reference.mjs asks.
func TestEventsAreThoseOfTheReference(t *testing.T) {
	data, err := os.ReadFile("testdata/reference.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Stream string
		Events [][2]string
	}
	if err := json.Unmarshal(data, &rows); err != nil || len(rows) == 0 {
		t.Fatal(err)
	}
	for _, row := range rows {
		for how, chunks := range map[string][]string{"whole": {row.Stream}, "byte by byte": strings.Split(row.Stream, "")} {
			_, events, _, err := split(t, 1<<20, chunks...)
			if diff := cmp.Diff(row.Events, append([][2]string{}, events...)); diff != "" || err != nil {
				t.Errorf("%q, %s: %v (-reference +got):\n%s", row.Stream, how, err, diff)
			}
		}
	}
}

// plain is the algorithm, word by word:
// https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation
func plain(stream string) (events [][2]string) {
	stream = strings.TrimPrefix(stream, mark)
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	all := strings.Split(stream, "\n")
	name, data := "", ""
	for _, line := range all[:len(all)-1] {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data = strings.TrimSuffix(data, "\n"); data != "" {
				events = append(events, [2]string{name, data})
			}
			name, data = "", ""
		case field == "event":
			name = value
		case field == "data":
			data += value + "\n"
		}
	}
	return events
}

// FuzzReader holds any stream to: its events are those of the algorithm, however it is
// cut, and other data in them changes nothing else.
func FuzzReader(f *testing.F) {
	f.Add("data: a\r\n\r\n:x\n\n", 3)
	f.Add("\r\r\n\n\r", 1)
	f.Add("\ufeffevent: ping\rdata\n\nid: 1\ndata:{}\ndata: \r\r\n", 1)
	f.Fuzz(func(t *testing.T, stream string, cut int) {
		if len(stream) == 0 {
			return
		}
		cut = min(max(cut, 0), len(stream))
		texts, events, rest, _ := split(t, 1<<20, stream)
		cutTexts, cutEvents, cutRest, _ := split(t, 1<<20, stream[:cut], stream[cut:])
		if diff := cmp.Diff(texts, cutTexts) + cmp.Diff(events, cutEvents) + cmp.Diff(rest, cutRest); diff != "" {
			t.Errorf("cut at %d (-whole +cut):\n%s", cut, diff)
		}
		if diff := cmp.Diff(plain(stream), events); diff != "" {
			t.Errorf("(-algorithm +got):\n%s", diff)
		}
		for _, text := range texts {
			_, was, _, _ := split(t, 1<<20, "\n"+text) // behind the begin, where a mark is none
			other := Event{Text: []byte(text)}.WithData([]byte("x\ny"))
			name := ""
			if len(was) > 0 {
				name = was[0][0]
			} else if again := plain("\n" + strings.TrimRight(text, "\r\n") + "\ndata: a\n\n"); len(again) > 0 {
				name = again[0][0]
			}
			if _, is, _, _ := split(t, 1<<20, "\n"+string(other)); len(is) != 1 || is[0] != [2]string{name, "x\ny"} {
				t.Errorf("%q with other data is %q", text, other)
			}
		}
	})
}

// A stream that is idle keeps little.
func TestALargeEventsBufferIsGivenBack(t *testing.T) {
	r := &Reader{Limit: 1 << 20, Event: func(Event) error { return nil }}
	for _, size := range []int{10, Kept, 10} {
		if _, err := r.Write([]byte("data: " + strings.Repeat("a", size) + "\n\n")); err != nil || cap(r.buffer) > 2*Kept {
			t.Errorf("after an event of %d bytes it keeps %d: %v", size, cap(r.buffer), err)
		}
	}
}

// Nor does one of many lines, of which each may be empty.
func TestAnEventOfManyLinesKeepsNothing(t *testing.T) {
	r := &Reader{Limit: 4 << 20, Event: func(e Event) error {
		if len(e.Data) != 499_999 {
			t.Errorf("%d bytes of data", len(e.Data))
		}
		return nil
	}}
	stream := []byte(strings.Repeat("data\n", 500_000) + "\n")
	heap := func() int {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := heap()
	if _, err := r.Write(stream); err != nil {
		t.Fatal(err)
	}
	if kept := heap() - before; kept > 1<<20 {
		t.Errorf("an idle stream keeps %d bytes", kept)
	}
	runtime.KeepAlive(r)
	runtime.KeepAlive(stream)
}

func TestWhatIsAMessage(t *testing.T) {
	for stream, want := range map[string]string{
		"data: {}\n\n": "{}", "event: message\ndata: [1]\n\n": "[1]", "event\ndata: {}\n\n": "{}",
		"data:  {\ndata: }\n\n":     " {\n}",
		"event: ping\ndata: {}\n\n": "", "event: message \ndata: {}\n\n": "", "data: ping\n\n": "",
		"data: 2026-01-01 [{}]\n\n": "",
		"data: \"{}\"\n\n":          "", "id: 1\ndata:\n\n": "", ": {}\n\n": "", "retry: 1\n\n": "",
	} {
		got := ""
		r := &Reader{Limit: 100, Event: func(e Event) error {
			got += string(e.Message())
			return nil
		}}
		if _, err := r.Write([]byte(stream)); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", stream, got, err, want)
		}
	}
}

func TestOtherDataLeavesTheOtherFields(t *testing.T) {
	for text, want := range map[string]string{
		"id: 7\r\nevent: message\r\ndata: a\r\ndata: b\r\n\r\n": "id: 7\nevent: message\ndata: c\ndata: d\n\n",
		"data\n: comment\ndatas: x\n\n":                         ": comment\ndatas: x\ndata: c\ndata: d\n\n",
		"event: message":                                        "event: message\ndata: c\ndata: d\n\n",
	} {
		if got := string(Event{Text: []byte(text)}.WithData([]byte("c\nd"))); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	const lines = "event: message\ndata: {\ndata: \ndata: }\n\n" // CR is white space of JSON, and ends a line
	if got := string(Message([]byte("{\r\n\r}"))); got != lines {
		t.Errorf("got %q, want %q", got, lines)
	}
}

// An event of usual length takes no memory of its own.
func TestAnEventAllocatesNothing(t *testing.T) {
	n := 0
	r := &Reader{Limit: 1 << 20, Event: func(e Event) error {
		n += len(e.Message())
		return nil
	}}
	stream := []byte("id: 7\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"content\":[]}}\n\n: " +
		"ping\n\n")
	got := testing.AllocsPerRun(100, func() {
		if _, err := r.Write(stream); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 || n == 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkReader(b *testing.B) {
	for name, size := range map[string]int{"120 B": 120, "3 MB": 3 << 20} {
		b.Run(name, func(b *testing.B) {
			stream := []byte("id: 7\nevent: message\ndata: {\"id\":1,\"result\":\"" + strings.Repeat("x", size) + "\"}\n\n")
			r := &Reader{Limit: 16 << 20, Event: func(e Event) error {
				if e.Message() == nil {
					b.Error("no message")
				}
				return nil
			}}
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				for rest := stream; len(rest) > 0; {
					n := min(32<<10, len(rest)) // as httputil.ReverseProxy copies
					_, _ = r.Write(rest[:n])
					rest = rest[n:]
				}
			}
		})
	}
}

// What a client that loses its stream comes back with, and after how long.
func TestWhereAStreamIsResumed(t *testing.T) {
	var got []string
	r := &Reader{Limit: 100, Event: func(e Event) error {
		got = append(got, fmt.Sprintf("%q %v %q", e.ID, e.ID == nil, e.Retry))
		return nil
	}}
	if _,
		err := r.Write(
		[]byte("id: a\r\nretry:20\r\ndata\r\n\r\ndata: x\n\nid: b\nid: c\n\nid\n\nidx: d\nretry\n\n")); err != nil {
		t.Fatal(err)
	}
	want := []string{`"a" false "20"`, `"" true ""`, `"c" false ""`, `"" false ""`, `"" true ""`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

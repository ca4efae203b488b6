package sse

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func split(limit int, chunks ...string) (events []string, rest string, err error) {
	s := &Splitter{Limit: limit, Event: func(event []byte) error {
		events = append(events, string(event))
		return nil
	}}
	for _, chunk := range chunks {
		if _, err := s.Write([]byte(chunk)); err != nil {
			return events, string(s.Rest()), err
		}
	}
	return events, string(s.Rest()), nil
}

func TestSplitter(t *testing.T) {
	for name, tc := range map[string]struct {
		chunks []string
		events []string
		rest   string
	}{
		"one":              {[]string{"data: a\n\n"}, []string{"data: a\n\n"}, ""},
		"two in a chunk":   {[]string{"data: a\n\nid: 1\ndata: b\n\n"}, []string{"data: a\n\n", "id: 1\ndata: b\n\n"}, ""},
		"byte by byte":     {strings.Split("data: a\r\n\r\ndata: b\r\r", ""), []string{"data: a\r\n\r", "data: b\r\r"}, ""},
		"an unfinished":    {[]string{"data: a\n\ndata: b\n"}, []string{"data: a\n\n"}, "data: b\n"},
		"a mark":           {[]string{"\xef", "\xbb\xbfdata: a\n\n\ufeffdata: b\n\n"}, []string{"data: a\n\n", "\ufeffdata: b\n\n"}, ""},
		"two marks":        {[]string{"\ufeff\ufeffdata: a\n\n"}, []string{"\ufeffdata: a\n\n"}, ""},
		"only empty lines": {[]string{"\n\n"}, []string{"\n", "\n"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			events, rest, err := split(100, tc.chunks...)
			if diff := cmp.Diff(tc.events, events) + cmp.Diff(tc.rest, rest); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	if _, _, err := split(8, "data: 123456\n\n"); !errors.Is(err, ErrTooLong) {
		t.Errorf("a long event: %v", err)
	}
}

// A stream that is idle keeps little.
func TestALargeEventsBufferIsGivenBack(t *testing.T) {
	s := &Splitter{Limit: 1 << 20, Event: func([]byte) error { return nil }}
	for _, size := range []int{10, keep, 10} {
		if _, err := s.Write([]byte("data: " + strings.Repeat("a", size) + "\n\n")); err != nil || cap(s.Rest()) > keep {
			t.Errorf("after an event of %d bytes it keeps %d: %v", size, cap(s.Rest()), err)
		}
	}
}

func TestData(t *testing.T) {
	for event, want := range map[string]string{
		"data: a\n\n":                                "a",
		"data:a\ndata: b\r\n\r\n":                    "a\nb",
		"event: message\nid: 7\ndata\n\n":            "",
		": comment\n\n":                              "",
		"database: x\ndata:  indented\nretry: 1\n\n": " indented",
	} {
		if got := string(Data([]byte(event))); got != want {
			t.Errorf("%q: got %q, want %q", event, got, want)
		}
	}
	if got, want := string(WithData([]byte("id: 7\r\nevent: message\r\ndata: a\r\ndata: b\r\n\r\n"), []byte("c\nd"))), "id: 7\nevent: message\ndata: c\ndata: d\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzSplitter holds any stream to: its events and its rest are the stream,
// however it is cut.
func FuzzSplitter(f *testing.F) {
	f.Add("data: a\r\n\r\n:x\n\n", 3)
	f.Add("\r\r\n\n\r", 1)
	f.Fuzz(func(t *testing.T, stream string, cut int) {
		if len(stream) == 0 {
			return
		}
		cut = min(max(cut, 0), len(stream))
		whole, rest, _ := split(1<<20, stream)
		parts, partRest, _ := split(1<<20, stream[:cut], stream[cut:])
		if diff := cmp.Diff(whole, parts) + cmp.Diff(rest, partRest); diff != "" {
			t.Errorf("cut at %d (-whole +cut):\n%s", cut, diff)
		}
		for _, event := range whole {
			data := Data([]byte(event))
			if got := Data(WithData([]byte(event), data)); string(got) != string(data) {
				t.Errorf("%q: data %q became %q", event, data, got)
			}
		}
	})
}

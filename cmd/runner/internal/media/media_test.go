package media

import (
	"net/http"
	"testing"
)

func TestType(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "text/event-stream": Events, "Text/Event-Stream; charset=UTF-8": Events, "application/json;": JSON,
		"application/json; charset": JSON, "application/json; a=1; a=2": JSON, " Application/JSON ;charset=utf-8": JSON, "text/html": "text/html",
	} {
		if got := Type(http.Header{"Content-Type": {value}}); got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestEncoded(t *testing.T) {
	for want, headers := range map[bool][][]string{
		false: {nil, {""}, {"identity"}, {"Identity"}, {"none"}, {"identity, identity"}, {"", "identity"}},
		true:  {{"gzip"}, {"br"}, {"identity, gzip"}, {"identity", "gzip"}, {"anything"}},
	} {
		for _, values := range headers {
			if got := Encoded(http.Header{"Content-Encoding": values}); got != want {
				t.Errorf("%q: %t", values, got)
			}
		}
	}
}

func TestAccepts(t *testing.T) {
	for _, tc := range []struct {
		accept       []string
		takes, named bool
	}{
		{nil, true, false},
		{[]string{""}, true, false},
		{[]string{"*/*"}, true, false},
		{[]string{"text/*;q=0.5"}, true, false},
		{[]string{"application/json"}, false, false},
		{[]string{"application/json, Text/Event-Stream; q=0.9"}, true, true},
		{[]string{"application/json", "text/event-stream"}, true, true},
		{[]string{"application/json, text/event-stream;q=0"}, false, false},
		{[]string{"text/event-stream-of-others"}, false, false},
	} {
		if takes, named := Accepts(tc.accept, Events); takes != tc.takes || named != tc.named {
			t.Errorf("%q: takes %t, names %t", tc.accept, takes, named)
		}
	}
}

func TestText(t *testing.T) {
	if got := string(Text([]byte("\ufeff {}\n"))); got != "{}" {
		t.Errorf("got %q", got)
	}
}

package media

import (
	"net/http"
	"net/url"
	"testing"
)

func TestType(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "text/event-stream": Events, "Text/Event-Stream; charset=UTF-8": Events, "application/json;": JSON,
		"application/json; charset": JSON, "application/json; a=1; a=2": JSON, " Application/JSON ;charset=utf-8": JSON,
		"text/html": "text/html",
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

func TestLeads(t *testing.T) {
	for location, want := range map[string]string{
		"/mcp/?a=b": "/mcp/", "mcp/?a=b": "/mcp/", "http://front:8000/mcp/?a=b": "/mcp/",
		"https://front:8000/mcp/?a=b": "/mcp/", "http://10.0.0.1/mcp/?a=b": "/mcp/",
		"../x?a=b": "/x", "/a/../b?a=b": "/b",
		"": "", "/mcp/": "", "/mcp/?a=c": "", "http://front/mcp/?a=b": "", "//other/mcp/?a=b": "", "/mcp?a=b": "",
		"http://front:8000?a=b": "", "/a%0Ab?a=b": "",
		"/a%2Fb?a=b": "", "mailto:x?a=b": "", "://": "",
	} {
		for status, want := range map[int]string{307: want, 308: want, 301: "", 302: "", 303: "", 200: ""} {
			asked := &http.Request{
				Host: "front:8000",
				URL:  &url.URL{Scheme: "http", Host: "10.0.0.1", Path: "/mcp", RawQuery: "a=b"},
			}
			if got := Leads(&http.Response{
				StatusCode: status, Header: http.Header{"Location": {location}},
				Request: asked,
			}); got != want {
				t.Errorf("%d %q: %q, want %q", status, location, got, want)
			}
		}
	}
}

func TestText(t *testing.T) {
	if got := string(Text([]byte("\ufeff {}\n"))); got != "{}" {
		t.Errorf("got %q", got)
	}
}

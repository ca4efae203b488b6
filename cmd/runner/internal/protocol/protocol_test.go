package protocol

import (
	"strings"
	"testing"
)

// The examples of the specification (2026-07-28, basic/transports/streamable-http, value encoding).
func TestValuesOfHeaders(t *testing.T) {
	for text, value := range map[string]string{
		"":                   "",
		"us-west1":           "us-west1",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
	} {
		if got := Encoded(text); got != value {
			t.Errorf("%q becomes %q, want %q", text, got, value)
		}
		if got, err := Decoded(value); err != nil || got != text {
			t.Errorf("%q becomes %q (%v), want %q", value, got, err, text)
		}
	}
	if _, err := Decoded("=?base64?-?="); err == nil {
		t.Error("what is no base64 is read")
	}
}

// A header's value comes out as it went in.
func FuzzValuesOfHeaders(f *testing.F) {
	for _, seed := range []string{"", "plain", " led", "größe", "a\nb", "=?base64?literal?=", "=?base64?"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := Encoded(text)
		if got, err := Decoded(value); err != nil || got != text {
			t.Errorf("%q becomes %q and %q", text, value, got)
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("%q is no header value", value)
		}
	})
}

func TestAgreed_IsWhatTheClientAskedForIfTheServerHasIt(t *testing.T) {
	for _, tc := range []struct{ asked, most, want string }{
		{"2024-11-05", Legacy, "2024-11-05"},
		{"2025-03-26", Legacy, "2025-03-26"},
		{"2025-06-18", Legacy, "2025-06-18"},
		{Legacy, Legacy, Legacy},
		{Legacy, "2025-03-26", "2025-03-26"},
		{"2024-11-05", "2025-03-26", "2024-11-05"},
		{Modern, Legacy, Legacy},
		{"2024-11-06", Legacy, Legacy},
		{"", Legacy, Legacy},
	} {
		if got := Agreed(tc.asked, tc.most); got != tc.want {
			t.Errorf("a client that asks for %q gets %s of a server of %s", tc.asked, got, tc.most)
		}
	}
}

package printable

import (
	"strings"
	"testing"
)

func TestLineIsFitForAStatusOrATerminal(t *testing.T) {
	const most = 1024
	for name, tc := range map[string]struct{ text, want string }{
		"plain":                    {"Ünïcode 1.0 ✓", "Ünïcode 1.0 ✓"},
		"too long":                 {strings.Repeat("ä", most), strings.Repeat("ä", most/2)},
		"half a character stays":   {"a" + strings.Repeat("ä", most), "a" + strings.Repeat("ä", most/2-1)},
		"escapes and line ends":    {"e\x1b[31mch\no\x00\x7f\n", "e[31mch o"},
		"turned around":            {"\u202eohce\u2066\u200f", "ohce"},
		"hidden":                   {"ec\u200b\u2060h\ufeffo\u2028", "echo"},
		"not text":                 {"\xff\xfeecho", "echo"},
		"nothing but what may not": {"\u202e\u200b", ""},
	} {
		if got := Line(tc.text, most); got != tc.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

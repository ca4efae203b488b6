package virtual

import (
	"strings"
	"testing"
)

func TestNamesAreThoseThatClientsTake(t *testing.T) {
	for _, tc := range []struct{ prefix, own, portable string }{
		{"git_", "log", "git_log"},
		{"git-", "log", "git-log"},
		{"git.", "log.all", "git_log_all"},
		{"", "log", "log"},
		{"", "größe", "gr__e"},
		{"", "9lives", "_9lives"},
		{"", "-x", "_-x"},
		{"", ".x", "_x"},
		{"", "_x", "_x"},
		{"7zip_", "x", "_7zip_x"},
		{"a_", "b/c d\n\x00", "a_b_c_d__"},
		{"a_", "\xff\xfe", "a___"},
	} {
		m := Member{Prefix: tc.prefix}
		if got := m.full(tc.own, false); got != tc.portable {
			t.Errorf("%q and %q are %q, want %q", tc.prefix, tc.own, got, tc.portable)
		}
		if got := m.full(tc.own, true); got != tc.prefix+tc.own {
			t.Errorf("%q and %q are verbatim %q", tc.prefix, tc.own, got)
		}
		if !m.mayName(tc.portable, false) || !m.mayName(tc.prefix+tc.own, true) {
			t.Errorf("a member of the prefix %q is not looked at for %q", tc.prefix, tc.portable)
		}
	}
}

// Every name is portable, whatever a member has, and is a member's by its prefix.
func FuzzPortable(f *testing.F) {
	f.Add("git_", "log")
	f.Add("", "\xffä")
	f.Add("9", "")
	f.Fuzz(func(t *testing.T, prefix, own string) {
		m := Member{Prefix: prefix}
		name := m.full(own, false)
		if name == "" && prefix+own == "" {
			return
		}
		first := rune(name[0])
		if first != '_' && !letter(first) || strings.ContainsFunc(name, func(r rune) bool { return !plain(r) }) {
			t.Errorf("%q and %q are %q", prefix, own, name)
		}
	})
}

func TestAFilterChoosesTools(t *testing.T) {
	for _, tc := range []struct {
		pattern, name string
		is            bool
	}{
		{"get", "get", true},
		{"get", "gets", false},
		{"get*", "get", true},
		{"get*", "get_all", true},
		{"*delete*", "x_delete_y", true},
		{"*delete*", "delete", true},
		{"*delete*", "delet", false},
		{"a*b*c", "abc", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "acb", false},
		{"a*a", "a", false},
		{"a*a", "aa", true},
		{"*", "", true},
		{"**", "x", true},
		{"a**b", "ab", true},
		{"", "x", false},
		{"*ab*ab", "ab", false},
		{"a.c", "abc", false},
	} {
		if got := matches(tc.pattern, tc.name); got != tc.is {
			t.Errorf("%q is of %q: %v", tc.name, tc.pattern, got)
		}
	}
	allow, exclude := Member{Allow: []string{"get_*", "one"}}, Member{Exclude: []string{"*delete*"}}
	for name, want := range map[string][3]bool{
		"get_x": {true, true, true}, "one": {true, true, true}, "two": {false, true, true}, "get_delete": {true, false, true},
	} {
		if got := [3]bool{allow.offers(name), exclude.offers(name), (Member{}).offers(name)}; got != want {
			t.Errorf("%s is offered %v, want %v", name, got, want)
		}
	}
}

package virtual

import (
	"slices"
	"strings"
)

// maxName is the longest name that is listed, in bytes.
const maxName = 1 << 10

// full is the name under which a member's item is listed, of which own is the member's.
func (m Member) full(own string, verbatim bool) string {
	if verbatim {
		return m.Prefix + own
	}
	return portable(m.Prefix + own)
}

// portable is a name that every client takes: a letter or an underscore, and then letters, digits, underscores and
// hyphens. Any other character becomes an underscore.
func portable(name string) string {
	if name == "" {
		return ""
	}
	var b strings.Builder
	if first := name[0]; first != '_' && !letter(rune(first)) && plain(rune(first)) {
		b.WriteByte('_') // a digit or a hyphen stays behind it
	}
	for _, r := range name {
		if !plain(r) {
			r = '_'
		}
		b.WriteRune(r)
	}
	return b.String()
}

func letter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

func plain(r rune) bool { return letter(r) || r >= '0' && r <= '9' || r == '_' || r == '-' }

// mayName reports whether a name may be one of a member's, by its prefix.
func (m Member) mayName(name string, verbatim bool) bool {
	return strings.HasPrefix(name, m.full("", verbatim))
}

// offers reports whether a tool of a member is to be listed.
func (m Member) offers(tool string) bool {
	is := func(pattern string) bool { return matches(pattern, tool) }
	if len(m.Allow) > 0 {
		return slices.ContainsFunc(m.Allow, is)
	}
	return !slices.ContainsFunc(m.Exclude, is)
}

// matches reports whether a name is of a pattern, in which * stands for any text.
func matches(pattern, name string) bool {
	parts := strings.Split(pattern, "*")
	rest, ok := strings.CutPrefix(name, parts[0])
	if len(parts) == 1 || !ok {
		return ok && rest == ""
	}
	last := parts[len(parts)-1]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(rest, part)
		if at < 0 {
			return false
		}
		rest = rest[at+len(part):]
	}
	return strings.HasSuffix(rest, last)
}

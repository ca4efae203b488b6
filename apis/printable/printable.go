// Package printable makes texts of others fit to be shown.
package printable

import (
	"strings"
	"unicode"
)

// Text is a text of others as it may stand in conditions, Events, logs and a terminal. Pods, backends, runners and
// users write what ends there, and a control character or a mark of direction would hide or forge what stands beside
// it: these go. Lines stay lines. A byte that is no text becomes U+FFFD, because one of them would refuse a whole
// status.
func Text(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return -1
	}, strings.ToValidUTF8(text, "\uFFFD"))
}

// Line is a text of others in one line of at most that many bytes, without what is no text.
func Line(text string, most int) string {
	// What goes leaves place for what stays; what follows is not read, however long it is.
	text = strings.ToValidUTF8(text[:min(len(text), 4*most)], "")
	text = strings.TrimSpace(Text(strings.NewReplacer("\n", " ", "\uFFFD", "").Replace(text)))
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

package ownership

import (
	"strconv"
	"strings"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Notation writes a field of managedFields in the notation of Path, which ParsePath reads back. Unlike the API
// server's notation, it distinguishes the key of a map from the field of a struct.
func Notation(field fieldpath.Path) string {
	var text strings.Builder
	for _, element := range field {
		step := NotationOf(element)
		if text.Len() > 0 && step[0] != '[' {
			text.WriteByte('.')
		}
		text.WriteString(step)
	}
	return text.String()
}

// NotationOf writes one step of a field: a name, or brackets.
func NotationOf(element fieldpath.PathElement) string {
	switch {
	case element.FieldName != nil:
		name := *element.FieldName
		if isBare(name) {
			return name
		}
		return "[" + strconv.Quote(name) + "]"
	case element.Key != nil:
		keys := make([]string, 0, len(*element.Key))
		for _, key := range *element.Key {
			keys = append(keys, key.Name+"="+notationOfValue(key.Value, true))
		}
		return "[" + strings.Join(keys, ",") + "]"
	case element.Value != nil:
		return "[=" + notationOfValue(*element.Value, false) + "]"
	}
	return element.String()
}

// isBare reports whether a text needs no quotes.
func isBare(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool { return r > 'z' || !isName(byte(r)) }) < 0
}

// notationOfValue quotes a text, unless it is bare and reads as itself.
func notationOfValue(v value.Value, bare bool) string {
	if !v.IsString() {
		return value.ToString(v)
	}
	text := v.AsString()
	if _, err := strconv.ParseInt(text, 10, 64); bare && isBare(text) && err != nil && text != "true" && text != "false" {
		return text
	}
	return strconv.Quote(text)
}

package jsonrpc

import (
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// SameID reports whether two ids, or two progress tokens, are the same.
func SameID(a, b jsontext.Value) bool { return IDKey(a) == IDKey(b) }

// IDKey is an id, or a progress token, as a key that is the same however a peer spells it: a request has the id 7, and
// its answer 7.0 or "7" where a library reads each number as a float, or each id as a text. Integers of any length
// differ from each other.
func IDKey(id jsontext.Value) string {
	switch id.Kind() { //nolint:exhaustive // nothing else has more than one spelling
	case '0':
		return number(strings.TrimSpace(string(id)))
	case '"':
		text, _ := jsontext.AppendUnquote(nil, id) //nolint:errcheck // what is not UTF-8 becomes U+FFFD
		if digits := strings.TrimPrefix(string(text), "-"); digits != "" && strings.Trim(digits, "0123456789.") == "" &&
			jsontext.Value(text).IsValid() {
			return number(string(text))
		}
		return `"` + string(text)
	}
	return string(id)
}

// number is a number of JSON, as an integer if it is one.
func number(text string) string {
	if strings.ContainsAny(text, "eE") {
		if n, err := strconv.ParseFloat(text, 64); err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return strconv.FormatFloat(n, 'f', -1, 64)
		}
		return text
	}
	whole, fraction, _ := strings.Cut(text, ".")
	switch {
	case strings.Trim(fraction, "0") != "":
		return text
	case whole == "-0":
		return "0"
	}
	return whole
}

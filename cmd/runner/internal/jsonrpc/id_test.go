package jsonrpc

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// An answer is matched to its request, a notification to its token, and a cancellation to its call by this comparison
// alone.
func TestIDsAreTheSameHoweverTheyAreSpelled(t *testing.T) {
	for name, tc := range map[string]struct {
		a, b string
		same bool
	}{
		"a number and itself":                {`7`, `7`, true},
		"a number and a text":                {`7`, `"7"`, true},
		"a number and a float":               {`7`, `7.0`, true},
		"a number and a float as text":       {`7`, `"7.00"`, true},
		"a number with an exponent":          {`100`, `1e+2`, true},
		"a negative number and a text":       {`-7`, `"-7"`, true},
		"zeros":                              {`0`, `-0.0`, true},
		"space around":                       {` 7`, `7 `, true},
		"an escaped text":                    {`"aé"`, `"\u0061\u00e9"`, true},
		"a digit as an escape":               {`7`, `"\u0037"`, true},
		"twenty digits":                      {`12345678901234567890`, `"12345678901234567890"`, true},
		"none":                               {``, ``, true},
		"other numbers":                      {`7`, `8`, false},
		"integers that are one as floats":    {`9007199254740993`, `9007199254740992`, false},
		"a long float":                       {`9007199254740993`, `9007199254740992.0`, false},
		"a fraction":                         {`7`, `7.5`, false},
		"a text with zeros in front":         {`7`, `"007"`, false},
		"a text in another base":             {`16`, `"0x10"`, false},
		"a text with an exponent, as of hex": {`100000`, `"1e5"`, false},
		"a text with space":                  {`7`, `" 7"`, false},
		"texts by case":                      {`"a"`, `"A"`, false},
		"a text that says null":              {`null`, `"null"`, false},
		"the empty text and none":            {``, `""`, false},
		"a text of a point":                  {`0`, `"."`, false},
	} {
		if a, b := jsontext.Value(tc.a), jsontext.Value(tc.b); SameID(a, b) != tc.same || SameID(b, a) != tc.same {
			t.Errorf("%s: %s and %s: same is %v", name, a, b, !tc.same)
		}
	}
}

// A caller's or a server's id becomes a key before anybody has looked at it.
func FuzzIDKey(f *testing.F) {
	for _, id := range []string{`7`, `7.0`, `"7"`, `1e2`, `-0`, `"a\u0061"`, `null`, `{}`, ``, `"`, `-`, `.`, "\"\xff\""} {
		f.Add([]byte(id))
	}
	f.Fuzz(func(t *testing.T, id []byte) {
		if !SameID(id, id) {
			t.Errorf("%q is not the same as itself", id)
		}
	})
}

package conditions

import (
	"slices"
	"strings"
)

// SameWords reports whether two messages say the same but for their numbers: the
// port of a broken connection, the address of a webhook's pod, or the number of
// a request, each of which is a word with a digit in it.
func SameWords(a, b string) bool {
	return slices.Equal(wordsWithoutNumbers(a), wordsWithoutNumbers(b))
}

func wordsWithoutNumbers(message string) []string {
	return slices.DeleteFunc(strings.Fields(message), func(word string) bool { return strings.ContainsAny(word, "0123456789") })
}

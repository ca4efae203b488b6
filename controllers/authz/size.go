package authz

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// largest is how many bytes the text of a policy may stand for, many times what the API
// takes of it.
const largest = 256 << 10

// token is a word of Cedar: a string, a comment, a name, or one character of the rest.
var token = regexp.MustCompile(`(?s)"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|[A-Za-z_0-9]+|\S`)

// tooLarge is an error if the text stands for far more than is written. Cedar reads x has
// a.b as x has a && x.a has b, so each such has repeats what is before it: forty of them
// in one another, in 500 bytes, stand for more than any memory holds.
func tooLarge(name, text string) error {
	at := outgrows(text)
	if at < 0 {
		return nil
	}
	before := text[:at]
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return fmt.Errorf("policy %q, line %d, column %d: the text stands for more than %d KiB: name fewer attributes after \"has\"", name, line, column, largest>>10)
}

// expression is what is read of one, within a pair of brackets or outside all. A has may
// repeat what is in operand, and what is in done is before it.
type expression struct {
	done, operand int
}

func (e *expression) size() int { return e.done + e.operand }

// outgrows is the offset of the word with which the text stands for more than may be, -1
// for none. It takes more for repeated than is, never less.
func outgrows(text string) int {
	words := split(text)
	open := []expression{{}}
	for i := range words {
		last := &open[len(open)-1]
		switch word := words[i].text; word {
		case "(", "[", "{":
			open = append(open, expression{})
		case ")", "]", "}":
			if len(open) > 1 {
				open = open[:len(open)-1]
				open[len(open)-1].operand += last.size() + len("()")
			}
		case "&", "|", ",", ";", "if", "then", "else", "when", "unless":
			*last = expression{done: last.size() + len(word)}
		case "has":
			attributes, length := path(words[i+1:])
			last.operand = attributes * (last.operand + length)
		default:
			last.operand += len(word)
		}
		if open[len(open)-1].size() > largest {
			return words[i].at
		}
	}
	return -1
}

// path counts the attributes after a has, and the bytes of their names. The last of a
// path that is not whole counts too.
func path(words []word) (attributes, length int) {
	for i := 0; i < len(words); i += 2 {
		attributes, length = attributes+1, length+len(words[i].text)+len(" has ")
		if i+1 >= len(words) || words[i+1].text != "." {
			break
		}
	}
	return max(attributes, 1), length
}

type word struct {
	text string
	at   int
}

// split is the words of a text without its comments.
func split(text string) []word {
	var all []word
	for _, at := range token.FindAllStringIndex(text, -1) {
		if w := text[at[0]:at[1]]; !strings.HasPrefix(w, "//") && !strings.HasPrefix(w, "/*") {
			all = append(all, word{w, at[0]})
		}
	}
	return all
}

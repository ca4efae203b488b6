package authz

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

const (
	// largest is how many bytes the text of a policy may stand for, many times what the API takes of it.
	largest = 256 << 10
	// deepest is how deep policies and entities may nest. The parser calls itself for each
	// level, ten functions deep: four thousand levels, in 16 KiB of text, take 50 MiB.
	deepest = 100
	// longestChain is how many dots and signs of arithmetic one expression may have: each of them nests what is before it.
	longestChain = 500
)

// parsing is held by who parses a text: what the parser makes of it takes fifty times as much
// memory, and what it calls itself for takes some MiB of stack.
var parsing sync.Mutex

// token is a word of Cedar: a string, a comment, a name, or one character of the rest.
var token = regexp.MustCompile(`(?s)"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|[A-Za-z_0-9]+|\S`)

// tooLarge is an error if the text nests too deep, or stands for far more than is written. Cedar reads x has a.b as x
// has a && x.a has b, so each such has repeats what is before it: forty of them in one another, in 500 bytes, stand
// for more than any memory holds. It is asked before the text is parsed.
func tooLarge(name, text string) error {
	words := split(text)
	if at := outgrows(words); at >= 0 {
		return fmt.Errorf("%s: the text stands for more than %d KiB: name fewer attributes after \"has\"",
			offset(name, text[:at]), largest>>10)
	}
	if at := nestsTooDeep(words); at >= 0 {
		return fmt.Errorf("%s: the text nests more than %d levels deep, or has more than %d dots and signs in a row: write "+
			"several statements",
			offset(name, text[:at]), deepest, longestChain)
	}
	return nil
}

func offset(name, before string) string {
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("policy %q, line %d, column %d", name, line, column)
}

// nestsTooDeep is the offset of the word that is deeper than may be, -1 for none. A level is a bracket, an if, which
// ends with what it is in, and a sign before another. A chain are the dots and signs of one expression.
func nestsTooDeep(words []word) int {
	type scope struct{ level, chain int }
	var open []scope // for each bracket, what was before it
	level, chain, signs := 0, 0, 0
	for i := range words {
		switch words[i].text {
		case "(", "[", "{":
			open = append(open, scope{level, chain})
			level, chain = level+1, 0
		case ")", "]", "}":
			if len(open) > 0 {
				level, chain, open = open[len(open)-1].level, open[len(open)-1].chain, open[:len(open)-1]
			}
		case ",", ";":
			level, chain = 0, 0
			if len(open) > 0 {
				level = open[len(open)-1].level + 1
			}
		case "if":
			level++
		case "&", "|", "then", "else", "when", "unless":
			chain = 0
		case ".", "+", "*":
			chain++
		case "!", "-":
			chain++
			signs++
			if level+signs > deepest || chain > longestChain {
				return words[i].at
			}
			continue
		}
		signs = 0
		if level > deepest || chain > longestChain {
			return words[i].at
		}
	}
	return -1
}

// expression is what is read of one, within a pair of brackets or outside all. A has may
// repeat what is in operand, and what is in done is before it.
type expression struct {
	done, operand int
}

func (e *expression) size() int { return e.done + e.operand }

// outgrows is the offset of the word with which the text stands for more than may be, -1
// for none. It takes more for repeated than is, never less.
func outgrows(words []word) int {
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

func split(text string) []word {
	var all []word
	for _, at := range token.FindAllStringIndex(text, -1) {
		if w := text[at[0]:at[1]]; !strings.HasPrefix(w, "//") && !strings.HasPrefix(w, "/*") {
			all = append(all, word{w, at[0]})
		}
	}
	return all
}

package jsonrpc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Object are the members of an object, as they stand in its text.
type Object map[string]jsontext.Value

// decoders are used again: one is larger than most messages.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// Lenient has values read and written that servers send and JSON should not have: text that is not UTF-8 or breaks off
// in the middle of a character, as where it is cut, becomes U+FFFD, and of members that occur twice both stay.
var Lenient = json.JoinOptions(jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))

func decoderOf(text []byte, options ...jsontext.Options) (decoder *jsontext.Decoder, done func()) {
	decoder = decoders.Get().(*jsontext.Decoder) //nolint:forcetypeassert // nothing else is in it
	decoder.Reset(bytes.NewBuffer(text), options...)
	return decoder, func() {
		decoder.Reset(strings.NewReader("")) // it would hold the text
		decoders.Put(decoder)
	}
}

// ended is an error where more follows.
func ended(decoder *jsontext.Decoder) error {
	switch _, err := decoder.ReadToken(); {
	case err == nil:
		return errors.New("there is more behind the message")
	case !errors.Is(err, io.EOF):
		return err
	}
	return nil
}

// Read reads an object of at most MaxMembers members. It refuses names that differ from the given ones in case only:
// some readers take those for the same. The values are parts of text.
func Read(text jsontext.Value, names ...string) (Object, error) {
	decoder, done := decoderOf(text)
	defer done()
	all, err := read(decoder, text, false)
	return named(all, err, names)
}

// ReadAnswer is Read of what a server has said, which has run by then. It is as strict about the object's own members,
// and lenient about what is in them.
func ReadAnswer(text jsontext.Value, names ...string) (Object, error) {
	decoder, done := decoderOf(text, Lenient)
	defer done()
	all, err := read(decoder, text, false)
	return named(all, err, names)
}

// named refuses names that differ from the given ones in case only.
func named(all Object, err error, names []string) (Object, error) {
	if err != nil {
		return nil, fmt.Errorf("reading the message: %w", err)
	}
	for name := range all {
		folded := slices.IndexFunc(names, func(known string) bool { return strings.EqualFold(known, name) })
		if folded >= 0 && names[folded] != name {
			return nil, fmt.Errorf("the message has the member %q: write %q", name, names[folded])
		}
	}
	return all, nil
}

// Members are the members of a value that is an object, none if it is not. The value is a part of a message that has
// been read.
func Members(value jsontext.Value) Object {
	decoder, done := decoderOf(value, Lenient)
	defer done()
	all, err := read(decoder, value, true)
	if err != nil {
		return Object{}
	}
	return all
}

var errNoObject = errors.New("the message is not an object")

// read reads an object. Of members that occur twice it takes the last, as most readers do, if they may.
func read(decoder *jsontext.Decoder, text jsontext.Value, lenient bool) (Object, error) {
	begin, err := decoder.ReadToken()
	switch {
	case err != nil:
		return nil, err
	case begin.Kind() != '{':
		return nil, errNoObject
	}
	all := Object{}
	for decoder.PeekKind() != '}' {
		if len(all) == MaxMembers {
			return nil, fmt.Errorf("it has an object of more than %d members", MaxMembers)
		}
		quoted, err := decoder.ReadValue()
		if err != nil {
			return nil, err
		}
		name, known := unquoted[string(quoted)]
		if !known {
			text, err := jsontext.AppendUnquote(nil, quoted)
			if err != nil && !lenient {
				return nil, err
			}
			name = string(text)
		}
		if _, twice := all[name]; twice && !lenient {
			return nil, fmt.Errorf("it has the member %.100q twice", name)
		}
		value, err := decoder.ReadValue()
		if err != nil {
			return nil, err
		}
		end := decoder.InputOffset()
		all[name] = text[end-int64(len(value)) : end : end]
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, err
	}
	return all, ended(decoder)
}

// Text is a member that is a text, empty if there is none or it is null.
func (o Object) Text(name string) (string, error) {
	value, told := o[name]
	switch {
	case !told || value.Kind() == 'n':
		return "", nil
	case value.Kind() != '"':
		return "", fmt.Errorf("reading the message: %s is not a text", name)
	}
	text, _ := jsontext.AppendUnquote(nil, value) //nolint:errcheck // what is not UTF-8 becomes U+FFFD
	return string(text), nil
}

// Joined is the object as JSON, its names in order, in one copy of what it has. Members without a value are left out.
func (o Object) Joined() jsontext.Value {
	size := len("{}")
	for name, value := range o {
		size += len(name) + len(value) + len(`"":,`)
	}
	text := append(make(jsontext.Value, 0, size), '{')
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if len(o[name]) == 0 {
			continue
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text, _ = jsontext.AppendQuote(text, name) //nolint:errcheck // what is not UTF-8 becomes U+FFFD
		text = append(append(text, ':'), o[name]...)
	}
	return append(text, '}')
}

// Bounded is an error for a caller's body with more names and values than MaxValues. It may be none of JSON.
func Bounded(body []byte) error {
	if len(body) > MaxValues && Exceeds(body, MaxValues) {
		return fmt.Errorf("the body has more than %d names and values, or cannot be read", MaxValues)
	}
	return nil
}

// Exceeds reports whether there are more names and values in a text than most.
func Exceeds(text jsontext.Value, most int) bool {
	bound := 1
	for _, before := range []string{",", ":", "[", "{"} { // what a name or a value stands behind
		bound += bytes.Count(text, []byte(before))
	}
	if bound <= most {
		return false
	}
	// Some of these are in texts.
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	for count := 0; count <= most; {
		token, err := decoder.ReadToken()
		if err != nil {
			return !errors.Is(err, io.EOF)
		}
		if kind := token.Kind(); kind != ']' && kind != '}' {
			count++
		}
	}
	return true
}

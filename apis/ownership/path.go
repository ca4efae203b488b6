package ownership

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Path names a field and everything below it, in the terms in which the API server tracks ownership
// (https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management):
//
//	spec.replicas                      a field of a struct
//	metadata.labels["example.com/a"]   a key of a map
//	spec.ports[port=80,protocol=TCP]   the item of a keyed list
//	metadata.finalizers[="x/y"]        the member of a set
//	spec.containers[*].image           any key, item or member
//
// The zero Path covers the whole object.
type Path struct {
	steps []step
	text  string
}

// step matches one path element; any matches all of them.
type step struct {
	any     bool
	element fieldpath.PathElement
}

// ParsePath reads the notation described at Path. The error names the first wrong character, counted from zero.
func ParsePath(text string) (Path, error) {
	if !utf8.ValidString(text) {
		return Path{}, fmt.Errorf("path %q is not UTF-8", text)
	}
	p := parser{text: text}
	path := Path{text: text}
	for !p.done() {
		s, err := p.step(len(path.steps) == 0)
		if err != nil {
			return Path{}, fmt.Errorf("path %q at character %d: %w", text, p.at, err)
		}
		path.steps = append(path.steps, s)
	}
	if len(path.steps) == 0 {
		return Path{}, fmt.Errorf("path %q is empty: write for example spec.replicas", text)
	}
	return path, nil
}

// MustPath is ParsePath for tables in code; it panics on an invalid path.
func MustPath(text string) Path {
	path, err := ParsePath(text)
	if err != nil {
		panic(err)
	}
	return path
}

// Paths is MustPath for several paths.
func Paths(texts ...string) []Path {
	paths := make([]Path, 0, len(texts))
	for _, text := range texts {
		paths = append(paths, MustPath(text))
	}
	return paths
}

// String is the text the path was read from.
func (p Path) String() string { return p.text }

// Keys are the path's steps as in managedFields
// (https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.36/#fieldsv1-v1-meta), for example f:spec and
// k:{"port":80}, or * for any.
func (p Path) Keys() ([]string, error) {
	keys := make([]string, 0, len(p.steps))
	for _, s := range p.steps {
		if s.any {
			keys = append(keys, "*")
			continue
		}
		key, err := fieldpath.SerializePathElement(s.element)
		if err != nil {
			return nil, fmt.Errorf("writing path %q as managedFields do: %w", p.text, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Covers reports whether field is the path's field or lies below it.
func (p Path) Covers(field fieldpath.Path) bool {
	if len(field) < len(p.steps) {
		return false
	}
	for i, s := range p.steps {
		if !s.any && !s.element.Equals(field[i]) {
			return false
		}
	}
	return true
}

// Overlaps reports whether some field is covered by both paths.
func (p Path) Overlaps(other Path) bool {
	for i := range min(len(p.steps), len(other.steps)) {
		a, b := p.steps[i], other.steps[i]
		if !a.any && !b.any && !a.element.Equals(b.element) {
			return false
		}
	}
	return true
}

type parser struct {
	text string
	at   int
}

func (p *parser) done() bool { return p.at >= len(p.text) }

func (p *parser) step(first bool) (step, error) {
	switch {
	case p.text[p.at] == '[':
		return p.bracket()
	case p.text[p.at] == '.' && !first:
		p.at++
		return p.name()
	case first:
		return p.name()
	}
	return step{}, fmt.Errorf("expected . or [, found %q", p.text[p.at])
}

func (p *parser) name() (step, error) {
	start := p.at
	for !p.done() && isName(p.text[p.at]) {
		p.at++
	}
	if p.at == start {
		return step{}, fmt.Errorf("expected a field name")
	}
	return step{element: fieldpath.FieldNameElement(p.text[start:p.at])}, nil
}

func isName(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (p *parser) bracket() (step, error) {
	p.at++
	if p.done() {
		return step{}, fmt.Errorf("missing ]")
	}
	switch p.text[p.at] {
	case '*':
		p.at++
		return step{any: true}, p.expect(']')
	case '=':
		p.at++
		v, err := p.value()
		if err != nil {
			return step{}, err
		}
		return step{element: fieldpath.ValueElement(v)}, p.expect(']')
	case '"':
		key, err := p.quoted()
		if err != nil {
			return step{}, err
		}
		return step{element: fieldpath.FieldNameElement(key)}, p.expect(']')
	}
	return p.key()
}

func (p *parser) key() (step, error) {
	var fields value.FieldList
	for {
		name, err := p.name()
		if err != nil {
			return step{}, err
		}
		if err := p.expect('='); err != nil {
			return step{}, err
		}
		v, err := p.value()
		if err != nil {
			return step{}, err
		}
		fields = append(fields, value.Field{Name: *name.element.FieldName, Value: v})
		if !p.done() && p.text[p.at] == ',' {
			p.at++
			continue
		}
		fields.Sort()
		return step{element: fieldpath.KeyElement(fields...)}, p.expect(']')
	}
}

// value reads a quoted string, true, false, an integer, or a bare string that ends at a comma or bracket.
func (p *parser) value() (value.Value, error) {
	if !p.done() && p.text[p.at] == '"' {
		text, err := p.quoted()
		return value.NewValueInterface(text), err
	}
	end := strings.IndexAny(p.text[p.at:], ",]")
	if end <= 0 {
		return nil, fmt.Errorf("expected a value")
	}
	text := p.text[p.at : p.at+end]
	p.at += end
	if text == "true" || text == "false" {
		return value.NewValueInterface(text == "true"), nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return value.NewValueInterface(n), nil
	}
	return value.NewValueInterface(text), nil
}

func (p *parser) quoted() (string, error) {
	prefix, err := strconv.QuotedPrefix(p.text[p.at:])
	if err != nil {
		return "", fmt.Errorf("expected a quoted string")
	}
	text, err := strconv.Unquote(prefix)
	if err != nil || !utf8.ValidString(text) {
		return "", fmt.Errorf("expected a quoted string of UTF-8")
	}
	p.at += len(prefix)
	return text, nil
}

func (p *parser) expect(c byte) error {
	if p.done() || p.text[p.at] != c {
		return fmt.Errorf("missing %c", c)
	}
	p.at++
	return nil
}

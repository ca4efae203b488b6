package authz

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/go-json-experiment/json/jsontext"
)

// argument is the prefix of the attributes that are arguments.
const argument = "arg_"

// Many servers match the names of arguments without case: those that read them with Go's encoding/json, with the
// defaults of ASP.NET, or with Jackson where it is told to; Go's newer package also passes over dashes and underscores.
// Cedar compares names byte for byte. So a policy about arg_path would not see "Path", which such a server takes for
// "path".

// names are those that policies look at, by how they fold.
type names map[string][]mention

// mention are names that fold alike, as one policy writes them.
type mention struct {
	// policy is its index in the list, or everyPolicy where entities mention the names.
	policy  int
	written []string
}

const everyPolicy = -1

func (n names) add(policy int, name string) {
	folded := fold(name)
	for i, m := range n[folded] {
		if m.policy == policy {
			n[folded][i].written = append(m.written, name)
			return
		}
	}
	n[folded] = append(n[folded], mention{policy, []string{name}})
}

// fold is a name as a server sees it that passes over case, dashes and underscores.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return uncased(r)
	}, name)
}

// uncased is the same for all letters that differ in case only, by simple folding and by Java's rule.
func uncased(r rune) rune { return unicode.ToLower(unicode.ToUpper(r)) }

// mentions notes which names of arguments the policies look at: top are arguments, inner are members of objects within
// them.
func (p *Policies) mentions() error {
	p.top, p.inner = names{}, names{}
	for i := range p.all {
		text, err := p.all[i].policy.MarshalJSON()
		if err != nil {
			return fmt.Errorf("policy %q: %w", p.all[i].name, err)
		}
		var statement struct {
			Conditions any `json:"conditions"`
		}
		if err := json.Unmarshal(text, &statement); err != nil {
			return fmt.Errorf("policy %q: %w", p.all[i].name, err)
		}
		p.mentionedBy(i, statement.Conditions)
		p.all[i].all = readsAll(statement.Conditions)
		p.all[i].fixed = fixed((*ast.Policy)(p.all[i].policy.AST()).Resource, statement.Conditions)
	}
	for _, entity := range p.entities {
		for _, own := range []types.Record{entity.Attributes, entity.Tags} {
			for value := range own.Values() {
				p.membersOf(value)
			}
		}
	}
	return nil
}

// mentionedBy notes the names in a part of a policy, in Cedar's JSON
// (https://docs.cedarpolicy.com/policies/json-format.html), and reports whether its value is, or is in, an argument.
func (p *Policies) mentionedBy(policy int, part any) (within bool) {
	switch part := part.(type) {
	case []any:
		for _, each := range part {
			within = p.mentionedBy(policy, each) || within
		}
	case map[string]any:
		for _, each := range part {
			within = p.mentionedBy(policy, each) || within
		}
		if record, ok := part["Record"].(map[string]any); ok { // a value that arguments are compared with
			for name := range record {
				p.mention(policy, name, true)
			}
		}
		if name, ok := part["attr"].(string); ok {
			p.mention(policy, name, within)
			within = within || strings.HasPrefix(name, argument)
		}
	}
	return within
}

// readsAll reports whether a part of a policy, in Cedar's JSON, reads the context but by the names of its attributes.
func readsAll(part any) bool {
	switch part := part.(type) {
	case []any:
		return slices.ContainsFunc(part, readsAll)
	case map[string]any:
		if part["Var"] == "context" {
			return true
		}
		if _, named := part["attr"].(string); named && isContext(part["left"]) {
			return false
		}
		for _, each := range part {
			if readsAll(each) {
				return true
			}
		}
	}
	return false
}

func isContext(part any) bool {
	variable, ok := part.(map[string]any)
	return ok && variable["Var"] == "context"
}

// reads reports whether a policy that a request may match looks at an argument.
func (p *Policies) reads(name string, request cedar.Request) bool {
	if slices.ContainsFunc(p.all, func(n named) bool { return n.all && !n.misses(request) }) {
		return true
	}
	return slices.ContainsFunc(p.top[fold(name)], func(m mention) bool {
		return slices.Contains(m.written, name) && !p.all[m.policy].misses(request)
	})
}

func (p *Policies) mention(policy int, name string, within bool) {
	if of, ok := strings.CutPrefix(name, argument); ok {
		p.top.add(policy, of)
	}
	if within {
		p.inner.add(policy, name)
	}
}

// membersOf notes the names in a value of the entities, with which policies may compare arguments.
func (p *Policies) membersOf(value types.Value) {
	switch v := value.(type) {
	case types.Set:
		for element := range v.All() {
			p.membersOf(element)
		}
	case types.Record:
		for name, element := range v.All() {
			p.mention(everyPolicy, string(name), true)
			p.membersOf(element)
		}
	}
}

// decoders are used again: one is larger than most arguments.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

func putBack(decoder *jsontext.Decoder) {
	decoder.Reset(strings.NewReader("")) // it would hold what it has read
	decoders.Put(decoder)
}

// ambiguous returns why arguments may be others for the server than for the policies; "" if they are not.
func (p *Policies) ambiguous(arguments jsontext.Value, request cedar.Request) string {
	if len(arguments) == 0 {
		return ""
	}
	decoder := decoders.Get().(*jsontext.Decoder) //nolint:forcetypeassert // nothing else is in it
	decoder.Reset(bytes.NewBuffer(arguments))     // which it reads where it is
	defer putBack(decoder)
	var seen []map[string]string // one for each object or array that is open, nil for an array
	for {
		token, err := decoder.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return ""
		case err != nil:
			return err.Error()
		}
		switch token.Kind() { //nolint:exhaustive // scalars but texts have no name
		case '{':
			seen = append(seen, map[string]string{})
		case '[':
			seen = append(seen, nil)
		case '}', ']':
			seen = seen[:len(seen)-1]
		case '"':
			if kind, count := decoder.StackIndex(decoder.StackDepth()); kind != '{' || count%2 == 0 {
				continue // a value
			}
			name, mentioned := token.String(), p.inner
			if len(seen) == 1 {
				mentioned = p.top
			}
			if why := p.unclear(name, seen[len(seen)-1], mentioned, request); why != "" {
				return why
			}
		}
	}
}

// unclear returns why a server may take a name for another: one beside it, or one that a policy for the request
// mentions.
func (p *Policies) unclear(name string, beside map[string]string, mentioned names, request cedar.Request) string {
	cased := strings.Map(uncased, name)
	if other, twice := beside[cased]; twice {
		return fmt.Sprintf("the arguments have the names %q and %q in one object, which some servers take for the same: "+
			"send one of them",
			Shown(other), Shown(name))
	}
	beside[cased] = name
	for _, m := range mentioned[fold(name)] {
		if (m.policy == everyPolicy || !p.all[m.policy].misses(request)) && !slices.Contains(m.written, name) {
			return fmt.Sprintf("the arguments have the name %q, which some servers take for %q: write %q",
				Shown(name), m.written[0], m.written[0])
		}
	}
	return ""
}

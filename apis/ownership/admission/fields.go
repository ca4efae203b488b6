package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// entries are the variables that read managedFields: the entries before the request, what the request's manager owns
// by apply then and now, and whether it gave up everything.
//
// dyn, because the API server's type checker knows nothing below fieldsV1.
func entries() []admissionregistrationv1.Variable {
	applied := func(of string) string {
		return "variables." + of + ".filter(e, e.manager == variables.manager && e.operation == 'Apply' && " +
			"e.?subresource.orValue('') == variables.subresource)\n" +
			".map(e, e.?fieldsV1.orValue({}))"
	}
	variables := []admissionregistrationv1.Variable{
		{Name: "entriesBefore", Expression: "oldObject == null ? [] : dyn(oldObject).metadata.?managedFields.orValue([])"},
		{Name: "entries", Expression: "dyn(object).metadata.?managedFields.orValue([])"},
		{Name: "stood", Expression: "(" + applied("entriesBefore") + " + [{}])[0]"},
		{Name: "applied", Expression: "(" + applied("entries") + " + [{}])[0]"},
		// The time of an entry changes when its manager writes, not when others take fields from it. So an entry with the
		// same time was not written.
		{Name: "updates", Expression: "variables.entries.filter(e, e.manager == variables.manager && e.operation == " +
			"'Update' &&\n" +
			"!variables.entriesBefore.exists(b, b.manager == e.manager && b.operation == 'Update' &&\n" +
			"b.?subresource == e.?subresource && b.?apiVersion == e.?apiVersion && b.?time == e.?time))"},
	}
	return append(append(variables, tracked()...), admissionregistrationv1.Variable{
		Name: "released", Expression: "variables.stood.size() > 0 && variables.applied.size() == 0 && " +
			"variables.updates.size() == 0 && variables.tracked",
	})
}

// outside are the variables with what the request adds to its manager's entry outside the grant, and for messages
// what the grant has. Earlier fields may stay or go as a whole.
func (k compiler) outside() ([]admissionregistrationv1.Variable, error) {
	var added, allowed []string
	for _, g := range k.grants() {
		root, err := tree(g)
		if err != nil {
			return nil, err
		}
		levels := root.outside(nil, "")
		if root.all {
			levels = []string{"[]"}
		}
		fields := make([]string, 0, len(g.Fields))
		for _, f := range g.Fields {
			fields = append(fields, f.String())
		}
		added = append(added, under(g)+" ?\n"+strings.Join(levels, " +\n")+" :")
		allowed = append(allowed, under(g)+" ?\n"+text(strings.Join(fields, ", "))+" :")
	}
	return []admissionregistrationv1.Variable{
		{Name: "outside", Expression: strings.Join(append(added, "[]"), "\n")},
		{Name: "allowed", Expression: strings.Join(append(allowed, "''"), "\n")},
	}, nil
}

// tree is a grant's fields by level.
func tree(g ownership.Grant) (*node, error) {
	root := &node{}
	for _, path := range g.Fields {
		keys, err := path.Keys()
		if err != nil {
			return nil, err
		}
		if err := root.add(keys); err != nil {
			return nil, fmt.Errorf("path %s: %w", path, err)
		}
	}
	return root, nil
}

// node is one level of a grant's fields: all of it, or only its keys.
type node struct {
	all  bool
	keys map[string]*node
}

func (n *node) add(keys []string) error {
	if len(keys) == 0 || keys[0] == "*" {
		if len(keys) > 1 {
			return fmt.Errorf("a * may only stand at the end")
		}
		n.all = true
		return nil
	}
	if n.keys == nil {
		n.keys = map[string]*node{}
	}
	if n.keys[keys[0]] == nil {
		n.keys[keys[0]] = &node{}
	}
	return n.keys[keys[0]].add(keys[1:])
}

// split separates the keys granted as a whole from those with levels below.
func (n *node) split() (whole, parts []string) {
	for _, key := range slices.Sorted(maps.Keys(n.keys)) {
		if n.keys[key].all {
			whole = append(whole, key)
		} else {
			parts = append(parts, key)
		}
	}
	return whole, parts
}

// within: each key of a level of a field set is granted. A field that is owned without content is a leaf, which only
// a grant of the whole covers.
func (n *node) within(level string, depth int) string {
	if n.all {
		return "true"
	}
	k := fmt.Sprintf("k%d", depth)
	whole, parts := n.split()
	var granted []string
	if len(whole) > 0 {
		granted = append(granted, k+" in "+texts(whole))
	}
	for _, key := range parts {
		below := level + "[" + k + "]"
		granted = append(granted, fmt.Sprintf("%s == %s && %s.size() > 0 && %s", k, text(key), below,
			n.keys[key].within(below, depth+1)))
	}
	if depth > 0 {
		granted = append(granted, fmt.Sprintf("%s == '.' && %s.size() > 1", k, level))
	}
	return fmt.Sprintf("%s.all(%s, %s)", level, k, strings.Join(granted, " ||\n"))
}

// outside has one expression for each level: the keys that are not granted, and were not there before in the same
// way. CEL has no recursion, and field sets are opaque to it: a level's keys are compared one by one, the content of
// a key that is not granted only as a whole.
func (n *node) outside(at []string, path string) []string {
	if n.all {
		return nil
	}
	here := reach("variables.applied", at)
	whole, parts := n.split()
	if len(at) > 0 {
		here, whole = "dyn("+here+".orValue({}))", append([]string{"."}, whole...)
	}
	var terms []string
	if len(whole) > 0 {
		terms = append(terms, "!(k in "+texts(whole)+")")
	}
	if len(parts) > 0 {
		terms = append(terms, fmt.Sprintf("!(k in %s && %s[k].exists(f, f != '.'))", texts(parts), here))
	}
	// Last, because comparing whole subtrees is expensive.
	terms = append(terms, fmt.Sprintf("%s[?k] != %s[?k]", reach("variables.applied", at), reach("variables.stood", at)))
	levels := []string{fmt.Sprintf("%s.filter(k, %s).map(k, %s)", here, strings.Join(terms, " && "), said(path))}
	for _, key := range parts {
		levels = append(levels, n.keys[key].outside(append(slices.Clone(at), key), path+inWords(key))...)
	}
	return levels
}

// reach is the level below keys, an optional value unless there are none.
func reach(from string, keys []string) string {
	for _, key := range keys {
		from += "[?" + text(key) + "]"
	}
	return from
}

// said is the path of a key in the notation of the API server's conflicts.
func said(path string) string {
	return fmt.Sprintf("%s + (k.startsWith('f:') ? '.' + k.substring(2) : '[' + k.substring(2) + ']')", text(path))
}

func inWords(key string) string {
	if field, ok := strings.CutPrefix(key, "f:"); ok {
		return "." + field
	}
	return "[" + key[2:] + "]"
}

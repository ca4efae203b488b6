package input

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// row is one mistake.
type row struct {
	// mistake in the words of who reads the document.
	mistake string
	// spec is the YAML of the spec, to which image is added where it is not spoken of. whole is the YAML of everything,
	// where the mistake lies outside the spec; NAME in it is the name of the server.
	spec, whole string
	// before is the spec that the same manager applied before: only an apply over it is a mistake.
	before string
	// show stands in the document for a text that is too long for it.
	show string
	// field is where the answer points.
	field string
	// says is the answer, whole; with … at its end, its beginning. applied is
	// the answer to server-side apply where that differs.
	says, applied string
	// older is the answer of Kubernetes before 1.36 where it has other words,
	// beside the value: that of a broken rule is shown by its type there.
	older string
}

// subject is a group of rows.
type subject struct {
	title string
	rows  []row
}

const goodImage = "registry.example.com/echo:1"

// guarded are policies of the server that runs: wrong ones stop what runs without.
const guarded = `authzConfig: {policies: [{name: all, policy: "permit(principal, action, resource);"}]}`

// text is the whole server under a name.
func (r row) text(name string) string {
	if r.whole != "" {
		return strings.ReplaceAll(r.whole, "NAME", name)
	}
	text := fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata:\n  name: %s\nspec:\n", name)
	if !r.speaksOf("image") {
		text += "  image: " + goodImage + "\n"
	}
	for line := range strings.Lines(r.spec) {
		text += "  " + line
	}
	return text + "\n"
}

// speaksOf reports whether the spec of the row has the field, also where it is nothing.
func (r row) speaksOf(field string) bool {
	var fields map[string]any
	if err := yaml.Unmarshal([]byte(r.spec), &fields); err != nil {
		return false
	}
	_, has := fields[field]
	return has
}

// shown is the row's YAML for the document.
func (r row) shown() string {
	switch {
	case r.show != "":
		return r.show
	case r.before != "":
		return r.before + " and then " + r.spec
	case r.whole != "":
		text := strings.ReplaceAll(r.whole, "NAME", "echo")
		text = strings.TrimPrefix(text, "apiVersion: "+version+"\nkind: "+kind+"\n")
		return strings.TrimSuffix(strings.TrimSpace(text), fine)
	}
	return r.spec
}

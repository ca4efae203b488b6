package stdio

import (
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/runconfig"
)

// AsWritten is a text of the spec in which kubelet has expanded references to variables. The operator wrote those to
// variables of envFrom with the names that the bridge's container has for them; what nothing defines is left, and
// written back.
func AsWritten(text string) string {
	return strings.ReplaceAll(text, "$("+runconfig.DeclaredPrefix, "$(")
}

// basics are the variables that every child gets, if they are set.
var basics = []string{"PATH", "HOME", "LANG", "TMPDIR"}

// Environment is what a child gets of environ: the basics, what the spec's env
// declares by these names, and what its envFrom brings. The former take precedence
// over the latter, as in a container. What the image, the cluster and this process
// have besides stays here: withheld are the names of what the image has, as far as
// names tell.
func Environment(environ, declared []string) (child, withheld []string) {
	values := map[string]string{}
	var order []string
	set := func(name, value string) {
		if _, ok := values[name]; !ok {
			order = append(order, name)
		}
		values[name] = value
	}
	pick := func(take func(name string) (string, bool)) {
		for _, pair := range environ {
			name, value, _ := strings.Cut(pair, "=")
			if as, ok := take(name); ok {
				set(as, value)
			}
		}
	}
	among := func(names []string) func(string) (string, bool) {
		return func(name string) (string, bool) { return name, slices.Contains(names, name) }
	}
	pick(among(basics))
	pick(func(name string) (string, bool) { return strings.CutPrefix(name, runconfig.DeclaredPrefix) })
	pick(among(declared))
	for _, name := range order {
		if slices.Contains(declared, name) {
			values[name] = AsWritten(values[name])
		}
		child = append(child, name+"="+values[name])
	}
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		_, given := values[name]
		if !given && name != "HOSTNAME" && !strings.HasPrefix(name, "KUBERNETES_") && !strings.HasPrefix(name, "FREEHOLD_") {
			withheld = append(withheld, name)
		}
	}
	return child, withheld
}

// Package lists writes what files by hand have of each kind of Freehold: a line, or a word in one.
package lists

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// list is one of a file, which may have it several times.
type list struct {
	// found is the list as it is in the file, whatever kinds it has.
	found *regexp.Regexp
	// of is the list of these kinds.
	of func(kinds []ownership.Object) string
}

// lists are by file, from the root of the repository.
var lists = map[string]list{
	// The policy that bounds the size of a spec.
	"config/policy/size.yaml": {
		regexp.MustCompile(`resources: \["mcp[^\]]*\]`),
		func(kinds []ownership.Object) string {
			var resources []string
			for _, k := range kinds {
				resources = append(resources, fmt.Sprintf("%q", k.Resource()))
			}
			return "resources: [" + strings.Join(resources, ", ") + "]"
		},
	},
	// The health checks of Argo CD and of Flux, of which the first kind has the text.
	"config/gitops/argocd-cm.yaml": {
		regexp.MustCompile(`(  resource\.customizations\.health\.freehold\.dev_\w+: \*health\n)+`),
		others("  resource.customizations.health.freehold.dev_%s: *health\n"),
	},
	"config/gitops/flux.yaml": {
		regexp.MustCompile(`(  - \{<<: \*server, kind: \w+\}\n)+`),
		others("  - {<<: *server, kind: %s}\n"),
	},
	// The names that Kustomize changes where it changes that of a configuration.
	"config/gitops/team/base/kustomizeconfig.yaml": {
		regexp.MustCompile(`(- kind: MCP\w+\n  fieldSpecs:\n(  - .*\n)+)+`),
		func(kinds []ownership.Object) string {
			var b strings.Builder
			for _, k := range kinds {
				if field := v1alpha1.ConfigField(k.Kind); field != "" {
					fmt.Fprintf(&b, "- kind: %s\n  fieldSpecs:\n", k.Kind)
					for _, w := range contract.Workloads() {
						fmt.Fprintf(&b, "  - {path: spec/%s/name, kind: %s}\n", field, w.Object.Kind)
					}
				}
			}
			return b.String()
		},
	},
}

// others are lines for all kinds but the first.
func others(line string) func([]ownership.Object) string {
	return func(kinds []ownership.Object) string {
		var b strings.Builder
		for _, k := range kinds[1:] {
			fmt.Fprintf(&b, line, k.Kind)
		}
		return b.String()
	}
}

// Files have lists, sorted.
func Files() []string {
	var names []string
	for name := range lists {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Written is the text of a file with its lists of these kinds.
func Written(name, text string, kinds []ownership.Object) (string, error) {
	list := lists[name]
	if !list.found.MatchString(text) {
		return "", fmt.Errorf("%s has no list of kinds: put back what %s finds", name, list.found)
	}
	return list.found.ReplaceAllLiteralString(text, list.of(kinds)), nil
}

package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/licenseclassifier/v2/assets"
)

// permissive are the licences under which a module may be linked: they ask for their text to be passed on, which the
// images do, and for nothing of our own sources. Adding one is a decision.
var permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"}

// sure is the share of a licence's words below which a text is not taken for it.
const sure = 0.9

// identify names the licences of each module, and returns what may not be linked.
func identify(modules []*module) error {
	classifier, err := assets.DefaultClassifier()
	if err != nil {
		return fmt.Errorf("loading the classifier: %w", err)
	}
	var refused []error
	for _, m := range modules {
		names := map[string]bool{}
		for _, t := range m.texts {
			if t.isNotice() {
				continue
			}
			found := false
			for _, match := range classifier.Match([]byte(t.content)).Matches {
				if match.MatchType == "License" && match.Confidence >= sure {
					names[match.Name], found = true, true
				}
			}
			if !found {
				refused = append(refused, fmt.Errorf("%s %s: %s is no licence that the classifier knows", m.path, m.version,
					t.name))
			}
		}
		m.licences = slices.Sorted(maps.Keys(names))
		for _, name := range m.licences {
			if !slices.Contains(permissive, name) {
				refused = append(refused, fmt.Errorf("%s %s: %s is not on the list of licences that may be linked", m.path,
					m.version, name))
			}
		}
	}
	return errors.Join(refused...)
}

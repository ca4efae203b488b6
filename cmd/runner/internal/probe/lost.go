package probe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// What a sentence of tools that are lost may hold.
const (
	mostLost    = 10
	maxLostName = 128
)

// toolset is what a server has listed since the process asks it: of its content all that it has had.
type toolset struct {
	all map[string]arguments // nil before the first list
	// suspects says that the last list had fewer, and isTold that it was told: a server may list those of others later
	// than its own.
	suspects, isTold bool
}

// compare is what is said of a list. It is nil where nothing is known: of the first list, of the first one with fewer
// tools than before, and where none was missing.
func (s *toolset) compare(has map[string]arguments) (said *conditions.Finding) {
	names := lost(s.all, has)
	switch {
	case len(names) == 0 && s.isTold:
		said = new(conditions.Finding)
		s.isTold = false
	case len(names) > 0 && (s.isTold || s.suspects):
		said = new(lostFinding(names))
		s.isTold = true
	}
	s.suspects = len(names) > 0
	if s.all == nil {
		s.all = map[string]arguments{}
	}
	for name, now := range has {
		// A server that names its tools anew each time is remembered as far as one list goes.
		if _, known := s.all[name]; known && !slices.Contains(names, name) || !known && len(s.all) < maxItems {
			s.all[name] = now
		}
	}
	return said
}

// asksSoon reports whether the list is to be had again soon.
func (s *toolset) asksSoon() bool { return s.suspects && !s.isTold }

func lostFinding(names []string) conditions.Finding {
	told := make([]string, 0, mostLost)
	for _, name := range names[:min(len(names), mostLost)] {
		told = append(told, printable.Line(name, maxLostName))
	}
	more := ""
	if len(names) > mostLost {
		more = ", and more"
	}
	what := "tools that it has listed are missing, or ask"
	if len(names) == 1 {
		what = "tool that it has listed is missing, or asks"
	}
	return conditions.True(v1alpha1.ReasonLostTools, fmt.Sprintf("%d %s for more arguments than before: %s%s", len(names),
		what, strings.Join(told, ", "), more))
}

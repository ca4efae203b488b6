package podtemplate

import (
	"cmp"
	"slices"
	"strings"
)

// Problem is something in a spec that cannot be rendered.
type Problem struct {
	// Field is a path from the owner's root, for example spec.podTemplate.spec.hostNetwork.
	Field string
	// Message says what is wrong and what to write instead.
	Message string
}

// String is one line for a person.
func (p Problem) String() string { return p.Field + ": " + p.Message }

// Problems is the error of a spec that cannot be rendered, sorted by field.
type Problems []Problem

// Error is all problems in one line.
func (all Problems) Error() string {
	texts := make([]string, len(all))
	for i, problem := range all {
		texts[i] = problem.String()
	}
	return strings.Join(texts, "; ")
}

// AsError is problems as an error, nil without any.
func AsError(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return Problems(Sorted(problems))
}

// Sorted keeps the first problem of each field.
func Sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Field, b.Field) })
	return slices.CompactFunc(problems, func(a, b Problem) bool { return a.Field == b.Field })
}

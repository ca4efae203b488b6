package podtemplate

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Options are what the operator adds to every server.
type Options struct {
	// RunnerImage is the image of the proxy container.
	RunnerImage string
	// RunnerPullPolicy of that image; the cluster's default where empty.
	RunnerPullPolicy corev1.PullPolicy
	// RunnerPullSecrets are names of Secrets with credentials of that image's
	// registry, looked for in each server's namespace.
	RunnerPullSecrets []string
}

// Problem is something in a spec that cannot be rendered.
type Problem struct {
	// Field is a path from the MCPServer's root, for example
	// spec.podTemplate.spec.hostNetwork.
	Field string
	// Message says what is wrong and what to write instead.
	Message string
}

// String is one line for a person.
func (p Problem) String() string { return p.Field + ": " + p.Message }

// Refused is the error of content that cannot be rendered.
type Refused struct {
	// Problems are all that were found, sorted by field.
	Problems []Problem
}

// Error is all problems in one line.
func (r *Refused) Error() string {
	texts := make([]string, len(r.Problems))
	for i, problem := range r.Problems {
		texts[i] = problem.String()
	}
	return strings.Join(texts, "; ")
}

// Refuse is nil where there is no problem.
func Refuse(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &Refused{Problems: Sorted(problems)}
}

// Sorted keeps the first problem that was found of each field.
func Sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return cmp.Compare(a.Field, b.Field) })
	return slices.CompactFunc(problems, func(a, b Problem) bool { return a.Field == b.Field })
}

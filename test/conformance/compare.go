package conformance

import (
	"fmt"
	"maps"
	"slices"
)

const (
	success = "SUCCESS"
	failure = "FAILURE"
	absent  = "ABSENT"
)

// Difference is a check that ends in another way through Freehold than directly.
type Difference struct {
	Scenario string `json:"scenario"`
	Check    string `json:"check"`
	Direct   string `json:"direct"`
	Through  string `json:"through"`
	// Error is what the suite says of the run that failed.
	Error string `json:"error,omitempty"`
}

// String is one line of a report.
func (d Difference) String() string {
	return fmt.Sprintf("%s: %s is %s directly and %s through Freehold: %s", d.Scenario, d.Check, d.Direct, d.Through,
		d.Error)
}

// Compare returns every check that is not the same in both runs. Checks of one scenario that have the same id are
// compared in their order.
func Compare(direct, through Results) []Difference {
	var differences []Difference
	for _, name := range names(direct, through) {
		d, t := numbered(direct[name]), numbered(through[name])
		for _, id := range names(d, t) {
			a, b := found(d, id), found(t, id)
			if a.Status == b.Status {
				continue
			}
			words := b.Error
			if words == "" {
				words = a.Error
			}
			differences = append(differences,
				Difference{Scenario: name, Check: id, Direct: a.Status, Through: b.Status, Error: words})
		}
	}
	return differences
}

// names are the keys of both, sorted, each once.
func names[T any](a, b map[string]T) []string {
	return slices.Compact(slices.Sorted(func(yield func(string) bool) {
		for name := range maps.Keys(a) {
			if !yield(name) {
				return
			}
		}
		for name := range maps.Keys(b) {
			if !yield(name) {
				return
			}
		}
	}))
}

// numbered are checks by id; of those with one id the second is id#2.
func numbered(checks []Check) map[string]Check {
	all, seen := map[string]Check{}, map[string]int{}
	for _, check := range checks {
		seen[check.ID]++
		id := check.ID
		if n := seen[id]; n > 1 {
			id = fmt.Sprintf("%s#%d", id, n)
		}
		all[id] = check
	}
	return all
}

func found(checks map[string]Check, id string) Check {
	if check, ok := checks[id]; ok {
		return check
	}
	return Check{ID: id, Status: absent}
}

// Failures are the scenarios in which a check failed, sorted.
func (r Results) Failures() []string {
	var failed []string
	for name, checks := range r {
		if slices.ContainsFunc(checks, func(c Check) bool { return c.Status == failure }) {
			failed = append(failed, name)
		}
	}
	slices.Sort(failed)
	return failed
}

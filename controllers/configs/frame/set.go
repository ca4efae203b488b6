package frame

import (
	"fmt"
	"slices"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Bound is a configuration that a workload refers to.
type Bound struct {
	v1alpha1.ConfigRef
	// Rules are those of its kind.
	Rules Content
	// Object is nil if there is none. A cache may hold it in part.
	Object Object
	// Verdict is what it says, once that is known.
	Verdict Verdict
}

// Deleting reports whether it is there and being deleted.
func (b Bound) Deleting() bool { return b.Object != nil && b.Object.GetDeletionTimestamp() != nil }

// Problem is the reason and the message of one that a workload cannot run with, no reason for
// any other. runsWith reports whether it has been claimed with that.
func (b Bound) Problem(runsWith func(kind, name string) bool) (reason, message string) {
	switch {
	case b.Object == nil:
		return v1alpha1.ReasonConfigNotFound, fmt.Sprintf(
			"%s %q does not exist in this namespace: create it, or remove the reference", b.Kind, b.Name)
	case b.Object.GetDeletionTimestamp() != nil && !runsWith(b.Kind, b.Name):
		return v1alpha1.ReasonConfigDeleting,
			fmt.Sprintf("%s %q is being deleted, and this server does not run with it yet: "+
				"refer to another one, or remove the reference", b.Kind, b.Name)
	case b.Verdict.Err != nil:
		return v1alpha1.ReasonConfigInvalid, fmt.Sprintf("%s %q: %s", b.Kind, b.Name, b.Verdict.Err)
	}
	return "", ""
}

// AddTo states in a run config what it contributes. Of one that is missing or invalid it states that no call passes:
// that content never runs, and says that a proxy without the check may not go on.
func (b Bound) AddTo(proxy *runconfig.Proxy, of Referrer) []Problem {
	if b.Object == nil || b.Verdict.Contribution == nil {
		b.Rules.Guard(proxy, of)
		return nil
	}
	return b.Verdict.Contribution.AddTo(proxy, of)
}

// Set is what a workload refers to, sorted by field.
type Set []Bound

// Known reports whether it was found what it says, if it is there.
func (b Bound) Known() bool { return b.Object == nil || b.Verdict.Hash != "" || b.Verdict.Err != nil }

// Whole reports whether all that it contributes is there, and not only named by its hash.
func (b Bound) Whole() bool {
	return b.Object == nil || b.Verdict.Contribution != nil || b.Verdict.Err != nil
}

// Whole reports whether all are.
func (s Set) Whole() bool {
	return !slices.ContainsFunc(s, func(b Bound) bool { return !b.Whole() })
}

// Unfollowed are the kinds of those that a workload cannot run with.
func (s Set) Unfollowed(runsWith func(kind, name string) bool) (kinds []string) {
	for _, b := range s {
		if reason, _ := b.Problem(runsWith); reason != "" {
			kinds = append(kinds, b.Kind)
		}
	}
	return kinds
}

// Own leaves in a run config what the workload itself says: of the configurations only that they guard it.
func (s Set) Own(proxy runconfig.Proxy, of Referrer) runconfig.Proxy {
	for _, b := range s {
		b.Rules.Guard(&proxy, of)
	}
	return proxy
}

// Before is the set in which the configuration of a kind says what it said when it had this
// hash, read from a run config that was rendered from it; false where that does not tell.
func (s Set) Before(kind string, ran *runconfig.Proxy, hash string) (Set, bool) {
	i := slices.IndexFunc(s, func(b Bound) bool { return b.Kind == kind })
	if i < 0 {
		return s, false
	}
	before := s[i].Rules.Before(ran)
	if before == nil || before.Hash() != hash {
		return s, false
	}
	s = slices.Clone(s)
	s[i].Verdict = Contributes(before)
	return s, true
}

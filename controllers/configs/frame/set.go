package frame

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Bound is a configuration that a workload refers to.
type Bound struct {
	v1alpha1.ConfigRef
	// Rules are those of its kind.
	Rules Kind
	// Object is nil if there is none. A cache may hold it in part.
	Object Object
	// Verdict is what it says, once that is known.
	Verdict Verdict
}

// Deleting reports whether it is there and being deleted.
func (b Bound) Deleting() bool { return b.Object != nil && b.Object.GetDeletionTimestamp() != nil }

// AddTo states in a run config what it contributes. Of one that is missing or invalid it states
// that no call passes: that content never runs, and says that a proxy without the check may not
// go on.
func (b Bound) AddTo(proxy *runconfig.Proxy, of Referrer) []Problem {
	if b.Object == nil || b.Verdict.Contribution == nil {
		b.Rules.Guard(proxy, of)
		return nil
	}
	return b.Verdict.Contribution.AddTo(proxy, of)
}

// Set is what a workload refers to, sorted by field.
type Set []Bound

// Own leaves in a run config what the workload itself says: of the configurations only that
// they guard it.
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

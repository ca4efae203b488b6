package authz

import (
	"errors"
	"iter"
	"slices"
	"strconv"

	"github.com/cedar-policy/cedar-go"
	"github.com/go-json-experiment/json/jsontext"
)

// Call is what is asked for.
type Call struct {
	// Action and Type are of the vocabulary.
	Action, Type string
	// ID is the name of the tool or prompt, the URI of the resource, or the feature that is listed.
	ID string
	// Arguments of the call, a JSON object; nil for none.
	Arguments jsontext.Value
}

// Decision is the answer to a call.
type Decision struct {
	Allowed bool
	// Policies are the names of those that decided, sorted; empty if none matched.
	Policies []string
	// Failed are the names of those that could not be evaluated, sorted.
	Failed []string
	// Unclear says why the arguments cannot be judged: the policies have no value for them, or the server may read others.
	// Nothing is allowed then. It is empty for arguments that can.
	Unclear string
}

// Decide answers a call: it is allowed if a policy permits it and none forbids it. A policy that cannot be evaluated,
// for example because it compares an argument of another type, permits nothing; one that forbids then does forbid.
// Cedar itself passes over those; a caller could choose arguments for which it does.
func (p *Policies) Decide(caller Caller, call Call) Decision {
	if why := p.ambiguous(call.Arguments, scope(caller, call)); why != "" {
		return Decision{Unclear: why}
	}
	request, entities, err := p.request(caller, call)
	switch {
	case errors.Is(err, errElements), errors.Is(err, errNested):
		return Decision{Unclear: err.Error()}
	case err != nil:
		return Decision{}
	}
	decision, told := cedar.Authorize(asked{p.all, request}, entities, request)
	// The reasons are of the policies that decided: those that forbid, if one does.
	var failed, forbids []int
	for _, e := range told.Errors {
		at := indexOf(e.PolicyID)
		failed = append(failed, at)
		if p.all[at].policy.Effect() == cedar.Forbid {
			forbids = append(forbids, at)
		}
	}
	var decided []int
	for _, r := range told.Reasons {
		decided = append(decided, indexOf(r.PolicyID))
	}
	d := Decision{Allowed: bool(decision) && len(forbids) == 0, Failed: p.names(failed)}
	if !d.Allowed {
		if bool(decision) {
			decided = nil // they permit
		}
		decided = append(decided, forbids...)
	}
	d.Policies = p.names(decided)
	return d
}

type asked struct {
	all     []named
	request cedar.Request
}

// All implements cedar.PolicyIterator.
func (a asked) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for i := range a.all {
			if n := &a.all[i]; !n.misses(a.request) && !yield(n.id, n.policy) {
				return
			}
		}
	}
}

// indexOf is where in the list of policies one of that id is.
func indexOf(id cedar.PolicyID) int {
	at, err := strconv.Atoi(string(id))
	if err != nil {
		panic(err) // Parse made it
	}
	return at
}

func (p *Policies) names(at []int) []string {
	slices.Sort(at) // the list is sorted by name
	var names []string
	for _, i := range at {
		names = append(names, p.all[i].name)
	}
	return slices.Compact(names)
}

package authz

import (
	"slices"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/go-json-experiment/json/jsontext"
)

// Anonymous is the subject of every caller of a server without a login.
const Anonymous = "anonymous"

// Caller is who calls.
type Caller struct {
	// Subject is the name under which policies know the caller.
	Subject string
	// Claims of the verified token, a JSON object; nil for none.
	Claims jsontext.Value
}

// Call is what is asked for.
type Call struct {
	// Action and Type are of the vocabulary.
	Action, Type string
	// ID is the name of the tool or prompt, the URI of the resource, or the
	// feature that is listed.
	ID string
	// Arguments of the call, a JSON object; nil for none.
	Arguments jsontext.Value
}

// Decision is the answer to a call.
type Decision struct {
	Allowed bool
	// Policies are the names of those that decided, sorted; empty if none
	// matched.
	Policies []string
	// Failed are the names of those that could not be evaluated, sorted.
	Failed []string
}

// Decide answers a call: it is allowed if a policy permits it and none forbids
// it. A policy that cannot be evaluated, for example because it compares an
// argument of another type, permits nothing; one that forbids then does forbid.
// Cedar itself passes over those; a caller could choose arguments for which it
// does.
func (p *Policies) Decide(caller Caller, call Call) Decision {
	request, entities, err := p.request(caller, call)
	if err != nil {
		return Decision{}
	}
	var permits, forbids, failed []string
	for _, n := range p.all {
		outcome := evaluate(n.policy, entities, request)
		forbid := n.policy.Effect() == cedar.Forbid
		switch {
		case outcome == errs:
			failed = append(failed, n.name)
			if forbid {
				forbids = append(forbids, n.name)
			}
		case outcome == matches && forbid:
			forbids = append(forbids, n.name)
		case outcome == matches:
			permits = append(permits, n.name)
		}
	}
	d := Decision{Allowed: len(forbids) == 0 && len(permits) > 0, Policies: slices.Compact(forbids), Failed: slices.Compact(failed)}
	if d.Allowed {
		d.Policies = slices.Compact(permits)
	}
	return d
}

// Visible reports whether a list shows an item: whether some call of it could be
// allowed. Arguments are not known then, so a policy that needs them neither
// hides what it forbids nor keeps what it permits from being shown.
func (p *Policies) Visible(caller Caller, call Call) bool {
	request, entities, err := p.request(caller, call)
	if err != nil {
		return false
	}
	visible := false
	for _, n := range p.all {
		outcome := evaluate(n.policy, entities, request)
		switch forbid := n.policy.Effect() == cedar.Forbid; {
		case forbid && outcome == matches:
			return false
		case !forbid && outcome != misses:
			visible = true
		}
	}
	return visible
}

type outcome int

const (
	misses outcome = iota
	matches
	errs
)

// one is a policy set of one policy, since Cedar tells of several only which of
// them decided.
func evaluate(policy *cedar.Policy, entities types.EntityGetter, request cedar.Request) outcome {
	decision, diagnostic := cedar.Authorize(cedar.PolicyMap{"": policy}, entities, request)
	switch {
	case len(diagnostic.Errors) > 0:
		return errs
	case decision == cedar.Allow || len(diagnostic.Reasons) > 0:
		return matches
	}
	return misses
}

// request is a call in Cedar's terms. What callers choose is behind the
// prefixes claim_ and arg_, so it replaces no attribute of an entity.
func (p *Policies) request(caller Caller, call Call) (cedar.Request, types.EntityGetter, error) {
	claims, arguments := types.RecordMap{}, types.RecordMap{}
	if err := attributes(claims, "claim_", caller.Claims); err != nil {
		return cedar.Request{}, nil, err
	}
	if err := attributes(arguments, "arg_", call.Arguments); err != nil {
		return cedar.Request{}, nil, err
	}
	context := types.RecordMap{}
	for _, part := range []types.RecordMap{claims, arguments} {
		for name, v := range part {
			context[name] = v
		}
	}
	arguments["name"], arguments["operation"], arguments["feature"] = types.String(call.ID), types.String(operation[call.Action]), types.String(feature[call.Type])
	if call.Type == Resource {
		arguments["uri"] = types.String(call.ID)
	}
	request := cedar.Request{
		Principal: types.NewEntityUID("Client", types.String(caller.Subject)),
		Action:    types.NewEntityUID("Action", types.String(call.Action)),
		Resource:  types.NewEntityUID(types.EntityType(call.Type), types.String(call.ID)),
		Context:   types.NewRecord(context),
	}
	return request, overlay{p.entities, map[types.EntityUID]types.RecordMap{request.Principal: claims, request.Resource: arguments}}, nil
}

var (
	operation = map[string]string{
		CallTool: "call", GetPrompt: "get", ReadResource: "read", ListTools: "list", ListPrompts: "list", ListResources: "list",
	}
	feature = map[string]string{Tool: "tool", Prompt: "prompt", Resource: "resource"}
)

// overlay is the configured entities, and over them what a call says of its own.
type overlay struct {
	entities types.EntityMap
	own      map[types.EntityUID]types.RecordMap
}

// Get implements types.EntityGetter.
func (o overlay) Get(uid types.EntityUID) (types.Entity, bool) {
	entity, known := o.entities[uid]
	own, ours := o.own[uid]
	if !ours {
		return entity, known
	}
	entity.UID = uid
	all := entity.Attributes.Map()
	if all == nil {
		all = types.RecordMap{}
	}
	for name, v := range own {
		all[name] = v
	}
	entity.Attributes = types.NewRecord(all)
	return entity, true
}

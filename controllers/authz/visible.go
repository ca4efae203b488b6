package authz

import (
	"slices"
	"sync"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Visible tells of the items of a list whether it shows them to a caller: whether some call of it could be allowed.
// Arguments are not known then, so a policy that needs them neither hides what it forbids nor keeps what it permits
// from being shown. What is the same for all items is decided once.
func (p *Policies) Visible(caller Caller, action, kind string) func(id string) bool {
	if caller.ready == nil {
		caller = caller.Ready()
	}
	l := &listed{policies: p, caller: caller, call: Call{Action: action, Type: kind}}
	if caller.ready.err != nil {
		return func(string) bool { return false }
	}
	request := scope(caller, l.call)
	var fixed []named
	for _, n := range p.all {
		switch {
		case n.differs(request):
		case n.fixed && !p.linked:
			fixed = append(fixed, n)
		default:
			l.varies = append(l.varies, n)
		}
	}
	var forbids bool
	if l.permits, forbids = l.ask(fixed, ""); forbids {
		return func(string) bool { return false }
	}
	return l.visible
}

// listed is what the items of a list have in common.
type listed struct {
	policies *Policies
	caller   Caller
	call     Call // but for its ID
	// permits says that one of the policies that say the same of each item permits it, and varies are the others.
	permits bool
	varies  []named
}

func (l *listed) visible(id string) bool {
	permits, forbids := l.ask(l.varies, id)
	return !forbids && (permits || l.permits)
}

// ask reports whether one of the policies may permit a call of an item, and whether one forbids it.
func (l *listed) ask(policies []named, id string) (permits, forbids bool) {
	l.call.ID = id
	request := scope(l.caller, l.call)
	request.Context = l.caller.ready.context
	about := &world{Policies: l.policies, caller: l.caller.ready, request: request}
	decision, told := cedar.Authorize(asked{policies, request}, about, request)
	for _, e := range told.Errors {
		permits = permits || l.policies.all[indexOf(e.PolicyID)].policy.Effect() == cedar.Permit
	}
	return permits || decision == cedar.Allow, decision == cedar.Deny && len(told.Reasons) > 0
}

// mostItems is of how many items policies remember the entities, and longestItem how long their names may be.
const mostItems, longestItem = 512, 256

// items are resources as policies see them where they read no arguments: the same for all callers.
type items struct {
	mu   sync.Mutex
	made map[item]types.Entity
}

type item struct{ action, resource types.EntityUID }

// item is the resource of a request.
func (p *Policies) item(request cedar.Request) types.Entity {
	p.items.mu.Lock()
	defer p.items.mu.Unlock()
	key := item{request.Action, request.Resource}
	entity, known := p.items.made[key]
	if known {
		return entity
	}
	entity = p.with(key.resource, own(string(key.action.ID), string(key.resource.Type), string(key.resource.ID)), nil)
	if len(p.items.made) >= mostItems || p.items.made == nil {
		p.items.made = map[item]types.Entity{}
	}
	if len(key.resource.ID) <= longestItem {
		p.items.made[key] = entity
	}
	return entity
}

// fixed reports whether a policy says the same of all items of a list, whatever they are called. Its conditions are
// in Cedar's JSON.
func fixed(resource ast.IsScopeNode, conditions any) bool {
	switch resource.(type) {
	case ast.ScopeTypeAll, ast.ScopeTypeIs:
		return !looksAtItems(conditions)
	}
	return false
}

// looksAtItems reports whether a part of a policy may read what a call says of its resource: by that name, or as an
// entity of its type that is written out.
func looksAtItems(part any) bool {
	switch part := part.(type) {
	case []any:
		return slices.ContainsFunc(part, looksAtItems)
	case map[string]any:
		if part["Var"] == "resource" {
			return true
		}
		if kind, typed := part["type"].(string); typed && feature[kind] != "" {
			return true
		}
		for _, each := range part {
			if looksAtItems(each) {
				return true
			}
		}
	}
	return false
}

// links reports whether a value leads to an entity.
func links(value types.Value) bool {
	switch v := value.(type) {
	case types.EntityUID:
		return true
	case types.Set:
		for element := range v.All() {
			if links(element) {
				return true
			}
		}
	case types.Record:
		for element := range v.Values() {
			if links(element) {
				return true
			}
		}
	}
	return false
}

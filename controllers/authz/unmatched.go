package authz

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Problem is why a policy can match no call.
type Problem struct {
	// Policy is the name of the text, Line and Column where the statement begins in it.
	Policy       string
	Line, Column int
	// What says which words match nothing, and which words exist.
	What string
}

// String is the problem on one line.
func (p Problem) String() string {
	return fmt.Sprintf("policy %q, line %d, column %d: %s", p.Policy, p.Line, p.Column, p.What)
}

// calls are all that a proxy asks about. An ID that is empty stands for any.
var calls = []Call{
	{Action: CallTool, Type: Tool},
	{Action: GetPrompt, Type: Prompt},
	{Action: ReadResource, Type: Resource},
	{Action: ListTools, Type: FeatureType, ID: feature[Tool]},
	{Action: ListPrompts, Type: FeatureType, ID: feature[Prompt]},
	{Action: ListResources, Type: FeatureType, ID: feature[Resource]},
}

// mostProblems are as many as a person reads.
const mostProblems = 20

// Unmatched returns the statements that match no call, whoever calls and whatever the server offers, in the order of
// their names, and no more than 20. It judges the scope of a statement, with the parents that entities give, and no
// when or unless: what it returns never matches, and what it does not return may still never match. The error is that
// of Parse. Of policies in memory, which are fifty times as large as their text, it has those of one text at a time.
func Unmatched(sources []Source, entities string) ([]Problem, error) {
	var problems []Problem
	s := scopes{parents: map[types.EntityUID]map[types.EntityUID]bool{}}
	var wrong error // said after what is wrong with a policy, as Parse does
	s.entities, wrong = readEntities(entities)
	for _, source := range sources {
		list, err := statements(source)
		if err != nil {
			return nil, err
		}
		for i := range list {
			scope := (*ast.Policy)(list[i].policy.AST())
			if what := s.unmatched(scope); what != "" {
				problems = append(problems, Problem{source.Name, scope.Position.Line, scope.Position.Column, what})
			}
		}
		slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Policy, b.Policy) })
		problems = problems[:min(len(problems), mostProblems)]
	}
	if wrong != nil {
		return nil, wrong
	}
	return problems, nil
}

type scopes struct {
	entities types.EntityMap
	// parents are what entities of a type, and of an ID unless it is empty, are in.
	parents map[types.EntityUID]map[types.EntityUID]bool
}

func (s scopes) unmatched(scope *ast.Policy) string {
	if !s.admit(scope.Principal, client, "") {
		return words("principal", scope.Principal) + ` matches nothing: principals are Client::"NAME", in Group::"NAME"`
	}
	var acting, resting, both []Call
	for _, c := range calls {
		acts, rests := s.admit(scope.Action, "Action", c.Action), s.admit(scope.Resource, c.Type, c.ID)
		if acts {
			acting = append(acting, c)
		}
		if rests {
			resting = append(resting, c)
		}
		if acts && rests {
			both = append(both, c)
		}
	}
	action, on := words("action", scope.Action), words("resource", scope.Resource)
	switch {
	case len(acting) == 0:
		return action + " matches nothing: actions are " + list(calls, func(c Call) string { return uid("Action", c.Action) })
	case len(resting) == 0:
		return on + " matches nothing: resources are " + list(calls, resource)
	case len(both) == 0:
		return action + " with " + on + " matches nothing: " +
			list(acting, func(c Call) string { return c.Action + " has " + resource(c) })
	}
	return ""
}

// admit reports whether scope admits an entity of the type, and of the ID unless
// it is empty. A scope that it does not know admits all.
func (s scopes) admit(scope ast.IsScopeNode, kind, id string) bool {
	switch scope := scope.(type) {
	case ast.ScopeTypeEq:
		return fits(scope.Entity, kind, id)
	case ast.ScopeTypeIn:
		return s.within(scope.Entity, kind, id)
	case ast.ScopeTypeInSet:
		return slices.ContainsFunc(scope.Entities, func(group types.EntityUID) bool { return s.within(group, kind, id) })
	case ast.ScopeTypeIs:
		return string(scope.Type) == kind
	case ast.ScopeTypeIsIn:
		return string(scope.Type) == kind && s.within(scope.Entity, kind, id)
	}
	return true
}

func fits(entity types.EntityUID, kind, id string) bool {
	return string(entity.Type) == kind && (id == "" || string(entity.ID) == id)
}

// within reports whether such an entity is the group, or in it. Which groups a principal is in, its token says.
func (s scopes) within(group types.EntityUID, kind, id string) bool {
	if fits(group, kind, id) || kind == client && slices.Contains(groups, group.Type) {
		return true
	}
	key := types.NewEntityUID(types.EntityType(kind), types.String(id))
	if s.parents[key] == nil {
		s.parents[key] = s.above(kind, id)
	}
	return s.parents[key][group]
}

// above are all that have such an entity in them, at any depth.
func (s scopes) above(kind, id string) map[types.EntityUID]bool {
	all := map[types.EntityUID]bool{}
	var next []types.EntityUID
	for entity := range s.entities {
		if fits(entity, kind, id) || kind == client && slices.Contains(groups, entity.Type) {
			next = append(next, entity)
		}
	}
	for len(next) > 0 {
		entity := next[len(next)-1]
		next = next[:len(next)-1]
		for parent := range s.entities[entity].Parents.All() {
			if !all[parent] {
				all[parent] = true
				next = append(next, parent)
			}
		}
	}
	return all
}

// longest is how much of a statement's own words is shown.
const longest = 200

// words is a part of a scope as Cedar writes it.
func words(variable string, scope ast.IsScopeNode) string {
	text := written(variable, scope)
	if len(text) > longest {
		text = strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

func written(variable string, scope ast.IsScopeNode) string {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return variable + " == " + s.Entity.String()
	case ast.ScopeTypeIn:
		return variable + " in " + s.Entity.String()
	case ast.ScopeTypeInSet:
		return variable + " in [" + list(s.Entities, types.EntityUID.String) + "]"
	case ast.ScopeTypeIs:
		return variable + " is " + string(s.Type)
	case ast.ScopeTypeIsIn:
		return variable + " is " + string(s.Type) + " in " + s.Entity.String()
	}
	return variable
}

func resource(c Call) string {
	switch {
	case c.ID != "":
		return uid(c.Type, c.ID)
	case c.Type == Resource:
		return uid(c.Type, "URI")
	}
	return uid(c.Type, "NAME")
}

func uid(kind, id string) string {
	return types.NewEntityUID(types.EntityType(kind), types.String(id)).String()
}

func list[T any](items []T, text func(T) string) string {
	texts := make([]string, 0, len(items))
	for _, item := range items {
		texts = append(texts, text(item))
	}
	return strings.Join(texts, ", ")
}

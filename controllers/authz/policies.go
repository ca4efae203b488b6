package authz

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
)

// The actions of the vocabulary.
const (
	CallTool      = "call_tool"
	GetPrompt     = "get_prompt"
	ReadResource  = "read_resource"
	ListTools     = "list_tools"
	ListPrompts   = "list_prompts"
	ListResources = "list_resources"
)

// The types of resources in the vocabulary.
const (
	Tool        = "Tool"
	Prompt      = "Prompt"
	Resource    = "Resource"
	FeatureType = "FeatureType"
)

// Source is the text of one or more Cedar policies under one name.
type Source struct {
	Name, Text string
}

// Policies decide about calls. The zero value permits nothing.
type Policies struct {
	all      []named
	entities types.EntityMap
	// contextual says that a policy may look at the context.
	contextual bool
	// linked says that attributes of the entities lead to entities, by which a policy may come to any.
	linked bool
	// groups are the types under which the policies may look for a caller's groups.
	groups []types.EntityType
	// top and inner are the names of arguments, and of members within them, that policies mention.
	top, inner names
	items      items
}

type named struct {
	name   string
	policy *cedar.Policy
	// id is its index in the list, by which Cedar tells of it: several have one name.
	id cedar.PolicyID
	// principal, action and resource are the ones that its scope names with ==, nil for a scope that names none.
	principal, action, resource *types.EntityUID
	// all says that it reads every argument, and fixed that it says the same of all items of a list.
	all, fixed bool
}

func read(name string, policy *cedar.Policy) named {
	scope := (*ast.Policy)(policy.AST())
	return named{
		name: name, policy: policy, principal: only(scope.Principal), action: only(scope.Action),
		resource: only(scope.Resource),
	}
}

func only(scope ast.IsScopeNode) *types.EntityUID {
	if one, ok := scope.(ast.ScopeTypeEq); ok {
		return &one.Entity
	}
	return nil
}

// misses reports whether the scope cannot match, without asking Cedar: most policies name a tool, and it is another's.
func (n *named) misses(r cedar.Request) bool { return isOther(n.resource, r.Resource) || n.differs(r) }

// differs is misses whatever the resource is.
func (n *named) differs(r cedar.Request) bool {
	return isOther(n.action, r.Action) || isOther(n.principal, r.Principal)
}

func isOther(named *types.EntityUID, asked types.EntityUID) bool {
	return named != nil && *named != asked
}

// Parse reads policies, and entities as Cedar's JSON has them (empty for none).
// An error names the policy, line and column.
func Parse(sources []Source, entities string) (*Policies, error) {
	p := &Policies{}
	for _, source := range sources {
		list, err := statements(source)
		if err != nil {
			return nil, err
		}
		p.all = append(p.all, list...)
		p.looksAt(source.Text)
	}
	// A decision names policies in this order, whatever the order they came in.
	slices.SortStableFunc(p.all, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	for i := range p.all {
		p.all[i].id = cedar.PolicyID(strconv.Itoa(i))
	}
	var err error
	if p.entities, err = readEntities(entities); err != nil {
		return nil, err
	}
	for uid, entity := range p.entities {
		p.refersTo(uid)
		p.refersTo(entity.Attributes)
		p.refersTo(entity.Tags)
		p.linked = p.linked || links(entity.Attributes) || links(entity.Tags)
		for parent := range entity.Parents.All() {
			p.refersTo(parent)
		}
	}
	if err := p.mentions(); err != nil {
		return nil, err
	}
	return p, nil
}

func statements(source Source) ([]named, error) {
	if err := tooLarge(source.Name, source.Text); err != nil {
		return nil, err
	}
	parsing.Lock()
	defer parsing.Unlock()
	list, err := cedar.NewPolicyListFromBytes(source.Name, []byte(source.Text))
	if err != nil {
		return nil, wrongText(source.Name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("policy %q has no statement: write for example \"permit(principal, action, resource);\"",
			source.Name)
	}
	all := make([]named, 0, len(list))
	for _, policy := range list {
		all = append(all, read(source.Name, policy))
	}
	return all, nil
}

func readEntities(text string) (all types.EntityMap, err error) {
	switch {
	case text == "":
		return nil, nil
	case nests(text, deepest):
		return nil, fmt.Errorf("entities: they nest more than %d levels deep: write fewer records and sets in one another",
			deepest)
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("entities: %w: write a list of Cedar entities, or leave the field out", err)
	}
	return all, nil
}

// refersTo notes the groups to which a value of the entities leads: a policy can ask for
// one that it does not name, as in principal in resource.blocked.
func (p *Policies) refersTo(value types.Value) {
	switch v := value.(type) {
	case types.EntityUID:
		p.looksAt(string(v.Type))
	case types.Set:
		for element := range v.All() {
			p.refersTo(element)
		}
	case types.Record:
		for element := range v.Values() {
			p.refersTo(element)
		}
	}
}

// looksAt notes what a policy, or the type of an entity, names, so that nothing else
// is made for each call. Neither can be written in another way in a policy.
func (p *Policies) looksAt(text string) {
	p.contextual = p.contextual || strings.Contains(text, "context")
	for _, kind := range groups {
		if strings.Contains(text, string(kind)) && !slices.Contains(p.groups, kind) {
			p.groups = append(p.groups, kind)
		}
	}
}

// position is how the parser says where it stopped.
var position = regexp.MustCompile(`^.*<input>:(\d+):(\d+) (.*)$`)

func wrongText(name string, err error) error {
	const instead = `write Cedar there, for example "permit(principal, action, resource);"`
	if at := position.FindStringSubmatch(err.Error()); at != nil {
		return fmt.Errorf("policy %q, line %s, column %s: %s: %s", name, at[1], at[2], at[3], instead)
	}
	return fmt.Errorf("policy %q: %w: %s", name, err, instead)
}

package authz

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
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
}

type named struct {
	name   string
	policy *cedar.Policy
}

// Parse reads policies, and entities as Cedar's JSON has them (empty for none).
// An error names the policy, line and column.
func Parse(sources []Source, entities string) (*Policies, error) {
	p := &Policies{}
	for _, source := range sources {
		list, err := cedar.NewPolicyListFromBytes(source.Name, []byte(source.Text))
		if err != nil {
			return nil, wrongText(source.Name, err)
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("policy %q has no statement: write for example \"permit(principal, action, resource);\"", source.Name)
		}
		for _, policy := range list {
			p.all = append(p.all, named{source.Name, policy})
		}
	}
	// A decision names policies in this order, whatever the order they came in.
	slices.SortStableFunc(p.all, func(a, b named) int { return cmp.Compare(a.name, b.name) })
	if entities != "" {
		if err := json.Unmarshal([]byte(entities), &p.entities); err != nil {
			return nil, fmt.Errorf("entities: %w: write a list of Cedar entities, or leave the field out", err)
		}
	}
	return p, nil
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

// Unmatchable says of each policy that names an action or a type of entity which
// no call ever has, so that the policy, or a part of it, never applies. It is
// sorted, and empty if there is none.
func (p *Policies) Unmatchable() []string {
	own := map[string]bool{}
	for uid := range p.entities {
		own[string(uid.Type)] = true
	}
	var found []string
	for _, n := range p.all {
		text, err := n.policy.MarshalJSON()
		if err != nil {
			continue // a policy that was parsed can be written
		}
		var tree any
		if json.Unmarshal(text, &tree) != nil {
			continue
		}
		mentioned(tree, func(kind, id string) {
			switch {
			case kind == "Action" && !slices.Contains(actions, id):
				found = append(found, fmt.Sprintf("policy %q names Action::%q, which no call has: write one of %s", n.name, id, strings.Join(actions, ", ")))
			case kind != "Action" && !slices.Contains(kinds, kind) && !own[kind]:
				found = append(found, fmt.Sprintf("policy %q names %s::%q: no call and none of the entities has this type", n.name, kind, id))
			}
		})
	}
	slices.Sort(found)
	return slices.Compact(found)
}

var (
	actions = []string{CallTool, GetPrompt, ReadResource, ListTools, ListPrompts, ListResources}
	kinds   = []string{"Client", Tool, Prompt, Resource, FeatureType}
)

// mentioned calls say for each entity that Cedar's JSON form of a policy names
// (https://docs.cedarpolicy.com/policies/json-format.html).
func mentioned(tree any, say func(kind, id string)) {
	switch node := tree.(type) {
	case []any:
		for _, each := range node {
			mentioned(each, say)
		}
	case map[string]any:
		kind, typed := node["type"].(string)
		id, named := node["id"].(string)
		if typed && named && len(node) == 2 {
			say(kind, id)
		}
		for _, each := range node {
			mentioned(each, say)
		}
	}
}

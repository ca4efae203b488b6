package authz

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

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

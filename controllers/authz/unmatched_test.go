package authz

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	actions   = `Action::"call_tool", Action::"get_prompt", Action::"read_resource", Action::"list_tools", Action::"list_prompts", Action::"list_resources"`
	resources = `Tool::"NAME", Prompt::"NAME", Resource::"URI", FeatureType::"tool", FeatureType::"prompt", FeatureType::"resource"`
)

func TestUnmatchedNamesWhatNoCallCanBe(t *testing.T) {
	for text, want := range map[string]string{
		`permit(principal == User::"ann", action, resource);`:                          `principal == User::"ann" matches nothing: principals are Client::"NAME", in Group::"NAME"`,
		`permit(principal == Group::"dev", action, resource);`:                         `principal == Group::"dev" matches nothing: principals are Client::"NAME", in Group::"NAME"`,
		`permit(principal is User, action, resource);`:                                 `principal is User matches nothing: principals are Client::"NAME", in Group::"NAME"`,
		`permit(principal in Team::"dev", action, resource);`:                          `principal in Team::"dev" matches nothing: principals are Client::"NAME", in Group::"NAME"`,
		`permit(principal is Client in Team::"dev", action, resource);`:                `principal is Client in Team::"dev" matches nothing: principals are Client::"NAME", in Group::"NAME"`,
		`permit(principal, action == Action::"call_tols", resource);`:                  `action == Action::"call_tols" matches nothing: actions are ` + actions,
		`permit(principal, action == Act::"call_tool", resource);`:                     `action == Act::"call_tool" matches nothing: actions are ` + actions,
		`permit(principal, action in [Action::"a", Action::"b"], resource);`:           `action in [Action::"a", Action::"b"] matches nothing: actions are ` + actions,
		`permit(principal, action, resource == MCP::Tool::"a");`:                       `resource == MCP::Tool::"a" matches nothing: resources are ` + resources,
		`permit(principal, action, resource == FeatureType::"tools");`:                 `resource == FeatureType::"tools" matches nothing: resources are ` + resources,
		`permit(principal, action, resource is Tols);`:                                 `resource is Tols matches nothing: resources are ` + resources,
		`permit(principal, action == Action::"call_tool", resource == Prompt::"a");`:   `action == Action::"call_tool" with resource == Prompt::"a" matches nothing: call_tool has Tool::"NAME"`,
		`forbid(principal, action == Action::"read_resource", resource is Tool);`:      `action == Action::"read_resource" with resource is Tool matches nothing: read_resource has Resource::"URI"`,
		`permit(principal, action == Action::"list_tools", resource == Tool::"a");`:    `action == Action::"list_tools" with resource == Tool::"a" matches nothing: list_tools has FeatureType::"tool"`,
		`permit(principal, action == Action::"call_tool", resource in Group::"none");`: `resource in Group::"none" matches nothing: resources are ` + resources,
	} {
		got, err := Unmatched([]Source{{"team", "permit(principal, action, resource);\n  " + text}}, "")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Problem{{"team", 2, 3, want}}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	want := `policy "team", line 2, column 3: nothing`
	if got := (Problem{"team", 2, 3, "nothing"}).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A false alarm makes its reader delete a policy that guards, so each scope that can
// be written in these words is held against each call that can be made of them.
func TestUnmatchedIsWhatNoCallMatches(t *testing.T) {
	entities := `[
		{"uid":{"type":"Client","id":"ann"},"attrs":{},"parents":[{"type":"Team","id":"a"}]},
		{"uid":{"type":"Team","id":"a"},"attrs":{},"parents":[{"type":"Unit","id":"dev"},{"type":"Team","id":"a"}]},
		{"uid":{"type":"Group","id":"b"},"attrs":{},"parents":[{"type":"Site","id":"x"}]},
		{"uid":{"type":"Action","id":"call_tool"},"attrs":{},"parents":[{"type":"Action","id":"write"}]},
		{"uid":{"type":"Tool","id":"a"},"attrs":{},"parents":[{"type":"Shelf","id":"a"}]}]`
	principals := []string{
		``, ` == Client::"bob"`, ` == Group::"b"`, ` is Client`, ` is User`, ` in Client::"bob"`, ` in Team::"a"`,
		` in Team::"c"`, ` in Unit::"dev"`,
		` in Group::"any"`, ` in THVGroup::"any"`, ` in Site::"x"`, ` is Client in Unit::"dev"`, ` is User in Unit::"dev"`,
	}
	actions := []string{
		``, ` == Action::"call_tool"`, ` == Action::"read_resource"`, ` == Action::"list_tools"`, ` == Action::"write"`,
		` == Act::"call_tool"`,
		` in Action::"write"`, ` in Action::"get_prompt"`, ` in Action::"none"`, ` in [Action::"none", Action::"write"]`,
		` in [Action::"call_tool", Action::"get_prompt"]`, ` in []`,
	}
	resources := []string{
		``, ` == Tool::"a"`, ` == Prompt::"a"`, ` == FeatureType::"tool"`, ` == FeatureType::"tools"`, ` is Tool`,
		` is FeatureType`, ` is Tols`,
		` in Shelf::"a"`, ` in Shelf::"b"`, ` in Resource::"a"`, ` is Tool in Shelf::"a"`, ` is Prompt in Shelf::"a"`,
	}
	callers := []Caller{{Subject: "ann"}, {Subject: "bob", Groups: []string{"any", "b"}}}
	var every []Call
	for _, c := range calls {
		if c.ID != "" {
			every = append(every, c)
			continue
		}
		every = append(every, Call{Action: c.Action, Type: c.Type, ID: "a"}, Call{Action: c.Action, Type: c.Type, ID: "b"})
	}
	for _, principal := range principals {
		for _, action := range actions {
			for _, resource := range resources {
				text := "permit(principal" + principal + ", action" + action + ", resource" + resource + ");"
				policies, err := Parse([]Source{{"team", text}}, entities)
				if err != nil {
					t.Fatal(err)
				}
				matched := slices.ContainsFunc(callers, func(who Caller) bool {
					return slices.ContainsFunc(every, func(c Call) bool { return policies.Decide(who, c).Allowed })
				})
				said, err := Unmatched([]Source{{"team", text}}, entities)
				if err != nil || matched != (said == nil) {
					t.Errorf("%s matches a call: %t, and is said to match none: %v", text, matched, said)
				}
			}
		}
	}
}

// What a policy tests beside its scope is not judged.
func TestUnmatchedDoesNotJudgeConditions(t *testing.T) {
	got, err := Unmatched([]Source{{"team", `forbid(principal, action, resource) when { principal in User::"x" };`}}, "")
	if err != nil || got != nil {
		t.Error(got, err)
	}
}

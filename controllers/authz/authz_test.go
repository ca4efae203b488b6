package authz

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

var user = Caller{
	Subject: "ann",
	Claims:  jsontext.Value(`{"sub":"ann","roles":["dev"],"level":3,"org":{"unit":"a"},"gone":null}`),
	Groups:  []string{"dev", "ops"},
}

func tool(name, arguments string) Call {
	return Call{Action: CallTool, Type: Tool, ID: name, Arguments: jsontext.Value(arguments)}
}

// nested are groups within groups.
const nested = `[{"uid":{"type":"Group","id":"dev"},"attrs":{},"parents":[{"type":"Group","id":"staff"}]},
	{"uid":{"type":"\u0047roup","id":"ops"},"attrs":{},"parents":[{"type":"Team","id":"b"}]},
	{"uid":{"type":"Client","id":"ann"},"attrs":{},"parents":[{"type":"Team","id":"a"}]}]`

func TestDecide(t *testing.T) {
	owned := `[{"uid":{"type":"Tool","id":"report"},"attrs":{"owner":"ann"},"parents":[{"type":"Tool","id":"internal"}]}]`
	for name, tc := range map[string]struct {
		policies string
		entities string
		call     Call
		allowed  bool
		visible  bool
	}{
		"nothing permits": {`permit(principal, action, resource == Tool::"b");`, "", tool("a", ""), false, false},
		"the tool is permitted": {
			`permit(principal, action == Action::"call_tool", resource == Tool::"a");`, "",
			tool("a", ""), true, true,
		},
		"forbid wins": {
			`permit(principal, action, resource); forbid(principal, action, resource == Tool::"a");`,
			"", tool("a", ""), false, false,
		},
		"the subject":     {`permit(principal == Client::"ann", action, resource);`, "", tool("a", ""), true, true},
		"another subject": {`permit(principal == Client::"bob", action, resource);`, "", tool("a", ""), false, false},
		"a claim that is a list": {
			`permit(principal, action, resource) when { principal.claim_roles.contains("dev") };`, "",
			tool("a", ""), true, true,
		},
		"a claim in the context": {
			`permit(principal, action, resource) when { context.claim_level >= 3 };`, "",
			tool("a", ""), true, true,
		},
		"a claim in a claim": {
			`permit(principal, action, resource) when { principal.claim_org.unit == "a" };`, "",
			tool("a", ""), true, true,
		},
		"null is absent": {
			`permit(principal, action, resource) when { principal has claim_gone };`, "",
			tool("a", ""), false, false,
		},
		"an argument": {
			`permit(principal, action, resource) when { resource.arg_n < 5 };`, "",
			tool("a", `{"n":4}`), true, true,
		},
		"a whole float": {
			`permit(principal, action, resource) when { context.arg_n == 4 };`, "",
			tool("a", `{"n":4.0}`), true, true,
		},
		"an argument of the list": {
			`permit(principal, action, resource) when { resource.arg_n < 5 };`, "", tool("a", ""),
			false, true,
		},
		"a forbidden argument": {
			`permit(principal, action, resource); forbid(principal, action, resource) when { resource.arg_p like "/etc/*" };`,
			"", tool("a", `{"p":"/etc/x"}`), false, true,
		},
		"another argument": {
			`permit(principal, action, resource); forbid(principal, action, resource) when { resource.arg_p like "/etc/*" };`,
			"", tool("a", `{"p":"/tmp/x"}`), true, true,
		},
		"an argument that makes a forbid fail": {
			`permit(principal, action, resource); forbid(principal, action, resource) when { resource.arg_p like "/etc/*" };`,
			"", tool("a", `{"p":["/etc/x"]}`), false, true,
		},
		"an argument without a value in Cedar": {
			`permit(principal, action, resource) when { resource has arg_p };`, "",
			tool("a", `{"p":1e300}`), false, false,
		},
		"an argument that no policy reads": {
			`permit(principal, action, resource);`, "", tool("a", `{"p":1e300}`), true,
			true,
		},
		"an attribute of an entity": {
			`permit(principal, action, resource) when { resource.owner == principal.claim_sub };`, owned, tool("report", ""),
			true, true,
		},
		"an argument is no attribute": {
			`permit(principal, action, resource) when { resource.owner == "ann" };`, "",
			tool("a", `{"owner":"ann"}`), false, true,
		},
		"a group of tools": {
			`permit(principal, action, resource in Tool::"internal");`, owned,
			tool("report", ""), true, true,
		},
		"a group": {
			`permit(principal in Group::"ops", action, resource);`, "", tool("a", ""), true,
			true,
		},
		"a group of ToolHive's": {
			`permit(principal is Client in THVGroup::"ops", action, resource);`, "",
			tool("a", ""), true, true,
		},
		"another group": {
			`permit(principal in Group::"admins", action, resource);`, "", tool("a", ""),
			false, false,
		},
		"a group that is forbidden": {
			`permit(principal, action, resource); forbid(principal, action, resource) when { principal in Group::"dev" };`, "",
			tool("a", ""), false, false,
		},
		"a group in a group": {
			`permit(principal in Group::"staff", action, resource);`, nested, tool("a", ""),
			true, true,
		},
		"a group that entities alone name": {
			`permit(principal in Team::"b", action, resource);`, nested, tool("a", ""), true,
			true,
		},
		"a parent beside the groups": {
			`permit(principal in Team::"a", action, resource);`, nested, tool("a", ""), true,
			true,
		},
		"a URI": {
			`permit(principal, action == Action::"read_resource", resource == Resource::"file:///a");`, "",
			Call{Action: ReadResource, Type: Resource, ID: "file:///a"},
			true, true,
		},
		"a list": {
			`permit(principal, action == Action::"list_tools", resource == FeatureType::"tool");`, "",
			Call{Action: ListTools, Type: FeatureType, ID: "tool"},
			true, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			policies, err := Parse([]Source{{"p", tc.policies}}, tc.entities)
			if err != nil {
				t.Fatal(err)
			}
			if got := policies.Decide(user, tc.call); got.Allowed != tc.allowed {
				t.Errorf("decided %+v, want allowed %t", got, tc.allowed)
			}
			if got := policies.Visible(user, tc.call.Action, tc.call.Type)(tc.call.ID); got != tc.visible {
				t.Errorf("visible is %t, want %t", got, tc.visible)
			}
		})
	}
	if (&Policies{}).Decide(user, tool("a", "")).Allowed {
		t.Error("no policies permit a call")
	}
}

// TestAGroupThatNoPolicyNames asks for the groups that entities name.
func TestAGroupThatNoPolicyNames(t *testing.T) {
	for name, tc := range map[string]struct {
		blocked, entity string
		allowed         bool
	}{
		"an attribute": {"resource.blocked", `"attrs":{"blocked":{"__entity":{"type":"Gr\u006fup","id":"ops"}}}`, false},
		"a list":       {"resource.blocked", `"attrs":{"blocked":[{"__entity":{"type":"THVGroup","id":"ops"}}]}`, false},
		"a record": {
			"resource.blocked.team", `"attrs":{"blocked":{"team":{"__entity":{"type":"Group","id":"ops"}}}}`,
			false,
		},
		"a tag": {
			`resource.getTag("blocked")`,
			`"attrs":{},"tags":{"blocked":{"__entity":{"type":"Group","id":"ops"}}}`, false,
		},
		"another's group": {"resource.blocked", `"attrs":{"blocked":{"__entity":{"type":"Group","id":"admins"}}}`, true},
	} {
		policies, err := Parse([]Source{{
			"p",
			"permit(principal, action, resource); forbid(principal, action, resource) when { principal in " + tc.blocked + " };",
		}},
			`[{"uid":{"type":"Tool","id":"a"},"parents":[],`+tc.entity+`}]`)
		if err != nil {
			t.Fatal(err)
		}
		if got := policies.Decide(user, tool("a", "")); got.Allowed != tc.allowed || len(got.Failed) > 0 {
			t.Errorf("%s: decided %+v, want allowed %t", name, got, tc.allowed)
		}
	}
}

func TestADecisionNamesThePoliciesThatDecided(t *testing.T) {
	policies, err := Parse([]Source{
		{"z", `permit(principal, action, resource);`},
		{"a", `permit(principal, action, resource);`},
		{"broken", `permit(principal, action, resource) when { context.none };`},
		{"no", `forbid(principal, action, resource == Tool::"x");`},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[string]Decision{
		"a": {Allowed: true, Policies: []string{"a", "z"}, Failed: []string{"broken"}},
		"x": {Policies: []string{"no"}, Failed: []string{"broken"}},
	} {
		if diff := cmp.Diff(want, policies.Decide(user, tool(call, ""))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", call, diff)
		}
	}
}

func TestParseSaysWhereAPolicyIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		text, entities string
		want           []string
	}{
		"syntax": {"permit(principal,\n  action resource);", "", []string{`policy "team", line 2, column 18: ")"`}},
		"endless": {"permit(principal, action, resource) when {\n " + strings.Repeat("(", 40) + "context" +
			strings.Repeat(" has a.b)", 40) + "};", "", []string{`policy "team", line 2, column `, "stands for more than"}},
		"a hidden path": {
			"permit(principal, action, resource) when { context has a" +
				strings.Repeat(" /* \" */ . // (\n a", 1000) + "};", "",
			[]string{`policy "team", line 1, column 52: the text stands for more than`},
		},
		"nothing":         {" // later", "", []string{`policy "team" has no statement`}},
		"entities":        {"permit(principal, action, resource);", "{", []string{"entities: "}},
		"entity no array": {"permit(principal, action, resource);", "7", []string{"entities: "}},
		"deep brackets": {
			when(strings.Repeat("(", 4000) + "true" + strings.Repeat(")", 4000)), "",
			[]string{`policy "team", line 1, column 143: the text nests more than 100 levels`},
		},
		"deep and open": {when(strings.Repeat("[", 16000)), "", []string{"the text nests more than 100 levels"}},
		"deep conditions": {
			when(strings.Repeat("if true then true else ", 600) + "true"), "",
			[]string{"the text nests more than 100 levels"},
		},
		"deep branches": {
			when(strings.Repeat("if true then ", 500) + "true" + strings.Repeat(" else true", 500)), "",
			[]string{"the text nests more than 100 levels"},
		},
		"long chains": {when("context" + strings.Repeat(".a", 8000)), "", []string{"more than 500 dots and signs"}},
		"long sums":   {when("1" + strings.Repeat("+1", 8000) + " == 1"), "", []string{"more than 500 dots and signs"}},
		"deep signs":  {when(strings.Repeat("!", 16000) + "true"), "", []string{"the text nests more than 100 levels"}},
		"deep entities": {
			"permit(principal, action, resource);",
			`[{"uid":{"type":"T","id":"x"},"parents":[],"attrs":{"a":` + strings.Repeat(`{"a":`, 9000) + "1" +
				strings.Repeat("}", 9000) + "}}]",
			[]string{"entities: they nest more than 100 levels"},
		},
	} {
		_, err := Parse([]Source{{"team", tc.text}}, tc.entities)
		_, also := Unmatched([]Source{{"team", tc.text}}, tc.entities)
		for _, want := range tc.want {
			if err == nil || also == nil || !strings.Contains(err.Error(), want) || err.Error() != also.Error() {
				t.Errorf("%s: got %v and %v, want %q in it", name, err, also, want)
			}
		}
	}
}

// A text that is deep enough is read, however long.
func TestNestedPoliciesAreRead(t *testing.T) {
	for _, text := range []string{
		when(strings.Repeat("(", 90) + "true" + strings.Repeat(")", 90)), when(strings.Repeat("(true) && ", 1000) + "true"),
		when("[" + strings.Repeat("if true then 1 else 2, ", 500) + "3] == 4"),
		when("true" + strings.Repeat(" && !(-1 > 2)", 500)),
		strings.Repeat("permit(principal, action, resource) when { if true then true else false };", 200),
	} {
		if _, err := Parse([]Source{{"team", text}}, ""); err != nil {
			t.Errorf("%.60s: %v", text, err)
		}
	}
}

func when(condition string) string {
	return "permit(principal, action, resource) when { " + condition + " };"
}

// FuzzDecide holds any arguments to: no panic, and nothing is allowed that is forbidden without a condition.
func FuzzDecide(f *testing.F) {
	policies, err := Parse([]Source{
		{"p", `permit(principal, action, resource) when { resource.arg_a == 1 || context.arg_a.b like "x*" };`},
		{"f", `forbid(principal, action, resource == Tool::"no");`},
	}, "")
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"a":1}`, `{"a":{"b":"xy"}}`, `{"a":[1,[2,{"c":null}]]}`, `{"a":1e999}`, `[]`,
		`{"a":1,"a":2}`, `{"uid":0.00001}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, arguments string) {
		if policies.Decide(user, tool("no", arguments)).Allowed {
			t.Errorf("%q is allowed", arguments)
		}
		first, second := policies.Decide(user, tool("a", arguments)), policies.Decide(user, tool("a", arguments))
		if diff := cmp.Diff(first, second); diff != "" {
			t.Errorf("%q is decided in two ways: %s", arguments, diff)
		}
	})
}

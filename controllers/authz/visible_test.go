package authz

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/go-json-experiment/json/jsontext"
)

// asked one by one, with nothing decided for a list.
func oneByOne(p *Policies, caller Caller, call Call) bool {
	if caller.ready == nil {
		caller = caller.Ready()
	}
	request, _, err := p.request(caller, call)
	if err != nil {
		return false
	}
	about := &world{Policies: p, caller: caller.ready, request: request, arguments: own(call.Action, call.Type, call.ID)}
	decision, told := cedar.Authorize(asked{p.all, request}, about, request)
	if decision == cedar.Deny && len(told.Reasons) > 0 {
		return false
	}
	return decision == cedar.Allow || slices.ContainsFunc(told.Errors, func(e cedar.DiagnosticError) bool {
		return p.all[indexOf(e.PolicyID)].policy.Effect() == cedar.Permit
	})
}

// What policies are made of, of each form that Cedar has.
var (
	principalScopes = []string{
		"principal", `principal == Client::"ann"`, `principal == Client::"bob"`, `principal in Group::"dev"`,
		`principal is Client`, `principal is Client in THVGroup::"ops"`, `principal in Tool::"a"`, `principal is Tool`,
	}
	actionScopes = []string{
		"action", `action == Action::"call_tool"`, `action == Action::"read_resource"`, `action in Action::"call_tool"`,
		`action in [Action::"get_prompt", Action::"call_tool"]`,
	}
	resourceScopes = []string{
		"resource", `resource == Tool::"a"`, `resource == Prompt::"a"`, `resource is Tool`, `resource is Resource`,
		`resource in Tool::"internal"`, `resource is Tool in Tool::"internal"`, `resource in Client::"ann"`,
	}
	conditions = []string{
		"", "true", "false", "principal.claim_level >= 3", "principal.claim_level >= 4", "principal.none",
		`principal.claim_roles.contains("dev")`, `principal in Group::"dev"`, `principal in Group::"none"`,
		`principal == Client::"ann"`, `principal has claim_org.unit`, "context.claim_level == 3", "context has arg_n",
		"context.arg_n < 5", `context == {}`, "context.none || true", `resource.name == "a"`, `resource.name like "*b"`,
		"resource.arg_n < 5", "resource has arg_n && resource.arg_n < 5", `resource has owner && resource.owner == "ann"`,
		`resource.operation == "call"`, `resource == Tool::"a"`, `resource in Tool::"internal"`, "resource is Prompt",
		`Tool::"a".name == "a"`, `Tool::"a" has name`, `Tool::"b" has uri`, `Tool::"a" has owner`, `Resource::"b" has uri`,
		`[Tool::"b"].contains(resource)`, `{a: Tool::"b"}.a has name`, `principal has owns && principal.owns has name`,
		`principal has owns && principal.owns.name == "b"`, `principal.hasTag("t") && principal.getTag("t") has name`,
		`action has leads && action.leads has name`, `Group::"dev" has leads && Group::"dev".leads.all.contains(resource)`,
		`Group::"dev" has leads && Group::"dev".leads.one has name`, "1 + principal.claim_level == 4", "if true then 1 else 2",
		`decimal("1.0") == decimal("1.0")`, `decimal("x") == decimal("1.0")`, `"type" == "Tool"`, `{type: "Tool"}.type == "Tool"`,
	}
	surroundings = []string{
		"",
		`[{"uid":{"type":"Tool","id":"a"},"attrs":{"owner":"ann"},"parents":[{"type":"Tool","id":"internal"}]},
			{"uid":{"type":"Group","id":"dev"},"attrs":{},"parents":[{"type":"Tool","id":"a"}]}]`,
		`[{"uid":{"type":"Client","id":"ann"},"attrs":{"owns":{"__entity":{"type":"Tool","id":"b"}}},"parents":[]},
			{"uid":{"type":"Action","id":"call_tool"},"attrs":{"leads":{"__entity":{"type":"Tool","id":"a"}}},"parents":[]}]`,
		`[{"uid":{"type":"Client","id":"ann"},"attrs":{},"tags":{"t":{"__entity":{"type":"Tool","id":"b"}}},"parents":[]}]`,
		`[{"uid":{"type":"Group","id":"dev"},"attrs":{"leads":{"one":{"__entity":{"type":"Tool","id":"a"}},
			"all":[{"__entity":{"type":"Tool","id":"b"}}]}},"parents":[]}]`,
	}
	callers = []Caller{
		user, user.Ready(),
		{Subject: Anonymous},
		{Subject: "bob", Groups: []string{"ops"}},
		{Subject: "ann", Claims: jsontext.Value(`{"n":1e300}`)},
	}
	lists = []Call{
		{Action: CallTool, Type: Tool}, {Action: GetPrompt, Type: Prompt}, {Action: ReadResource, Type: Resource},
	}
)

// made are policies, of which the next numbers say what they are made of.
func made(next func(n int) int) string {
	var text strings.Builder
	pick := func(from []string) string { return from[next(len(from))] }
	for range 1 + next(3) {
		fmt.Fprintf(&text, "%s(%s, %s, %s)", pick([]string{"permit", "forbid"}), pick(principalScopes), pick(actionScopes),
			pick(resourceScopes))
		for range next(3) {
			if condition := pick(conditions); condition != "" {
				fmt.Fprintf(&text, " %s { %s }", pick([]string{"when", "unless"}), condition)
			}
		}
		text.WriteString(";\n")
	}
	return text.String()
}

// agree holds what a list shows against what its items are asked one by one.
func agree(t *testing.T, text, entities string) (shown, hidden int) {
	t.Helper()
	p, err := Parse([]Source{{"p", text}}, entities)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	for _, caller := range callers {
		for _, call := range lists {
			visible := p.Visible(caller, call.Action, call.Type)
			for _, call.ID = range []string{"a", "b", "internal", "", "a"} {
				got, want := visible(call.ID), oneByOne(p, caller, call)
				if got != want {
					t.Errorf("%s%s\n%s sees %s %q: %t, asked alone %t", text, entities, caller.Subject, call.Type, call.ID, got, want)
				}
				if want {
					shown++
				} else {
					hidden++
				}
			}
		}
	}
	return shown, hidden
}

// A list shows what its items, asked one by one, would be shown as: for each condition alone, and for policies of all
// forms together.
func TestAListShowsWhatItsItemsAreAsked(t *testing.T) {
	shown, hidden := 0, 0
	add := func(text, entities string) {
		some, others := agree(t, text, entities)
		shown, hidden = shown+some, hidden+others
	}
	for _, entities := range surroundings {
		for _, condition := range conditions[1:] {
			add("permit(principal, action, resource) when { "+condition+" };", entities)
			add("permit(principal, action, resource); forbid(principal, action, resource) unless { "+condition+" };", entities)
		}
		for _, resource := range resourceScopes {
			for _, principal := range principalScopes {
				add(fmt.Sprintf("permit(%s, action, %s);", principal, resource), entities)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		add(made(random.IntN), surroundings[random.IntN(len(surroundings))])
	}
	if shown < hidden/20 || hidden < shown/20 {
		t.Errorf("%d items are shown and %d hidden, which tells little", shown, hidden)
	}
}

// FuzzVisible is TestAListShowsWhatItsItemsAreAsked for more policies.
func FuzzVisible(f *testing.F) {
	f.Add([]byte("0123456789abcdefgh"))
	f.Fuzz(func(t *testing.T, numbers []byte) {
		next := func(n int) int {
			if len(numbers) == 0 {
				return 0
			}
			number := int(numbers[0])
			numbers = numbers[1:]
			return number % n
		}
		entities := surroundings[next(len(surroundings))]
		agree(t, made(next), entities)
	})
}

// BenchmarkVisible judges a list of 20 tools by 20 policies, of which two look at each.
func BenchmarkVisible(b *testing.B) {
	p, caller := twenty(b)
	for b.Loop() {
		visible := p.Visible(caller, CallTool, Tool)
		for n := range 20 {
			visible(names20[n])
		}
	}
}

// BenchmarkDecide judges a call by them.
func BenchmarkDecide(b *testing.B) {
	p, caller := twenty(b)
	for b.Loop() {
		p.Decide(caller, tool("do", `{"text":"hello"}`))
	}
}

var names20 = func() (all []string) {
	for n := range 20 {
		all = append(all, fmt.Sprintf("do-%d-%s", n, []string{"even", "odd"}[n%2]))
	}
	return all
}()

func twenty(b *testing.B) (*Policies, Caller) {
	b.Helper()
	b.ReportAllocs()
	text := `permit(principal in Group::"dev", action == Action::"call_tool", resource) when { principal.claim_level >= 3 };
		forbid(principal, action == Action::"call_tool", resource)
		when { resource.name like "*-odd" || resource has arg_path && resource.arg_path like "/etc/*" };`
	for n := range 18 {
		text += fmt.Sprintf(`permit(principal in Group::"team-%d", action == Action::"call_tool", resource == Tool::"tool-%d")
			when { resource.arg_n < %d };`, n, n, n)
	}
	p, err := Parse([]Source{{"p", text}}, "")
	if err != nil {
		b.Fatal(err)
	}
	return p, user.Ready()
}

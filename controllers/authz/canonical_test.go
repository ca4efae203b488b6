package authz

import (
	"runtime"
	"strings"
	"testing"
)

func TestPoliciesOfOneMeaningHaveOneForm(t *testing.T) {
	one := `permit(principal, action == Action::"call_tool", resource == Tool::"add") when { resource.arg_a < 3 && context.arg_b in [1, 2] };
@id("x") forbid(principal in Group::"all", action, resource) unless { principal has claim_sub };`
	other := `// who may add
forbid ( principal in Group::"all", action, resource,
) unless { principal has claim_sub };
permit(principal, action == Action::"call_tool", resource == Tool::"add")
	when { resource.arg_a < 3
	&& context.arg_b in [1,2] }; // two`
	for what, tc := range map[string]struct{ a, b string }{
		"spaces and comments": {
			"permit(principal,action,resource);",
			" permit ( principal ,\n action, resource ) ; // all",
		},
		"the order of policies": {
			"permit(principal,action,resource);forbid(principal,action,resource);",
			"forbid(principal,action,resource);permit(principal,action,resource);",
		},
		"a policy that is twice": {
			"permit(principal,action,resource);",
			"permit(principal,action,resource);permit(principal,action,resource);",
		},
		"the order of a record": {
			`permit(principal,action,resource) when { context == {a: 1, "b c": "\u{0}\"\n"} };`,
			`permit(principal,action,resource) when { context == {"a":1,"b c":"\0\"\n"} };`,
		},
	} {
		if a, b := Canonical(tc.a), Canonical(tc.b); a != b {
			t.Errorf("%s: two forms, %s and %s", what, a, b)
		}
		if form := Canonical(tc.a); Canonical(form) != form {
			t.Errorf("%s: the form has another form, %s", what, Canonical(form))
		}
	}
	if Canonical(one) == Canonical(other) {
		t.Error("an annotation is lost")
	}
	for _, wrong := range []string{"", "permit(", "// nothing"} {
		if got := Canonical(wrong); got != wrong {
			t.Errorf("%q became %q", wrong, got)
		}
	}
}

func TestEntitiesOfOneMeaningHaveOneForm(t *testing.T) {
	one := `[{"uid":{"type":"Tool","id":"b"},"parents":[{"type":"G","id":"y"},{"type":"G","id":"x"}],"attrs":{"n":1,"s":["b","a",{"z":1,"y":true}]}},
		{"uid":{"type":"Tool","id":"a"},"parents":[],"attrs":{"ip":{"__extn":{"fn":"ip","arg":"10.0.0.1"}},"o":{"__entity":{"type":"Tool","id":"b"}}}}]`
	other := `[ {"attrs":{"o":{"__entity":{"id":"b","type":"Tool"}},"ip":{"__extn":{"fn":"ip","arg":"10.0.0.1"}}},"parents":[],"uid":{"__entity":{"type":"Tool","id":"a"}}, "tags":{}},
		{"uid":{"type":"Tool","id":"b"},"parents":[{"type":"G","id":"x"},{"type":"G","id":"y"}],"attrs":{"s":["a",{"y":true,"z":1},"b"],"n":1}}]`
	form := CanonicalEntities(one)
	for range 20 {
		if again := CanonicalEntities(other); again != form {
			t.Fatalf("two forms, %s and %s", form, again)
		}
	}
	if CanonicalEntities(form) != form {
		t.Error("the form has another form")
	}
	for _, wrong := range []string{"", "{", `[{"uid":1}]`} {
		if got := CanonicalEntities(wrong); got != wrong {
			t.Errorf("%q became %q", wrong, got)
		}
	}
}

// TestTheFormOfLongTextIsCheap counts bytes, for time depends on the machine: what took
// time by the square of how deep a text nests took memory by it too.
func TestTheFormOfLongTextIsCheap(t *testing.T) {
	const policy, most = 16 << 10, 64 << 20 // bytes that the API takes, and that making their form may
	for what, tc := range map[string]struct {
		form func(string) string
		text string
	}{
		"attributes of attributes": {Canonical, when("context" + strings.Repeat(".a", policy/2-40))},
		"a path":                   {Canonical, when("context has a" + strings.Repeat(".a", policy/2-40))},
		"paths in paths":           {Canonical, when(strings.Repeat("(", 40) + "context" + strings.Repeat(" has a.b)", 40))},
		"paths in paths in a row": {
			Canonical,
			when("true" + strings.Repeat(" && "+strings.Repeat("(", 13)+"context"+strings.Repeat(" has a.b)", 13), 100)),
		},
		"many short paths": {Canonical, when("context has a.b" + strings.Repeat(" && context has a.b", policy/19-10))},
		"paths of ten": {
			Canonical,
			when("context has a" + strings.Repeat(" && context has a.b.c.d.e.f.g.h.i.j", policy/35-10)),
		},
		"a long condition": {Canonical, when("true" + strings.Repeat(" && true", policy/8-10))},
		"sets in sets": {
			Canonical,
			when(strings.Repeat("[", policy/2-40) + strings.Repeat("]", policy/2-40) + " == 1"),
		},
		"records in records": {
			CanonicalEntities,
			`[{"uid":{"type":"T","id":"x"},"parents":[],"attrs":{"a":` + strings.Repeat(`{"a":`, 9000) + "1" +
				strings.Repeat("}", 9000) + `}}]`,
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if form := tc.form(tc.text); len(form) > 4*len(tc.text) {
			t.Errorf("%s: %d bytes of text became %d", what, len(tc.text), len(form))
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > most {
			t.Errorf("%s: %d bytes of text take %d MiB", what, len(tc.text), took>>20)
		}
	}
}

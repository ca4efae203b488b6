package authz

import (
	"strings"
	"testing"
	"unicode"
)

// The policies of TestDecide_NamesThatAServerMayTakeForOthers.
const (
	aboutPermit   = `permit(principal, action, resource) when { resource.arg_path like "/data/*" };`
	aboutForbid   = `permit(principal, action, resource); forbid(principal, action, resource) when { resource has arg_path && resource.arg_path like "/etc/*" };`
	aboutContext  = `permit(principal, action, resource); forbid(principal, action, resource) when { context has arg_path };`
	aboutQuoted   = `permit(principal, action, resource); forbid(principal, action, resource) when { resource has "arg_file-path" };`
	aboutInner    = `permit(principal, action, resource); forbid(principal, action, resource) when { resource has arg_options.path };`
	aboutChosen   = `permit(principal, action, resource); forbid(principal, action, resource) when { (if resource has arg_b then resource.arg_b else resource.arg_a) has path };`
	aboutRecord   = `permit(principal, action, resource); forbid(principal, action, resource) when { resource has arg_o && resource.arg_o == {"path": 1} };`
	aboutListed   = `permit(principal, action, resource); forbid(principal, action, resource) when { resource has arg_o && [{"path": 1}].contains(resource.arg_o) };`
	aboutWhole    = `permit(principal, action, resource); forbid(principal, action, resource) when { context == {"arg_path": 1} };`
	aboutBlocked  = `permit(principal, action, resource); forbid(principal, action, resource) when { resource has arg_o && resource.blocked.contains(resource.arg_o) };`
	aboutBoth     = `permit(principal, action, resource); forbid(principal, action, resource) when { resource has arg_path || resource has arg_Path };`
	aboutAnother  = `permit(principal, action, resource); forbid(principal, action, resource == Tool::"b") when { resource has arg_path };`
	aboutOwner    = `permit(principal, action, resource) when { resource.name == "a" && principal.claim_org.unit == "a" };`
	aboutEntities = `[{"uid":{"type":"Tool","id":"a"},"attrs":{"blocked":[{"path":1}]},"parents":[]}]`
)

// namedCase is a decision about arguments; unclear is what is said of their names, "" for nothing.
type namedCase struct {
	policies, arguments string
	unclear             string
}

func namedCases() map[string]namedCase {
	return map[string]namedCase{
		"another case beside it":          {aboutPermit, `{"path":"/data/a","Path":"/etc/shadow"}`, `"path" and "Path"`},
		"another case alone, permit":      {aboutPermit, `{"PATH":"/data/a"}`, `"PATH", which some servers take for "path"`},
		"another case alone, forbid":      {aboutForbid, `{"PATH":"/etc/shadow"}`, `write "path"`},
		"escaped":                         {aboutForbid, `{"\u0050ath":"/etc/shadow"}`, `"Path"`},
		"in the context":                  {aboutContext, `{"Path":1}`, `"Path"`},
		"a name in quotes":                {aboutQuoted, `{"file-Path":1}`, `"file-Path"`},
		"a dash for an underscore":        {aboutQuoted, `{"file_path":1}`, `"file_path"`},
		"without the dash":                {aboutQuoted, `{"filePath":1}`, `"filePath"`},
		"within an object":                {aboutInner, `{"options":{"Path":1}}`, `"Path"`},
		"the object":                      {aboutInner, `{"Options":{"path":1}}`, `"Options"`},
		"within either object":            {aboutChosen, `{"a":{"Path":1}}`, `"Path"`},
		"compared with a record":          {aboutRecord, `{"o":{"Path":1}}`, `"Path"`},
		"compared with records of a list": {aboutListed, `{"o":{"Path":1}}`, `"Path"`},
		"compared as a whole":             {aboutWhole, `{"Path":1}`, `"Path"`},
		"compared with entities":          {aboutBlocked, `{"o":{"Path":1}}`, `"Path"`},
		"twice, of no policy":             {aboutOwner, `{"a":1,"A":1}`, `"a" and "A"`},
		"twice, deep":                     {aboutOwner, `{"l":[[],{"o":{"straße":1,"STRAẞE":1}}]}`, `"straße" and "STRAẞE"`},
		"a long s": {
			`permit(principal, action, resource) when { resource has arg_class };`,
			`{"claſs":1}`, `write "class"`,
		},
		"a Turkish i": {
			`permit(principal, action, resource) when { resource has arg_file };`, `{"fıle":1}`,
			`write "file"`,
		},
		"as written":               {aboutForbid, `{"path":"/data/a"}`, ""},
		"another name":             {aboutForbid, `{"paths":["Path"],"o":{"OTHER":1}}`, ""},
		"in two objects":           {aboutOwner, `{"l":[{"a":1},{"A":1}],"o":{"A":1},"a":{}}`, ""},
		"both are mentioned":       {aboutBoth, `{"Path":1}`, ""},
		"both, at once":            {aboutBoth, `{"Path":1,"path":1}`, `"Path" and "path"`},
		"neither of both":          {aboutBoth, `{"PATH":1}`, `"PATH"`},
		"of another tool":          {aboutAnother, `{"Path":1}`, ""},
		"an attribute of the tool": {aboutOwner, `{"Name":1,"Unit":1,"o":{"Unit":2}}`, ""},
		"no arguments":             {aboutForbid, ``, ""},
		"null":                     {aboutForbid, `null`, ""},
	}
}

func TestDecide_NamesThatAServerMayTakeForOthers(t *testing.T) {
	for name, tc := range namedCases() {
		t.Run(name, func(t *testing.T) {
			policies, err := Parse([]Source{{"p", tc.policies}}, aboutEntities)
			if err != nil {
				t.Fatal(err)
			}
			got := policies.Decide(user, tool("a", tc.arguments))
			if (got.Unclear == "") != (tc.unclear == "") || !strings.Contains(got.Unclear, tc.unclear) ||
				got.Unclear != "" && got.Allowed {
				t.Errorf("decided %+v, want unclear with %q", got, tc.unclear)
			}
		})
	}
}

// What Go's encoding/json takes for the same letter folds alike.
func TestUncased_IsAsWideAsSimpleFolding(t *testing.T) {
	for r := range rune(unicode.MaxRune + 1) {
		if next := unicode.SimpleFold(r); uncased(r) != uncased(next) {
			t.Errorf("%q and %q fold alike, uncased makes %q and %q of them", r, next, uncased(r), uncased(next))
		}
	}
}

package admission

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// capitals stand in names of identities and objects for somebody's name, as
// SERVER does for a server's.
var capitals = regexp.MustCompile("[A-Z]+")

// cut is what stands before and after the capitals of a name.
func cut(pattern string) (before, after string, found bool) {
	at := capitals.FindStringIndex(pattern)
	if at == nil {
		return pattern, "", false
	}
	return pattern[:at[0]], pattern[at[1]:], true
}

const serviceAccount = "system:serviceaccount:"

// Requests as CEL sees them: what is empty is absent.
const (
	user        = "request.?userInfo.?username.orValue('')"
	manager     = "request.?options.?fieldManager.orValue('')"
	subresource = "request.?subResource.orValue('')"
	name        = "request.?name.orValue('')"
	namespace   = "request.?namespace.orValue('')"
)

// account begins the name of a ServiceAccount of the request's namespace.
func account(before string) string {
	return text(serviceAccount) + " + " + namespace + " + " + text(":"+before)
}

// ours matches the requests that the policy looks at: everything else must
// not notice that it is there.
func (k compiler) ours() (string, error) {
	conditions := []string{
		manager + " in " + texts(slices.Sorted(maps.Keys(k.managers()))),
		user + " in " + texts(k.fixed()),
	}
	before, after, found, err := k.perName()
	if found {
		conditions = append(conditions, fmt.Sprintf("%s.startsWith(%s) && %s.endsWith(%s)", user, account(before), user, text(after)))
	}
	return strings.Join(conditions, " ||\n"), err
}

// fixed are the users behind the identities that hold nobody's name.
func (k compiler) fixed() []string {
	var users []string
	for _, identity := range k.contract.Identities() {
		if !capitals.MatchString(identity) {
			users = append(users, k.user(identity))
		}
	}
	return users
}

func (k compiler) user(identity string) string {
	return serviceAccount + k.Namespace + ":" + identity
}

// perName is what stands before and after somebody's name in the identity that
// holds one.
func (k compiler) perName() (before, after string, found bool, err error) {
	for _, identity := range k.contract.Identities() {
		b, a, names := cut(identity)
		if names && found {
			return "", "", true, fmt.Errorf("identity %s is the second one that holds somebody's name", identity)
		}
		if names {
			before, after, found = b, a, true
		}
	}
	return before, after, found, nil
}

// asker are the variables that say who sends the request (identity), whose the
// manager is that it names (owner), both in the words of the contract and empty
// if not ours, and whether that manager has a grant on this object at all.
func (k compiler) asker() ([]admissionregistrationv1.Variable, error) {
	variables := []admissionregistrationv1.Variable{
		{Name: "user", Expression: user},
		{Name: "manager", Expression: manager},
		{Name: "subresource", Expression: subresource},
		{Name: "name", Expression: name},
	}
	if before, after, found, err := k.perName(); err != nil {
		return nil, err
	} else if found {
		variables = append(variables, admissionregistrationv1.Variable{Name: "whose", Expression: whose(before, after)})
	}
	return append(variables,
		admissionregistrationv1.Variable{Name: "identity", Expression: k.identity()},
		admissionregistrationv1.Variable{Name: "owner", Expression: table(k.managers()) + "[?variables.manager].orValue('')"},
		admissionregistrationv1.Variable{Name: "granted", Expression: k.granted()},
	), nil
}

// whose is the name that the asker's ServiceAccount holds, which makes it the
// identity of that; empty if it is none of the request's namespace.
func whose(before, after string) string {
	return fmt.Sprintf("variables.user.startsWith(%[1]s) && variables.user.endsWith(%[2]s) &&\n"+
		"variables.user.size() > (%[1]s).size() + %[3]d ?\n"+
		"variables.user.substring((%[1]s).size(), variables.user.size() - %[3]d) : ''",
		account(before), text(after), len(after))
}

// identity is who asks, in the words of the contract; empty if it is nobody of
// ours. A ServiceAccount with the name of a server's identity is one only at
// the objects of that server: elsewhere it may be anybody's, who happens to
// call it so.
func (k compiler) identity() string {
	var cases []string
	for _, identity := range k.contract.Identities() {
		is := "variables.user in " + texts([]string{k.user(identity)})
		if capitals.MatchString(identity) {
			is = "variables.whose != '' && (" + k.namesOfWhose() + ")"
		}
		cases = append(cases, fmt.Sprintf("%s ? %s :", is, text(identity)))
	}
	return strings.Join(append(cases, "''"), "\n")
}

// namesOfWhose says that the object is one of those of the name that the asker
// holds.
func (k compiler) namesOfWhose() string {
	var patterns []string
	for _, g := range k.grants() {
		patterns = append(patterns, g.Names...)
	}
	slices.Sort(patterns)
	var named []string
	for _, pattern := range slices.Compact(patterns) {
		if !capitals.MatchString(pattern) {
			continue // everybody's
		}
		named = append(named, isNamed(pattern, true))
	}
	if len(named) == 0 {
		return "false"
	}
	return strings.Join(named, " || ")
}

// isNamed says that the object's name fits a pattern of a grant, with the name
// that the asker holds in the place of capitals, or any.
func isNamed(pattern string, bind bool) string {
	if !bind {
		return fmt.Sprintf("variables.name.matches(%s)", text(ownership.NameExpression(pattern)))
	}
	before, _, wild := strings.Cut(pattern, "*")
	if !wild {
		return "variables.name == " + bound(pattern)
	}
	rest := ownership.NameExpression(strings.TrimPrefix(pattern, before))
	return fmt.Sprintf("(variables.name.startsWith(%[1]s) && variables.name.substring((%[1]s).size()).matches(%[2]s))", bound(before), text(rest))
}

// bound is a name in which the asker's stands in the place of capitals.
func bound(pattern string) string {
	before, after, found := cut(pattern)
	if !found {
		return text(pattern)
	}
	bound := "variables.whose"
	if before != "" {
		bound = text(before) + " + " + bound
	}
	if after != "" {
		bound += " + " + text(after)
	}
	return bound
}

// granted says that the manager has a grant on this object.
func (k compiler) granted() string {
	var cases []string
	for _, g := range k.grants() {
		terms := []string{at(g)}
		var named []string
		for _, pattern := range g.Names {
			named = append(named, isNamed(pattern, capitals.MatchString(g.Identity)))
		}
		if len(named) > 0 {
			terms = append(terms, "("+strings.Join(named, " || ")+")")
		}
		cases = append(cases, strings.Join(terms, " && "))
	}
	return strings.Join(cases, " ||\n")
}

// at says, in CEL, that the request is under the grant's manager at the grant's object.
func at(g ownership.Grant) string {
	return fmt.Sprintf("variables.manager == %s && variables.subresource == %s", text(string(g.Manager)), text(g.Object.Subresource))
}

// table is a map literal of CEL.
func table(m map[string]string) string {
	rows := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		rows = append(rows, text(key)+": "+text(m[key]))
	}
	return "{\n" + strings.Join(rows, ",\n") + "\n}"
}

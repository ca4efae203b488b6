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

// capitals are placeholders in names of identities and objects, as SERVER is for a server's name.
var capitals = regexp.MustCompile("[A-Z]+")

// cut splits a name at its capitals.
func cut(pattern string) (before, word, after string) {
	at := capitals.FindStringIndex(pattern)
	if at == nil {
		return pattern, "", ""
	}
	return pattern[:at[0]], pattern[at[0]:at[1]], pattern[at[1]:]
}

const serviceAccount = "system:serviceaccount:"

// asked are the variables that do not need the object; empty means absent. The match condition binds them too, under
// the same name, because it has no variables of its own.
var asked = []admissionregistrationv1.Variable{
	{Name: "user", Expression: "request.?userInfo.?username.orValue('')"},
	// The type of options is open.
	{Name: "manager", Expression: "string(request.?options.?fieldManager.orValue(''))"},
	{Name: "subresource", Expression: "request.?subResource.orValue('')"},
	{Name: "name", Expression: "request.?name.orValue('')"},
}

// user is the CEL expression of the user's name.
var user = asked[0].Expression

// account is the start of the name of a ServiceAccount in the request's namespace.
func account(before string) string {
	return text(serviceAccount) + " + request.?namespace.orValue('') + " + text(":"+before)
}

// personal are the identities with a placeholder in their name.
func (k compiler) personal() []string {
	return slices.DeleteFunc(k.contract.Identities(),
		func(identity string) bool { return !capitals.MatchString(identity) })
}

// whose is the variable with the name in the asker's ServiceAccount if that is a personal identity, else empty.
func (k compiler) whose(identity string) string {
	return fmt.Sprintf("whose%d", slices.Index(k.personal(), identity))
}

// holders are the variables with the names that the asker's ServiceAccount may contain: empty if it has no such form
// in the request's namespace.
func (k compiler) holders() []admissionregistrationv1.Variable {
	var variables []admissionregistrationv1.Variable
	for _, identity := range k.personal() {
		before, _, after := cut(identity)
		variables = append(variables, admissionregistrationv1.Variable{Name: k.whose(identity), Expression: fmt.Sprintf(
			"%[1]s.startsWith(%[2]s) && %[1]s.endsWith(%[3]s) && %[1]s.size() > (%[2]s).size() + %[4]d ?\n"+
				"%[1]s.substring((%[2]s).size(), %[1]s.size() - %[4]d) : ''", user, account(before), text(after), len(after))})
	}
	return variables
}

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

// asker are the variables with the identities of the asker, the owner of the named manager, both empty if not ours, and
// whether that manager has a grant on this object. One ServiceAccount may have the name of several personal identities.
func (k compiler) asker() []admissionregistrationv1.Variable {
	var identities, granted []string
	for _, identity := range k.contract.Identities() {
		identities = append(identities, fmt.Sprintf("(%s ? [%s] : [])", k.is(identity), text(identity)))
	}
	for _, g := range k.grants() {
		granted = append(granted, k.at(g))
	}
	return slices.Concat(asked, k.holders(), []admissionregistrationv1.Variable{
		{Name: "identities", Expression: strings.Join(identities, " +\n")},
		{Name: "owner", Expression: table(k.managers()) + "[?variables.manager].orValue('')"},
		{Name: "granted", Expression: strings.Join(granted, " ||\n")},
	})
}

// is: the asker is an identity. A ServiceAccount with the name of a server's identity counts only at the objects of
// that server: elsewhere anybody may use the name.
func (k compiler) is(identity string) string {
	_, word, _ := cut(identity)
	if word == "" {
		return "variables.user in " + texts([]string{k.user(identity)})
	}
	var named []string
	for _, g := range k.grants() {
		for _, pattern := range g.Names {
			// Names without capitals are everybody's.
			if _, of, _ := cut(pattern); of == word {
				named = append(named, k.named(pattern, identity))
			}
		}
	}
	if len(named) == 0 {
		return "false"
	}
	slices.Sort(named)
	return fmt.Sprintf("variables.%s != '' && (%s)", k.whose(identity), strings.Join(slices.Compact(named), " || "))
}

// named: the object's name matches a pattern of a grant. Capitals match the name in a personal identity, or any name
// for others.
func (k compiler) named(pattern, identity string) string {
	if !capitals.MatchString(identity) {
		return fmt.Sprintf("variables.name.matches(%s)", text(ownership.NameExpression(pattern)))
	}
	first, _, wild := strings.Cut(pattern, "*")
	before, word, after := cut(first)
	bound := text(first)
	if word != "" {
		bound = "variables." + k.whose(identity)
		if before != "" {
			bound = text(before) + " + " + bound
		}
		if after != "" {
			bound += " + " + text(after)
		}
	}
	if !wild {
		return "variables.name == " + bound
	}
	rest := ownership.NameExpression(strings.TrimPrefix(pattern, first))
	return fmt.Sprintf("(variables.name.startsWith(%[1]s) && variables.name.substring((%[1]s).size()).matches(%[2]s))",
		bound, text(rest))
}

// at: the request is under the grant's manager at an object of the grant.
func (k compiler) at(g ownership.Grant) string {
	terms := []string{under(g)}
	var named []string
	for _, pattern := range g.Names {
		named = append(named, k.named(pattern, g.Identity))
	}
	if len(named) > 0 {
		terms = append(terms, "("+strings.Join(named, " || ")+")")
	}
	if g.Once {
		terms = append(terms, "oldObject == null")
	}
	return strings.Join(terms, " && ")
}

// under: the request is under the grant's manager at the grant's kind.
func under(g ownership.Grant) string {
	return fmt.Sprintf("variables.manager == %s && variables.subresource == %s", text(string(g.Manager)),
		text(g.Object.Subresource))
}

func table(m map[string]string) string {
	rows := make([]string, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		rows = append(rows, text(key)+": "+text(m[key]))
	}
	return "{\n" + strings.Join(rows, ",\n") + "\n}"
}

package admission

import (
	"fmt"
	"strings"
)

// Messages say what was asked, which rule applies, and what to do. They are CEL, because they name the asker.

// namedFields is how many fields a message names before it only counts them.
const namedFields = 10

// ownNames answers an identity of ours that writes under another name.
func (k compiler) ownNames() string {
	return join(
		"variables.user", text(fmt.Sprintf(" belongs to %s, which writes %s only under the field managers of that "+
			"identity, but this request ", k.Product, k.kind.Kind)),
		`(variables.manager == '' ? 'names none' : 'names "' + variables.manager + '"')`,
		text(fmt.Sprintf(": send it as a server-side apply under the manager that %s gives the fields to, or, as a person, "+
			"from an account of your own", k.Page)),
	)
}

// ourNames answers another identity that writes under a name of ours.
func (k compiler) ourNames() string {
	return join(
		text("field manager "), "variables.manager", text(fmt.Sprintf(" is %s's, for its ServiceAccount ", k.Product)),
		"variables.owner", text(" alone, and "), "variables.user",
		text(" is not that: write under a name of your own, for example with kubectl apply --server-side "+
			"--field-manager=my-team"),
	)
}

// noGrant answers an identity of ours at an object that is not its manager's.
func (k compiler) noGrant() string {
	return join(
		text("field manager "), "variables.manager", text(fmt.Sprintf(" has no grant on %s", k.resource)),
		"(variables.subresource == '' ? '' : '/' + variables.subresource)", text(" "), "variables.name",
		text(fmt.Sprintf(": %s says what it may write", k.Page)),
	)
}

// noUpdate answers a create, an update, or a patch that is no apply.
func (k compiler) noUpdate() string {
	return join(
		text("field manager "), "variables.manager",
		text(" writes by server-side apply alone, and this request is a create, an update or a patch of another kind: "+
			"send what the manager states as an apply, or write under another manager"),
	)
}

// hidden answers a write that managedFields do not record.
func (k compiler) hidden() string {
	return join(
		text("field manager "), "variables.manager",
		text(" has to be seen in metadata.managedFields, and after this request there are none, "+
			"because it resets them, or updates an object that has none: send what the manager states as an apply, and leave "+
			"metadata.managedFields out"),
	)
}

// tooMuch answers an apply that states more than its manager's grant.
func (k compiler) tooMuch() string {
	return join(
		text("field manager "), "variables.manager", text(fmt.Sprintf(" may write of this %s only ", k.kind.Kind)),
		"variables.allowed",
		text(", and this request adds "),
		listed("variables.outside", "fields"),
		text(": leave that out, or write it under the manager whose it is"),
	)
}

// beyond answers a pod template that exceeds baseline.
func (k compiler) beyond() string {
	return join(
		text("field manager "), "variables.manager",
		text(fmt.Sprintf(" keeps the pods of a %s within the baseline Pod Security Standard, and with this request ",
			k.kind.Kind)),
		listed("variables.opened", "things are beyond it"),
		text(": leave that out"),
	)
}

// noLabel answers an identity of ours that creates what a policy would not examine.
func (k compiler) noLabel() string {
	return join(
		user, text(fmt.Sprintf(" belongs to %s, which writes no ", k.Product)), "request.kind.kind",
		text(fmt.Sprintf(" without the label %s=%s: send it with that label, or, as a person, from an account of your own",
			k.Label.Key, k.Label.Value)),
	)
}

// listed names the items of a list of texts, or one and the count, because the API server drops a message that is too
// long.
func listed(list, what string) string {
	return fmt.Sprintf("(%[1]s.size() > %[2]d ? string(%[1]s.size()) + ' %[3]s, among them ' + %[1]s[0] : %[1]s.join(', "+
		"'))", list, namedFields, what)
}

func join(parts ...string) string { return strings.Join(parts, " +\n") }

package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// suspicious is the policy's match condition: false for most allowed requests, and true for each one that a
// validation refuses.
//
// API servers up to 1.36 convert the object and the old object for the condition, and three times more for
// validations, messages and audit annotations, even if those read neither. That is most of a policy's cost, so an
// allowed request ends here.
func (k compiler) suspicious() (string, error) {
	var bound, innocent []string
	ours := []string{
		"variables.manager in " + texts(slices.Sorted(maps.Keys(k.managers()))),
		"variables.user in " + texts(k.fixed()),
	}
	for _, v := range asked {
		bound = append(bound, text(v.Name)+": "+v.Expression)
	}
	for _, g := range k.grants() {
		clean, err := clean(g)
		if err != nil {
			return "", err
		}
		innocent = append(innocent, k.at(g)+" && "+k.is(g.Identity)+" &&\n"+clean)
	}
	for _, v := range k.holders() {
		if variable := "variables." + v.Name; strings.Contains(strings.Join(innocent, ""), variable) {
			bound, ours = append(bound, text(v.Name)+": "+v.Expression), append(ours, variable+" != ''")
		} else {
			ours = append(ours, "("+v.Expression+") != ''")
		}
	}
	suspicions := []string{fmt.Sprintf("[{%s}].exists(variables, (%s) && !(\n%s))",
		strings.Join(bound, ",\n"), strings.Join(ours, " || "), strings.Join(innocent, " ||\n"))}
	for _, rule := range k.Rules[k.kind.GroupKind()] {
		suspicions = append(suspicions, "("+rule.Broken+")")
	}
	return strings.Join(suspicions, " ||\n"), nil
}

// clean: the grant's manager has an entry by apply in managedFields and no other, all its fields are in the grant,
// and a pod template which the grant confines is within baseline.
func clean(g ownership.Grant) (string, error) {
	root, err := tree(g)
	if err != nil {
		return "", err
	}
	elsewhere := "has(e.subresource)"
	if g.Object.Subresource != "" {
		elsewhere = "(!has(e.subresource) || e.subresource != " + text(g.Object.Subresource) + ")"
	}
	const entries = "dyn(object).metadata.managedFields"
	clean := fmt.Sprintf("has(%[1]s) && %[1]s.exists(e, e.manager == variables.manager && !%[2]s) &&\n"+
		"%[1]s.all(e, e.manager != variables.manager || e.operation == 'Apply' && (%[2]s || has(e.fieldsV1) &&\n%[3]s))",
		entries, elsewhere, root.within("e.fieldsV1", 0))
	if g.Baseline {
		clean += " &&\n![dyn(object).spec.template].exists(t,\n" + unusual() + ")"
	}
	return clean, nil
}

package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// suspicious is the policy's match condition: it is false for most requests that
// no validation refuses, and for none that one does.
//
// API servers up to 1.36 convert the object and the old object for the condition,
// and three times more for validations, messages and audit annotations, whether
// those read them or not. That is most of what a policy costs, so a request that
// is right ends here.
func (k compiler) suspicious() (string, error) {
	var bound, innocent []string
	for _, v := range append(slices.Clone(asked), k.holders()...) {
		bound = append(bound, text(v.Name)+": dyn("+v.Expression+")")
	}
	ours := []string{
		"variables.manager in " + texts(slices.Sorted(maps.Keys(k.managers()))),
		"variables.user in " + texts(k.fixed()),
	}
	for _, identity := range k.personal() {
		ours = append(ours, "variables."+k.whose(identity)+" != ''")
	}
	for _, g := range k.grants() {
		clean, err := clean(g)
		if err != nil {
			return "", err
		}
		innocent = append(innocent, k.at(g)+" && "+k.is(g.Identity)+" &&\n"+clean)
	}
	suspicions := []string{fmt.Sprintf("[{%s}].exists(variables, (%s) && !(\n%s))",
		strings.Join(bound, ",\n"), strings.Join(ours, " || "), strings.Join(innocent, " ||\n"))}
	for _, rule := range k.Rules[k.kind.GroupKind()] {
		suspicions = append(suspicions, "("+rule.Broken+")")
	}
	return strings.Join(suspicions, " ||\n"), nil
}

// clean says that the grant's manager has an entry by apply in managedFields and
// none of another operation, that all the entry holds is in the grant, and that
// a pod template which the grant confines is within baseline.
func clean(g ownership.Grant) (string, error) {
	root, err := tree(g)
	if err != nil {
		return "", err
	}
	here := "e.?subresource.orValue('') == " + text(g.Object.Subresource)
	clean := fmt.Sprintf("[dyn(object).metadata.?managedFields.orValue([]).filter(e, e.manager == variables.manager)].exists(mine,\n"+
		"mine.exists(e, %[1]s) && mine.all(e, e.operation == 'Apply' && (!(%[1]s) || [e.?fieldsV1.orValue({})].exists(f,\n%[2]s))))",
		here, strings.Join(root.within(nil), " &&\n"))
	if g.Baseline {
		clean += " &&\n" + openings("[dyn(object).spec.template]") + ".all(open, open.size() == 0)"
	}
	return clean, nil
}

package model

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// rule is one invariant, named by its violation.
type rule string

const (
	mispredicted   rule = "a field has another owner than the API server's field manager says"
	strayed        rule = "a manager of ours holds what it was not granted, or otherwise than by an apply"
	sharedField    rule = "two managers of ours hold one field"
	foreignChanged rule = "a write of ours changed a field of somebody else"
	resurrected    rule = "a write about an object that had gone reached, or made, another one"
	clobbered      rule = "a birth changed an object that existed"
	unseen         rule = "a decision was written over a version that it was not made on"
	adopted        rule = "a child was given to an owner that goes, or that nobody looked at first"
	disowned       rule = "what a server did not control was deleted for it"
	uncallable     rule = "a write of ours took the port at which proxies call from the Service of a backend"
	needless       rule = "a write of ours changed nothing, and its process could have known"
	lostField      rule = "at rest a field that is ours alone is not in its manager's entry"
	leftBehind     rule = "after its release something of ours remains"
	noRest         rule = "the managers never come to rest"
	notQuiet       rule = "a manager wrote although nothing happened"
	failing        rule = "a pass fails although nothing happened"
	byPolicy       rule = "a policy refused a write of ours"
	byRole         rule = "a role refused a request of ours"
	letThrough     rule = "a write that a policy forbids got through"
	wrongCount     rule = "at rest a configuration says something else than who refers to it"
	wrongHold      rule = "at rest a configuration is not held exactly while it is referred to"
)

// checker holds the invariants against all that happens.
type checker struct {
	scenario *scenario
	findings []finding
	// stated is what each manager stated last, by the object it stated it of.
	stated map[stating]*fieldpath.Set
	// refused are those whose last statement the API server found invalid.
	refused map[refusal]bool
}

type refusal struct{ of, manager string }

type stating struct {
	of          key
	uid         types.UID
	manager     ownership.Manager
	subresource string
}

type finding struct {
	rule rule
	what string
}

func (j *checker) found(r rule, format string, args ...any) {
	j.findings = append(j.findings, finding{r, fmt.Sprintf(format, args...)})
	j.scenario.note("VIOLATION: %s: %s", r, fmt.Sprintf(format, args...))
}

// violated reports whether a rule was broken.
func (j *checker) violated(r rule) bool {
	return slices.ContainsFunc(j.findings, func(f finding) bool { return f.rule == r })
}

// answered notes whether the API server finds valid what a manager states. It may not: another applier can hold an item
// of a list which alone makes no sense, and nobody but that applier, or a person, can remove it. The server's status
// says so, which must not be refused itself.
func (j *checker) answered(o *operation) {
	if j.refused == nil {
		j.refused = map[refusal]bool{}
	}
	j.refused[refusal{o.of.String(), o.Manager}] = o.main() && o.Code == http.StatusUnprocessableEntity
}

// carriedOut judges an operation that the API server took.
func (j *checker) carriedOut(o *operation) {
	if o.answer == nil {
		j.removal(o)
		return
	}
	j.ownership(o)
	j.held(o)
	if o.by == nil {
		j.changes(o)
		return
	}
	if o.Verb == "delete" {
		j.removal(o)
		return
	}
	// Who takes the last finalizer away is answered with the version that was.
	gone := j.scenario.world.stands[o.of] == nil
	changed := gone || uidOf(o.before) != uidOf(o.answer) || versionOf(o.before) != versionOf(o.answer)
	if !changed {
		// A look at the API server says whether a decision holds, and not what others have reported since.
		looked := j.scenario.slots != nil && o.by.live[o.of] != nil && o.of.kind == contract.MCPServer.Kind
		if o.by.known[o.of] == versionOf(o.before) && !looked {
			j.found(needless, "%s by %s", o, o.by)
		}
		return
	}
	switch uid := o.answer.GetUID(); o.Verb {
	case "patch":
		j.scenario.moved[uid] = metav1.GetControllerOf(o.answer) == nil
	case "apply":
		delete(j.scenario.moved, uid)
	}
	j.premise(o)
	j.adoption(o)
	j.others(o)
	j.callable(o)
	j.remember(o)
}

// changes counts changes of how a server is called.
func (j *checker) changes(o *operation) {
	if o.of != (key{contract.MCPServer.Kind, j.scenario.name}) || o.before == nil || uidOf(o.before) != uidOf(o.answer) {
		return
	}
	for _, field := range []string{"port", "transport"} {
		before, _, _ := unstructured.NestedFieldNoCopy(o.before.Object, "spec", field)
		if after, _, _ := unstructured.NestedFieldNoCopy(o.answer.Object, "spec", field); before != after {
			j.scenario.tally["change of "+field]++
		}
	}
}

// callable judges whether proxies of the content before, whatever port and transport that has, still find the backend.
func (j *checker) callable(o *operation) {
	name := j.scenario.name
	if o.of.kind != contract.Service.Kind || o.before == nil || !callPort(o.before) ||
		!slices.Contains([]string{workload.Slot1.Name(name), workload.Slot2.Name(name)}, o.of.name) {
		return
	}
	if !callPort(o.answer) {
		j.found(uncallable, "%s by %s", o, o.by)
	}
}

// callPort reports whether a Service leads from the port of calls to that of the pods.
func callPort(service *unstructured.Unstructured) bool {
	ports, _, _ := unstructured.NestedSlice(service.Object, "spec", "ports")
	return slices.ContainsFunc(ports, func(p any) bool {
		port := p.(map[string]any)
		return port["port"] == int64(runconfig.CallPort) && port["targetPort"] == podtemplate.PortMCP
	})
}

// ownership compares the record of owners with what the field manager predicts.
func (j *checker) ownership(o *operation) {
	want, err := predict(o)
	if err != nil {
		j.found(mispredicted, "%v", err)
		return
	}
	have, err := ownersOf(o.answer)
	if err != nil {
		j.scenario.broke(err)
		return
	}
	if !maps.Equal(want, have) {
		j.found(mispredicted, "%s: %s", o, difference(want, have))
	}
}

func difference(want, have owners) string {
	var parts []string
	for owner, fields := range want {
		if have[owner] != fields {
			parts = append(parts, fmt.Sprintf("%v holds %q, predicted %q", owner, have[owner], fields))
		}
	}
	for owner, fields := range have {
		if _, known := want[owner]; !known {
			parts = append(parts, fmt.Sprintf("%v holds %q, predicted nothing", owner, fields))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

// held judges what our managers hold, whoever wrote last.
func (j *checker) held(o *operation) {
	freehold := contract.Freehold()
	ours := fieldpath.NewSet()
	for _, entry := range entriesOf(o.answer) {
		if !freehold.Claims(entry.Manager) {
			continue
		}
		fields, err := ownership.Fields(entry)
		if err != nil {
			j.scenario.broke(err)
			return
		}
		grant, granted := freehold.Grant(ownership.Manager(entry.Manager),
			ownership.Object{GroupVersionKind: o.answer.GroupVersionKind(), Subresource: entry.Subresource}, o.of.name)
		outside := grant.Outside(fields)
		if !granted || entry.Operation != metav1.ManagedFieldsOperationApply || len(outside) > 0 {
			j.found(strayed, "%s: %s holds %s by %s", o, entry.Manager, outside, entry.Operation)
		}
		if both := ours.Intersection(fields.Leaves()); !both.Empty() {
			j.found(sharedField, "%s: %s of %s and another", o, both, entry.Manager)
		}
		ours = ours.Union(fields.Leaves())
	}
}

// premise judges whether a write rests on what was so.
func (j *checker) premise(o *operation) {
	read := o.by.read(o.of)
	grant, _ := contract.Freehold().Grant(ownership.Manager(o.Manager),
		ownership.Object{GroupVersionKind: o.answer.GroupVersionKind(), Subresource: o.subresource()}, o.of.name)
	switch {
	// A status never creates, and the API server ignores its uid: what lands on
	// the next server of the name is corrected by the pass that sees that one.
	case !o.main() && !grant.Versioned:
	// A birth says itself that nothing has the name, whatever was there before.
	case o.before == nil && (grant.Once || isBirth(o)):
	case read != nil && uidOf(read) != uidOf(o.before):
		j.found(resurrected, "%s by %s, which knew %s at %q", o, o.by, o.of, versionOf(read))
	case read == nil && o.before != nil:
		j.found(clobbered, "%s by %s, which knew of none", o, o.by)
	case grant.Versioned && versionOf(read) != versionOf(o.before):
		j.found(unseen, "%s by %s, which knew version %q of %q", o, o.by, versionOf(read), versionOf(o.before))
	}
}

// adoption judges a write that gives an owner to an object that had none: its process has
// looked at the owner itself, and that stayed.
func (j *checker) adoption(o *operation) {
	owner := metav1.GetControllerOf(o.answer)
	if owner == nil || owner.Kind != contract.MCPServer.Kind || o.before == nil || uidOf(o.before) != uidOf(o.answer) ||
		metav1.GetControllerOf(o.before) != nil {
		return
	}
	looked := o.by.live[key{owner.Kind, owner.Name}]
	if looked == nil || looked.GetUID() != owner.UID || looked.GetDeletionTimestamp() != nil {
		j.found(adopted, "%s by %s", o, o.by)
	}
	j.scenario.tally["adopted"]++
}

// removal judges a deletion of ours.
func (j *checker) removal(o *operation) {
	if o.by == nil {
		return
	}
	if owner := metav1.GetControllerOf(o.before); owner == nil || owner.Kind != contract.MCPServer.Kind {
		j.found(disowned, "%s by %s", o, o.by)
	}
	if read := o.by.read(o.of); uidOf(read) != uidOf(o.before) {
		j.found(resurrected, "%s by %s, which knew another", o, o.by)
	}
}

// others judges whether a write changed what is not its manager's.
func (j *checker) others(o *operation) {
	if o.before == nil || uidOf(o.before) != uidOf(o.answer) {
		return
	}
	changed, err := changedLeaves(o.before, o.answer)
	if err != nil {
		j.scenario.broke(err)
		return
	}
	grant, _ := contract.Freehold().Grant(ownership.Manager(o.Manager),
		ownership.Object{GroupVersionKind: o.answer.GroupVersionKind(), Subresource: o.subresource()}, o.of.name)
	mine, theirs := fieldpath.NewSet(), fieldpath.NewSet()
	sort := func(object *unstructured.Unstructured, isBefore bool) {
		for _, entry := range entriesOf(object) {
			fields, err := ownership.Fields(entry)
			switch {
			case err != nil:
				j.scenario.broke(err)
			case entry.Manager == o.Manager:
				mine = mine.Union(fields)
			case isBefore:
				theirs = theirs.Union(fields)
			}
		}
	}
	sort(o.before, true)
	sort(o.answer, false)
	present, err := fieldsOf(o.answer)
	if err != nil {
		j.scenario.broke(err)
		return
	}
	changed.Iterate(func(field fieldpath.Path) {
		ours := grant.Covers(field) && (mine.Has(field) || withItem(field, mine, present))
		if theirs.Has(field) && !ours && !mirrored.Equals(field[len(field)-1]) {
			j.found(foreignChanged, "%s: %s", o, field)
		}
	})
}

// mirrored is the old name of a pod's serviceAccountName: the API server writes what either says into both.
var mirrored = fieldpath.FieldNameElement("serviceAccount")

// withItem reports whether field went with the item that it was in, such as a
// condition, which mine no longer state: what others had put into it goes too.
func withItem(field fieldpath.Path, mine, present *fieldpath.Set) bool {
	for i := len(field) - 1; i >= 0; i-- {
		if field[i].FieldName == nil {
			return mine.Has(field[:i+1]) && !present.Has(field[:i+1])
		}
	}
	return false
}

func fieldsOf(o *unstructured.Unstructured) (*fieldpath.Set, error) {
	managers, err := managersOf(o.GetKind())
	if err != nil {
		return nil, err
	}
	value, err := managers.Types.ObjectToTyped(o, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	return value.ToFieldSet()
}

func changedLeaves(before, after *unstructured.Unstructured) (*fieldpath.Set, error) {
	managers, err := managersOf(before.GetKind())
	if err != nil {
		return nil, err
	}
	was, err := managers.Types.ObjectToTyped(before, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	is, err := managers.Types.ObjectToTyped(after, typed.AllowDuplicates)
	if err != nil {
		return nil, err
	}
	c, err := was.Compare(is)
	if err != nil {
		return nil, err
	}
	return c.Added.Union(c.Modified).Union(c.Removed).Leaves(), nil
}

// remember notes what a manager states.
func (j *checker) remember(o *operation) {
	if o.Verb != "apply" {
		return
	}
	manager := ownership.Manager(o.Manager)
	stated, err := ownership.Applied(o.answer.GetManagedFields(), manager, o.subresource())
	if err != nil {
		j.scenario.broke(err)
		return
	}
	if j.stated == nil {
		j.stated = map[stating]*fieldpath.Set{}
	}
	j.stated[stating{o.of, uidOf(o.answer), manager, o.subresource()}] = stated
}

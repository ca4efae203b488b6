package ownership

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Verdict is whether the contract allows that a manager owns a field.
type Verdict string

const (
	// Ours is a field of the manager's grant, owned by an apply.
	Ours Verdict = "ours"
	// Foreign is a field that the contract gives to no manager, owned by a manager outside the contract. Nothing of the
	// contract touches it.
	Foreign Verdict = "foreign"
	// Taken is a field that the contract gives to one manager alone, and another one owns, whether or not that manager
	// still owns it as well.
	Taken Verdict = "taken"
	// Yielded is a shared field that only other managers own.
	Yielded Verdict = "yielded"
	// Stray is a field that a manager of the contract owns other than by an apply inside its grant: by an Update, or
	// outside its grant, or under a former name.
	Stray Verdict = "stray"
)

// Wrong reports whether the contract forbids it.
func (v Verdict) Wrong() bool { return v == Taken || v == Stray }

// Holding is one owner of one field of a live object.
type Holding struct {
	Owner
	Field fieldpath.Path
	// Time is when the entry last changed, nil if unknown.
	Time *metav1.Time
	// Verdict is the contract's.
	Verdict Verdict
	// Grantee is the manager to whom the contract gives the field, empty if to none.
	Grantee Manager
}

// Judge returns who holds which field of an object, each with the contract's verdict, in the order of the fields.
// kind and name are the object's, entries its managedFields. It returns an error if an entry cannot be read.
func (c Contract) Judge(kind schema.GroupKind, name string, entries []metav1.ManagedFieldsEntry) ([]Holding, error) {
	j := c.judge(kind, name)
	var holdings []Holding
	for _, entry := range entries {
		set, err := Fields(entry)
		if err != nil {
			return nil, err
		}
		if entry.Operation == metav1.ManagedFieldsOperationApply {
			j.note(Manager(entry.Manager), set)
		}
		owner := Owner{Manager: entry.Manager, Operation: entry.Operation, Subresource: entry.Subresource}
		set.Leaves().Iterate(func(field fieldpath.Path) {
			holdings = append(holdings, Holding{Owner: owner, Field: field.Copy(), Time: entry.Time})
		})
	}
	for i := range holdings {
		holdings[i].Verdict, holdings[i].Grantee = j.verdict(holdings[i])
	}
	slices.SortStableFunc(holdings, func(a, b Holding) int {
		return cmp.Or(a.Field.Compare(b.Field), cmp.Compare(a.Manager, b.Manager),
			cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Subresource, b.Subresource))
	})
	return holdings, nil
}

// Claims reports whether a field manager's name is in the contract, or in a domain of it: an earlier release may have
// used another name.
func (c Contract) Claims(name string) bool {
	domain, _, found := strings.Cut(name, "/")
	return found && slices.ContainsFunc(c.Grants, func(g Grant) bool {
		return strings.HasPrefix(string(g.Manager), domain+"/")
	})
}

// judge is what verdicts on one object need.
type judge struct {
	contract Contract
	grants   []Grant
	// applied is what each manager holds by apply, on all subresources.
	applied map[Manager]*fieldpath.Set
}

// judge does not read managedFields yet.
func (c Contract) judge(kind schema.GroupKind, name string) judge {
	j := judge{contract: c, applied: map[Manager]*fieldpath.Set{}}
	for _, g := range c.Grants {
		if g.Object.GroupKind() == kind && g.Named(name) {
			j.grants = append(j.grants, g)
		}
	}
	return j
}

func (j judge) note(manager Manager, set *fieldpath.Set) {
	if before, ok := j.applied[manager]; ok {
		set = before.Union(set)
	}
	j.applied[manager] = set
}

// holds reports whether manager holds field by apply.
func (j judge) holds(manager Manager, field fieldpath.Path) bool {
	set, ok := j.applied[manager]
	return ok && set.Has(field)
}

func (j judge) verdict(h Holding) (Verdict, Manager) {
	var grantee *Grant
	for i, g := range j.grants {
		if g.Covers(h.Field) && (grantee == nil || g.Manager == Manager(h.Manager)) {
			grantee = &j.grants[i]
		}
	}
	whose := Manager("")
	if grantee != nil {
		whose = grantee.Manager
	}
	switch {
	case j.contract.Claims(h.Manager):
		inside := whose == Manager(h.Manager) && grantee.Object.Subresource == h.Subresource
		if inside && h.Operation == metav1.ManagedFieldsOperationApply {
			return Ours, whose
		}
		return Stray, whose
	case grantee == nil || grantee.adds(h.Field, j):
		return Foreign, ""
	case grantee.Mode == Exclusive:
		return Taken, whose
	case j.holds(whose, h.Field):
		return Foreign, whose
	}
	return Yielded, whose
}

// adds reports whether field lies inside the grant, but beside what its manager states: a label, an annotation or an
// item of a list that the grant does not name and the manager does not hold. A grant of spec.template does not claim
// the sidecars of others.
func (g Grant) adds(field fieldpath.Path, j judge) bool {
	for _, path := range g.Fields {
		if path.Covers(field) && !j.beside(g.Manager, field, path.named()) {
			return false
		}
	}
	return true
}

// beside reports whether the first key or item in field after the named steps is one that manager does not hold. An
// item that it holds is its own with all content: a variable that others add to a container of ours runs in it.
func (j judge) beside(manager Manager, field fieldpath.Path, named int) bool {
	for i := named; i < len(field); i++ {
		if keyed(field, i) {
			return !j.holds(manager, field[:i+1])
		}
	}
	return false
}

// keyed reports whether a step of field is an item of a list, or the key of a label or annotation. Other maps look
// like structs in managedFields; whoever adds to those, as to a ConfigMap's data, changes what runs.
func keyed(field fieldpath.Path, i int) bool {
	if field[i].FieldName == nil {
		return true
	}
	is := func(i int, names ...string) bool {
		return i >= 0 && field[i].FieldName != nil && slices.Contains(names, *field[i].FieldName)
	}
	return is(i-1, "labels", "annotations") && is(i-2, "metadata")
}

// named is how many steps of the path name one field: those before a [*].
func (p Path) named() int {
	if i := slices.IndexFunc(p.steps, func(s step) bool { return s.any }); i >= 0 {
		return i
	}
	return len(p.steps)
}

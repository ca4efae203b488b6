package ownership

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// FuzzPath holds the path language to that of the API server: what a path covers is what structured-merge-diff finds
// below it, and every element survives the form in which managedFields store it.
func FuzzPath(f *testing.F) {
	fields := []string{
		"spec", "spec.replicas", `metadata.labels["example.com/a"].x`, `metadata.finalizers[="a/b"]`,
		"spec.ports[port=80,protocol=TCP].name", `l[k="1"]`, "l[k=1].a[=true]",
	}
	for _, g := range things().Grants {
		for i, p := range g.Fields {
			f.Add(p.String(), fields[i%len(fields)])
		}
	}
	f.Add("l[a=1,a=2]", "l[b=2,a=1]")
	f.Add("a[*][*].b", "a[=1][*]")
	f.Add(`a["\u00e4\n"]`, `a["\xff"]`)
	f.Fuzz(func(t *testing.T, first, second string) {
		a, err := ParsePath(first)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("the error is more than one line: %q", err)
			}
			return
		}
		again, err := ParsePath(a.String())
		if err != nil || !samePath(a, again) {
			t.Fatalf("%q is read back as %q: %v", first, again, err)
		}
		stored(t, a)
		if !a.Overlaps(a) {
			t.Errorf("%q does not overlap itself", first)
		}
		b, err := ParsePath(second)
		if err != nil {
			return
		}
		if a.Overlaps(b) != b.Overlaps(a) {
			t.Errorf("%q and %q overlap in one direction only", first, second)
		}
		field, exact := plainPath(b)
		if !exact {
			return
		}
		agrees(t, a, field)
		if below := append(field, fieldpath.FieldNameElement("x")); a.Covers(field) && !a.Covers(below) {
			t.Errorf("%q covers %s but not what is below it", first, field)
		}
		if a.Covers(field) && !a.Overlaps(b) {
			t.Errorf("%q covers %s and does not overlap it", first, field)
		}
	})
}

// agrees demands of Covers what the matchers and sets of structured-merge-diff say of the same field.
func agrees(t *testing.T, path Path, field fieldpath.Path) {
	t.Helper()
	parts := make([]any, len(path.steps))
	for i, s := range path.steps {
		parts[i] = fieldpath.PathElementMatcher{Wildcard: s.any, PathElement: s.element}
	}
	matched := fieldpath.NewSet(field).FilterIncludeMatches(fieldpath.MakePrefixMatcherOrDie(parts...)).Has(field)
	want := matched && len(field) >= len(path.steps)
	if path.Covers(field) != want {
		t.Errorf("%q covers %s: %v, structured-merge-diff says %v", path, field, path.Covers(field), want)
	}
	grant := Grant{Fields: []Path{path}}
	outside := grant.Outside(fieldpath.NewSet(field))
	if want != (len(outside) == 0) {
		t.Errorf("%q covers %s: %v, yet outside the grant are %v", path, field, want, outside)
	}
}

// stored demands that a path without wildcards survives managedFields.
func stored(t *testing.T, path Path) {
	t.Helper()
	field, exact := plainPath(path)
	if !exact {
		return
	}
	if !path.Covers(field) {
		t.Errorf("%q does not cover its own field %s", path, field)
	}
	data, err := fieldpath.NewSet(field).ToJSON()
	if err != nil {
		t.Fatalf("%q cannot be stored: %v", path, err)
	}
	if !json.Valid(data) {
		t.Fatalf("%q is stored as %s", path, data)
	}
	read := fieldpath.NewSet()
	if err := read.FromJSON(strings.NewReader(string(data))); err != nil {
		t.Fatalf("%q is stored as %s, which cannot be read: %v", path, data, err)
	}
	if !read.Has(field) {
		t.Errorf("%q is stored as %s, which is read as %s", path, data, read)
	}
	again, err := ParsePath(Notation(field))
	if err != nil || !samePath(path, again) {
		t.Errorf("%q is written as %s, which is read as %q: %v", path, Notation(field), again, err)
	}
}

// plainPath is a path in the API server's terms, if it has no wildcard.
func plainPath(path Path) (fieldpath.Path, bool) {
	var field fieldpath.Path
	for _, s := range path.steps {
		if s.any {
			return nil, false
		}
		field = append(field, s.element)
	}
	return field, true
}

func samePath(a, b Path) bool {
	if len(a.steps) != len(b.steps) {
		return false
	}
	for i := range a.steps {
		if a.steps[i].any != b.steps[i].any || !a.steps[i].element.Equals(b.steps[i].element) {
			return false
		}
	}
	return true
}

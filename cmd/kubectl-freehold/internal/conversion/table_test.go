package conversion

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// samples are objects of others with every field of their published schemas.
func samples(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob("../../testdata/import/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var found []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				t.Fatal(err)
			}
			found = append(found, object)
		}
	}
	return found
}

var fieldOfOurs = regexp.MustCompile(`spec\.[A-Za-z.]+`)

// seen is what samples showed of a row.
type seen struct {
	met, said bool
	// set are the fields of ours that the row names, and whether a sample got them.
	set map[string]bool
}

// A row whose field no sample has, or that does not do what the page says of it, is wrong on the page.
func TestEachRowDoesWhatThePageSaysOfIt(t *testing.T) {
	rows, all := map[string]*seen{}, samples(t)
	for _, k := range readable() {
		for i, r := range k.rows {
			for _, before := range k.rows[:i] {
				if strings.HasPrefix(r.from+".", before.from+".") {
					t.Errorf("%s of %s: the row of %s comes after that of %s, which takes it", k.kind, k.product, r.from, before.from)
				}
			}
			// Kinds of one product share rows, and their samples.
			row := k.product + ": " + r.from + " becomes " + becomes(r)
			if rows[row] == nil {
				rows[row] = &seen{set: map[string]bool{}}
			}
			for _, u := range all {
				if u.GetKind() == k.kind && u.GroupVersionKind().Group == k.group {
					look(t, rows[row], r, u)
				}
			}
		}
	}
	for row, s := range rows {
		if !s.met || strings.HasSuffix(row, " becomes a comment") && !s.said {
			t.Errorf("%s: a sample has it: %t; a comment names it: %t", row, s.met, s.said)
		}
		for field, set := range s.set {
			if !set {
				t.Errorf("%s: no sample got %s", row, field)
			}
		}
	}
}

// look adds what one sample shows of a row.
func look(t *testing.T, s *seen, r row, u *unstructured.Unstructured) {
	t.Helper()
	value, has := get(u.Object, r.from)
	if !has {
		return
	}
	results, err := of(u)
	if err != nil {
		t.Fatal(err)
	}
	main := results[len(results)-1]
	said := slices.ContainsFunc(main.Remarks, func(remark string) bool { return strings.HasPrefix(remark, r.from) })
	if r.granted != nil && said == (compact(value) == compact(r.granted)) {
		t.Errorf("%s: a comment names %s, which is %s: %t", u.GetName(), r.from, compact(value), said)
	}
	s.met, s.said = true, s.said || said
	for _, field := range fieldOfOurs.FindAllString(r.to, -1) {
		_, set := get(main.Object, field)
		s.set[field] = s.set[field] || set
	}
}

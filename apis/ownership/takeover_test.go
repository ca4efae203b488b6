package ownership

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const (
	image = `{"f:spec":{"f:image":{}}}`
	pod   = `{"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"ours\"}":{".":{},"f:command":{},"f:image":{},"f:name":{}}%s}}}}`
	side  = `"k:{\"name\":\"side\"}":{".":{},"f:name":{}}`
)

// takeovers are objects before a.b/build takes over, what it is about to state,
// and who holds what after; after is nil if nothing is to be done.
var takeovers = map[string]struct {
	before []metav1.ManagedFieldsEntry
	handed bool
	stated string
	after  []string
	from   []string
}{
	"of another hand": {before: []metav1.ManagedFieldsEntry{entry("kubectl Update", image)}, stated: image},
	"handed over": {
		before: []metav1.ManagedFieldsEntry{
			entry("kubectl Update",
				`{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:team":{}}},"f:spec":{"f:color":{},"f:image":{},"f:size":{}}}`),
		},
		handed: true, stated: image,
		after: []string{
			`kubectl Update {"f:metadata":{"f:labels":{".":{},"f:team":{}}},"f:spec":{"f:color":{},"f:size":{}}}`,
			`a.b/build Apply {"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:image":{}}}`,
		},
		from: []string{"kubectl"},
	},
	"handed over by an applier and others": {
		before: []metav1.ManagedFieldsEntry{
			entry("velero Update", image), entry("git Apply", image),
			entry("git Update", image),
		},
		handed: true, stated: image,
		after: []string{"a.b/build Apply " + image},
		from:  []string{"git", "velero"},
	},
	"what stands in an item that is stated, and an item that is not": {
		before: []metav1.ManagedFieldsEntry{entry("kubectl Update", fmt.Sprintf(pod, ","+side))},
		handed: true, stated: container,
		after: []string{`kubectl Update {"f:spec":{"f:template":{"f:containers":{` + side + `}}}}`, "a.b/build Apply " +
			fmt.Sprintf(pod, "")},
		from: []string{"kubectl"},
	},
	"what others wrote through subresources": {
		before: []metav1.ManagedFieldsEntry{
			entry("autoscaler Update scale", image),
			entry("kube-controller-manager Update status", image), entry("kubectl Update", image),
		},
		handed: true, stated: image,
		after: []string{
			"autoscaler Update scale " + image, "kube-controller-manager Update status " + image,
			"a.b/build Apply " + image,
		},
		from: []string{"kubectl"},
	},
	"what others put into an item that is stated": {
		before: []metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", container),
			entry("kubectl Update", fmt.Sprintf(pod, ","+side)),
		},
		stated: container,
		after: []string{
			`kubectl Update {"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"ours\"}":{".":{},"f:image":{},"f:name":{}},` + side + `}}}}`,
			"a.b/build Apply " + fmt.Sprintf(pod, ""),
		},
		from: []string{"kubectl"},
	},
	"an item in a list of an item that is stated": {
		before: []metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", container),
			entry("kubectl Update",
				`{"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"ours\"}":{"f:env":{".":{},"k:{\"name\":\"LD_PRELOAD\"}":{".":{},"f:value":{}}}}}}}}`),
		},
		stated: container,
		after: []string{
			`a.b/build Apply {"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"ours\"}":{".":{},"f:env":{".":{},` +
				`"k:{\"name\":\"LD_PRELOAD\"}":{".":{},"f:value":{}}},"f:image":{},"f:name":{}}}}}}`,
		},
		from: []string{"kubectl"},
	},
	"nobody's": {handed: true, stated: image, after: []string{"a.b/build Apply " + image}},
	"what managers of ours have otherwise than by an apply": {
		before: []metav1.ManagedFieldsEntry{
			entry("a.b/build Update", image), entry("a.b/old Apply", image),
			entry("a.b/size Apply", image),
		},
		stated: image,
	},
	"what the API server attributed to nobody after a reset": {
		before: []metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", image),
			entry("before-first-apply Update",
				`{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:team":{}}},"f:spec":{"f:color":{},"f:image":{},"f:size":{}}}`),
		},
		stated: image,
		after: []string{
			`before-first-apply Update {"f:spec":{"f:size":{}}}`,
			`a.b/build Apply {"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:image":{}}}`,
		},
		from: []string{"before-first-apply"},
	},
	"a finalizer of others after a reset": {
		before: []metav1.ManagedFieldsEntry{
			entry("before-first-apply Update",
				`{"f:metadata":{"f:finalizers":{".":{},"v:\"theirs\"":{}}},"f:spec":{"f:color":{},"f:image":{}}}`),
		},
		stated: image,
		after: []string{
			`before-first-apply Update {"f:metadata":{"f:finalizers":{"v:\"theirs\"":{}}}}`,
			"a.b/build Apply " + image,
		},
		from: []string{"before-first-apply"},
	},
	"what other managers of ours have after a reset": {
		before: []metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", image),
			entry("before-first-apply Update", `{"f:spec":{"f:size":{}}}`),
		},
		stated: image,
	},
	"what the API server attributed to nobody through a subresource": {
		before: []metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", image), entry("a.b/report Apply status", `{"f:status":{"f:other":{}}}`),
			entry("before-first-apply Update status", `{"f:status":{".":{},"f:nobody":{},"f:seen":{".":{},"v:\"a\"":{}}}}`),
		},
		stated: image,
		after: []string{
			"a.b/build Apply " + image,
			`a.b/report Apply status {"f:status":{"f:other":{},"f:seen":{".":{},"v:\"a\"":{}}}}`,
		},
		from: []string{"before-first-apply"},
	},
}

func TestTakeOver(t *testing.T) {
	grant, _ := things().Grant("a.b/build", thing, "x")
	for name, tc := range takeovers {
		t.Run(name, func(t *testing.T) {
			stated := &fieldpath.Set{}
			if err := stated.FromJSON(strings.NewReader(tc.stated)); err != nil {
				t.Fatal(err)
			}
			after, from, err := things().TakeOver(grant, "x", tc.before, stated, &fieldpath.Set{}, tc.handed)
			if err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, e := range after {
				words := slices.DeleteFunc([]string{e.Manager, string(e.Operation), e.Subresource, e.FieldsV1.GetRawString()},
					func(w string) bool { return w == "" })
				lines = append(lines, strings.Join(words, " "))
			}
			if diff := cmp.Diff(tc.after, lines); diff != "" {
				t.Errorf("managedFields (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.from, from); diff != "" {
				t.Errorf("from (-want +got):\n%s", diff)
			}
			// The next look finds nothing to do.
			again, from, err := things().TakeOver(grant, "x", after, stated, &fieldpath.Set{}, tc.handed)
			if again != nil || from != nil || err != nil {
				t.Errorf("a second time: %v from %v, %v", again, from, err)
			}
		})
	}
}

// The API server tells entries apart by their time and version, and a policy too.
func TestTheEntryOfWhoTakesOver(t *testing.T) {
	grant, _ := things().Grant("a.b/build", thing, "x")
	before := entry("kubectl Update", image)
	before.Time = &metav1.Time{Time: time.Unix(7, 0)}
	after, _, err := things().TakeOver(grant, "x", []metav1.ManagedFieldsEntry{before}, &fieldpath.Set{}, &fieldpath.Set{},
		true)
	if err != nil || len(after) != 1 {
		t.Fatal(after, err)
	}
	want := metav1.ManagedFieldsEntry{
		Manager: "a.b/build", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", Time: before.Time,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(image),
	}
	if diff := cmp.Diff(want, after[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if before.FieldsV1.GetRawString() != image {
		t.Error("what was read has been changed")
	}
	broken := entry("kubectl Update", `{"f:spec"`)
	if _, _, err := things().TakeOver(grant, "x", []metav1.ManagedFieldsEntry{broken}, &fieldpath.Set{}, &fieldpath.Set{},
		true); err == nil {
		t.Error("an entry that cannot be read was taken")
	}
}

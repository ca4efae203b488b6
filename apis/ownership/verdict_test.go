package ownership

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// entry is one of managedFields; who is MANAGER OPERATION [SUBRESOURCE].
func entry(who, fields string) metav1.ManagedFieldsEntry {
	words := append(strings.Fields(who), "")
	return metav1.ManagedFieldsEntry{
		Manager: words[0], Operation: metav1.ManagedFieldsOperationType(words[1]), Subresource: words[2],
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
	}
}

// judged writes holdings as FIELD MANAGER VERDICT [GRANTEE].
func judged(t *testing.T, contract Contract, name string, entries ...metav1.ManagedFieldsEntry) []string {
	t.Helper()
	holdings, err := contract.Judge(thing.GroupKind(), name, entries)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, h := range holdings {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", Notation(h.Field), h.Manager, h.Verdict,
			h.Grantee)))
	}
	return lines
}

var thing = Object{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "Thing"}}

// things is a contract about one kind: a builder's fields, a reporter's on the
// status, a field that is shared, and a second object by name.
func things() Contract {
	status := thing
	status.Subresource = "status"
	other := Grant{
		Manager: "a.b/other", Object: thing, Names: []string{"SERVER-other"}, Mode: Exclusive,
		Fields: Paths("spec.other"),
	}
	return Contract{Grants: []Grant{
		{Manager: "a.b/build", Object: thing, Mode: Exclusive, Fields: Paths(
			"spec.image", "spec.template", `metadata.labels["app"]`, "metadata.annotations[*]",
			`metadata.finalizers[="a.b/x"]`)},
		{
			Manager: "a.b/report", Object: status, Mode: Exclusive,
			Fields: Paths("status.conditions[type=Ready]", "status.seen"),
		},
		{Manager: "a.b/size", Object: thing, Mode: Shared, Fields: Paths("spec.size")},
		other,
	}}
}

const container = `{"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"ours\"}":{".":{},"f:name":{},"f:image":{}}}}}}`

// verdicts are stories of an object: its managedFields, and what is said of them.
var verdicts = map[string]struct {
	entries []metav1.ManagedFieldsEntry
	want    []string
}{
	"ours": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", `{"f:spec":{"f:image":{}}}`),
			entry("a.b/report Apply status", `{"f:status":{"f:seen":{}}}`),
		},
		[]string{"spec.image a.b/build ours a.b/build", "status.seen a.b/report ours a.b/report"},
	},
	"a field that is nobody's": {
		[]metav1.ManagedFieldsEntry{entry("kubectl Update", `{"f:spec":{"f:color":{}}}`)},
		[]string{"spec.color kubectl foreign"},
	},
	"a field beside ours of the same owner": {
		[]metav1.ManagedFieldsEntry{entry("git Apply", `{"f:spec":{"f:imagePolicy":{}}}`)},
		[]string{"spec.imagePolicy git foreign"},
	},
	"taken and lost": {
		[]metav1.ManagedFieldsEntry{entry("git Apply", `{"f:spec":{"f:image":{}}}`)},
		[]string{"spec.image git taken a.b/build"},
	},
	"taken and still held": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", `{"f:spec":{"f:image":{}}}`),
			entry("git Apply", `{"f:spec":{"f:image":{}}}`),
		},
		[]string{"spec.image a.b/build ours a.b/build", "spec.image git taken a.b/build"},
	},
	"taken by a scale": {
		[]metav1.ManagedFieldsEntry{entry("hpa Update scale", `{"f:spec":{"f:image":{}}}`)},
		[]string{"spec.image hpa taken a.b/build"},
	},
	"taken inside our item": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", container),
			entry("git Apply", `{"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"ours\"}":{"f:args":{}}}}}}`),
		},
		[]string{
			"spec.template.containers[name=ours].args git taken a.b/build",
			"spec.template.containers[name=ours].image a.b/build ours a.b/build",
			"spec.template.containers[name=ours].name a.b/build ours a.b/build",
		},
	},
	"an item beside ours": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", `{"f:spec":{"f:template":{"f:hostname":{}}}}`),
			entry("git Apply", `{"f:spec":{"f:template":{"f:containers":{"k:{\"name\":\"sidecar\"}":{".":{},"f:image":{}}}}}}`),
		},
		[]string{
			"spec.template.containers[name=sidecar].image git foreign",
			"spec.template.hostname a.b/build ours a.b/build",
		},
	},
	"an annotation beside ours, and one of ours": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", `{"f:metadata":{"f:annotations":{"f:mine":{}}}}`),
			entry("git Apply", `{"f:metadata":{"f:annotations":{"f:mine":{},"f:theirs":{}}}}`),
		},
		[]string{
			"metadata.annotations.mine a.b/build ours a.b/build",
			"metadata.annotations.mine git taken a.b/build",
			"metadata.annotations.theirs git foreign",
		},
	},
	"an annotation inside our template": {
		[]metav1.ManagedFieldsEntry{entry("kubectl Update",
			`{"f:spec":{"f:template":{"f:metadata":{"f:annotations":{".":{},"f:restarted":{}}}}}}`)},
		[]string{"spec.template.metadata.annotations.restarted kubectl foreign"},
	},
	"a struct inside our template": {
		[]metav1.ManagedFieldsEntry{entry("kubectl Update", `{"f:spec":{"f:template":{"f:strategy":{"f:type":{}}}}}`)},
		[]string{"spec.template.strategy.type kubectl taken a.b/build"},
	},
	"what a grant names is taken though its manager lost it": {
		[]metav1.ManagedFieldsEntry{
			entry("git Apply",
				`{"f:metadata":{"f:labels":{"f:app":{},"f:team":{}},"f:finalizers":{"v:\"a.b/x\"":{},"v:\"c.d/y\"":{}}},"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:status":{}},"k:{\"type\":\"Paid\"}":{".":{},"f:status":{}}}}}`),
		},
		[]string{
			`metadata.finalizers[="a.b/x"] git taken a.b/build`,
			`metadata.finalizers[="c.d/y"] git foreign`,
			"metadata.labels.app git taken a.b/build",
			"metadata.labels.team git foreign",
			"status.conditions[type=Paid].status git foreign",
			"status.conditions[type=Ready].status git taken a.b/report",
		},
	},
	"an Update entry of ours": {
		[]metav1.ManagedFieldsEntry{entry("a.b/build Update", `{"f:spec":{"f:image":{}}}`)},
		[]string{"spec.image a.b/build stray a.b/build"},
	},
	"outside its grant, through another subresource, and another's": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", `{"f:spec":{"f:color":{},"f:size":{}}}`),
			entry("a.b/report Apply", `{"f:status":{"f:seen":{}}}`),
		},
		[]string{
			"spec.color a.b/build stray", "spec.size a.b/build stray a.b/size",
			"status.seen a.b/report stray a.b/report",
		},
	},
	"left over by a manager of an earlier release": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/before Apply", `{"f:spec":{"f:image":{}}}`), entry("a.bc/before Apply", `{"f:spec":{"f:color":{}}}`),
		},
		[]string{"spec.color a.bc/before foreign", "spec.image a.b/before stray a.b/build"},
	},
	"an object of another name": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/other Apply", `{"f:spec":{"f:other":{}}}`),
			entry("git Apply", `{"f:spec":{"f:other":{}}}`),
		},
		[]string{"spec.other a.b/other stray", "spec.other git foreign"},
	},
	"shared and yielded": {
		[]metav1.ManagedFieldsEntry{entry("hpa Update scale", `{"f:spec":{"f:size":{}}}`)},
		[]string{"spec.size hpa yielded a.b/size"},
	},
	"shared, yielded, and once written otherwise than by apply": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/size Update", `{"f:spec":{"f:size":{}}}`),
			entry("hpa Update scale", `{"f:spec":{"f:size":{}}}`),
		},
		[]string{"spec.size a.b/size stray a.b/size", "spec.size hpa yielded a.b/size"},
	},
	"taken from a manager that holds more through a subresource": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/build Apply", `{"f:metadata":{"f:annotations":{"f:mine":{}}}}`),
			entry("a.b/build Apply status", `{"f:status":{"f:seen":{}}}`),
			entry("git Apply", `{"f:metadata":{"f:annotations":{"f:mine":{}}}}`),
		},
		[]string{
			"metadata.annotations.mine a.b/build ours a.b/build",
			"metadata.annotations.mine git taken a.b/build",
			"status.seen a.b/build stray a.b/report",
		},
	},
	"shared and held by both": {
		[]metav1.ManagedFieldsEntry{
			entry("a.b/size Apply", `{"f:spec":{"f:size":{}}}`),
			entry("hpa Apply", `{"f:spec":{"f:size":{}}}`),
		},
		[]string{"spec.size a.b/size ours a.b/size", "spec.size hpa foreign a.b/size"},
	},
}

func TestEachHoldHasAVerdict(t *testing.T) {
	for name, tc := range verdicts {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, judged(t, things(), "any", tc.entries...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAGrantOfAnotherNameCounts(t *testing.T) {
	got := judged(t, things(), "x-other", entry("git Apply", `{"f:spec":{"f:other":{}}}`))
	if diff := cmp.Diff([]string{"spec.other git taken a.b/other"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithoutAContractAllIsForeign(t *testing.T) {
	got := judged(t, Contract{}, "any", entry("git Apply", `{"f:spec":{"f:image":{}}}`))
	if diff := cmp.Diff([]string{"spec.image git foreign"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnEntryThatCannotBeReadIsNamed(t *testing.T) {
	_, err := things().Judge(thing.GroupKind(), "any", []metav1.ManagedFieldsEntry{entry("git Apply", `{"spec":1}`)})
	if err == nil || !strings.Contains(err.Error(), "reading the fields of manager git") {
		t.Errorf("the error is %v", err)
	}
}

func TestOnlyTakenAndStrayAreWrong(t *testing.T) {
	for verdict, want := range map[Verdict]bool{Ours: false, Foreign: false, Yielded: false, Taken: true, Stray: true} {
		if verdict.Wrong() != want {
			t.Errorf("%s is wrong: %v", verdict, !want)
		}
	}
}

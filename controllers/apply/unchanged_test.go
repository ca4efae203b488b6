package apply

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

const (
	baseServer = `{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: a`
	deployed   = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2, template: {spec: {containers: [
		{name: c, image: i, env: [{name: A, value: "1"}]}]}}}}`
)

func TestUnchangedIsJudgedFromTheLiveObject(t *testing.T) {
	type story struct {
		// before is what was applied, by manager, in this order.
		before [][2]string
		intent string
		want   bool
	}
	for name, tc := range map[string]story{
		"applied as it is": {[][2]string{{"mine", deployed}}, deployed, true},
		"never applied":    {[][2]string{{"other", deployed}}, deployed, false},
		"another's fields are no concern": {[][2]string{{"mine", deployed}, {
			"other",
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {x: z}}, spec: {paused: true, template: {spec: {containers: [{name: b, image: i}]}}}}`,
		}}, deployed, true},
		"shared with another": {[][2]string{{"mine", deployed}, {"other", deployed}}, deployed, true},
		"a field taken": {[][2]string{{"mine", deployed}, {
			"other",
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3}}`,
		}}, deployed, false},
		"a value changed": {
			[][2]string{{"mine", deployed}},
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2, template: {spec: {containers: [
			{name: c, image: i, env: [{name: A, value: "2"}]}]}}}}`, false,
		},
		"a field more": {
			[][2]string{{"mine", deployed}},
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2, paused: false, template: {spec: {containers: [
			{name: c, image: i, env: [{name: A, value: "1"}]}]}}}}`, false,
		},
		"a field less": {
			[][2]string{{"mine", deployed}},
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2, template: {spec: {containers: [
			{name: c, image: i}]}}}}`, false,
		},
		"an item less, that another keeps": {
			[][2]string{{"mine", deployed}, {"other", deployed}},
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2}}`, false,
		},
		"nothing, and nothing owned": {
			[][2]string{{"other", deployed}},
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}`, true,
		},
		"nothing, and something owned": {
			[][2]string{{"mine", deployed}, {"other", deployed}},
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}}`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newAPIServer(t, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
			for _, applied := range tc.before {
				manager := applied[0]
				if manager == "mine" {
					manager = string(mine)
				}
				server.apply(manager, applied[1])
			}
			if got := judge(t, writerOf(mine), server.live(&appsv1.Deployment{}), tc.intent); got != tc.want {
				t.Errorf("unchanged is %t", got)
			}
		})
	}
}

// Of an object that was read as metadata only those are compared, and who owns the rest.
func TestWhatWasReadAsMetadataIsJudgedByThem(t *testing.T) {
	const config = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {l: %s}}, data: {k: %s}}`
	for name, tc := range map[string]struct {
		before, intent string
		want           bool
	}{
		"as it is":      {"", fmt.Sprintf(config, "m", "v"), true},
		"another label": {"", fmt.Sprintf(config, "other", "v"), false},
		"a field more": {
			"",
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {l: m}}, data: {k: v, more: v}}`, false,
		},
		"a value taken": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: stolen}}`,
			fmt.Sprintf(config, "m", "v"), false,
		},
		"a label taken": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {l: o}}}`,
			fmt.Sprintf(config, "m", "v"), false,
		},
		"another's data": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {other: v}}`,
			fmt.Sprintf(config, "m", "v"), true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := newAPIServer(t, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
			server.apply(string(mine), fmt.Sprintf(config, "m", "v"))
			if tc.before != "" {
				server.apply("other", tc.before)
			}
			whole := server.live(&corev1.ConfigMap{})
			part := &metav1.PartialObjectMetadata{}
			part.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
			part.SetName(whole.GetName())
			part.SetUID(whole.GetUID())
			part.SetLabels(whole.GetLabels())
			part.SetManagedFields(whole.GetManagedFields())
			if got := judge(t, writerOf(mine), part, tc.intent); got != tc.want {
				t.Errorf("unchanged is %t", got)
			}
		})
	}
}

// Variables are expanded in their order, and containers started in theirs.
func TestAnotherOrderIsAChange(t *testing.T) {
	const intent = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {containers: [{name: c, env: [%s]}]}}}}`
	const first, second = `{name: A, value: "1"}`, `{name: B, value: $(A)}`
	server := newAPIServer(t, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	server.apply(string(mine), fmt.Sprintf(intent, first+","+second))
	live := server.live(&appsv1.Deployment{})
	if judge(t, writerOf(mine), live, fmt.Sprintf(intent, second+","+first)) ||
		!judge(t, writerOf(mine), live, fmt.Sprintf(intent, first+","+second)) {
		t.Error("another order is called unchanged, or the same a change")
	}
}

// Ownership without the value: the entry of managedFields is ours, and yet
// somebody whose writes are not tracked changed what it stands for.
func TestAValueThatIsNotOursIsNoOwnership(t *testing.T) {
	server := newAPIServer(t, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	server.apply(string(mine), deployed)
	live := server.live(&appsv1.Deployment{}).(*appsv1.Deployment)
	live.Spec.Template.Spec.Containers[0].Image = "stolen"
	if judge(t, writerOf(mine), live, deployed) {
		t.Error("it is called unchanged")
	}
}

func TestUnchangedOnOurOwnKind(t *testing.T) {
	server := newAPIServer(t, v1alpha1.SchemeGroupVersion.WithKind("MCPServer"))
	held := baseServer + `, finalizers: [freehold.dev/mcpserver]}}`
	server.apply(string(mine), held)
	server.apply("other", baseServer+`, finalizers: [example.com/x]}, spec: {image: i}}`)
	live := server.live(&v1alpha1.MCPServer{})
	if !judge(t, writerOf(mine), live, held) || judge(t, writerOf("other"), live, held) {
		t.Error("a finalizer beside another's is not told apart")
	}
	if judge(t, writerOf(mine), live, baseServer+`}}`) {
		t.Error("releasing a finalizer is called unchanged")
	}
}

// An Update entry of the same manager is another owner.
func TestAnUpdateEntryIsNotOurs(t *testing.T) {
	server := newAPIServer(t, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	server.apply(string(mine), deployed)
	live := server.live(&appsv1.Deployment{})
	for name, edit := range map[string]func(*metav1.ManagedFieldsEntry){
		"an Update":      func(e *metav1.ManagedFieldsEntry) { e.Operation = metav1.ManagedFieldsOperationUpdate },
		"a subresource":  func(e *metav1.ManagedFieldsEntry) { e.Subresource = "status" },
		"another's name": func(e *metav1.ManagedFieldsEntry) { e.Manager = "other" },
	} {
		edited := live.DeepCopyObject().(*appsv1.Deployment)
		edit(&edited.ManagedFields[0])
		if judge(t, writerOf(mine), edited, deployed) {
			t.Errorf("%s is taken for ours", name)
		}
	}
	other := live.DeepCopyObject().(*appsv1.Deployment)
	other.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1("{ " + other.ManagedFields[0].FieldsV1.GetRawString()[1:])
	if !judge(t, writerOf(mine), other, deployed) {
		t.Error("the same fields in other bytes are called others")
	}
	broken := live.DeepCopyObject().(*appsv1.Deployment)
	broken.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:`)
	if _, err := writerOf(mine).unchanged(broken, frozenIntent(t, deployed), "", memoryKey{}); err == nil {
		t.Error("an entry that cannot be read was read")
	}
}

// What the server made of an intent whose values it rewrites is learned from its
// answer, and holds for a while as long as our fields have those values.
func TestWhatTheServerRewritesIsLearned(t *testing.T) {
	const odd = `{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {limits: {cpu: 1000m}}}]}}`
	server := newAPIServer(t, schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	server.apply(string(mine), odd)
	live := func(version, cpu string) *corev1.Pod {
		pod := server.live(&corev1.Pod{}).(*corev1.Pod)
		pod.ResourceVersion = version
		pod.Spec.Containers[0].Resources.Limits["cpu"] = quantity(cpu)
		return pod
	}
	w, in := writerOf(mine), frozenIntent(t, odd)
	k := memoryKey{manager: string(mine)}
	ask := func(w *Writer, pod *corev1.Pod, in intent) bool {
		t.Helper()
		got, err := w.unchanged(pod, in, "", k)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if ask(w, live("5", "1"), in) {
		t.Fatal("unchanged before it was ever written")
	}
	now := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	w.applier.Now = func() time.Time { return now }
	answered := answerOf(t, w, in, live("5", "1"))
	if want := []string{`.spec.containers[name="c"].resources.limits.cpu`}; !slices.Equal(answered.fields, want) {
		t.Errorf("rewritten is %v, want %v", answered.fields, want)
	}
	w.applier.memory.put(k, written{uid: "uid", resourceVersion: "5", intent: hashOf(t, in), stored: answered})
	if !ask(w, live("5", "1"), in) || !ask(w, live("9", "1"), in) {
		t.Error("what the server made of it is not unchanged, or forgotten at a later version")
	}
	if ask(w, live("9", "2"), in) {
		t.Error("another value is not seen")
	}
	if ask(w, live("9", "1"), frozenIntent(t,
		`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, resources: {limits: {cpu: 2000m}}}]}}`)) {
		t.Error("another intent profits from what was learned")
	}
	other := live("9", "1")
	other.UID = "another"
	if ask(w, other, in) {
		t.Error("another incarnation profits from what was learned")
	}
	if ask(writerOf(mine), live("9", "1"), in) {
		t.Error("another process knows what this one learned")
	}
	server.apply("other",
		`{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {x: z}}, spec: {containers: [{name: b}]}}`)
	if !ask(w, live("12", "1"), in) {
		t.Error("another's fields count as a change of ours")
	}
	if now = now.Add(resendAfter); ask(w, live("12", "1"), in) {
		t.Error("nobody asks whether the server still rewrites")
	}
	if last, _ := w.applier.memory.get(k); !slices.Equal(last.stored.changed(), answered.changed()) {
		t.Error("what was told is forgotten")
	}
}

func answerOf(t *testing.T, w *Writer, in intent, object any) *storedFields {
	t.Helper()
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := w.storedBy(&frozen{in: in, answer: data}, ownership.Grant{})
	return m
}

// An answer with the intent's values says nothing new, nor does one that cannot be
// read; a field that admission removed is told, and not owned.
func TestWhatAnAnswerTells(t *testing.T) {
	in := frozenIntent(t, deployed)
	for name, tc := range map[string]struct {
		answer string
		want   []string
	}{
		"as it is": {deployed, nil},
		"more than it says": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, labels: {x: z}}, spec: {replicas: 2, paused: true, template: {spec: {containers: [{name: c, image: i, env: [{name: A, value: "1"}]}, {name: side}]}}}}`, nil,
		},
		"another value": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3, template: {spec: {containers: [{name: c, image: i, env: [{name: A, value: "1"}]}]}}}}`, []string{".spec.replicas"},
		},
		"a field less": {
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2, template: {spec: {containers: [{name: c, env: [{name: A, value: "1"}]}]}}}}`,
			[]string{`.spec.template.spec.containers[name="c"].image`},
		},
		"no object": {`{spec: x}`, nil},
	} {
		got := answerOf(t, writerOf(mine), in, object(t, tc.answer).Object)
		if !slices.Equal(got.changed(), tc.want) || (got == nil) != (tc.want == nil) {
			t.Errorf("%s: %+v, want %v", name, got, tc.want)
		}
	}
}

func judge(t *testing.T, w *Writer, live client.Object, text string) bool {
	t.Helper()
	got, err := w.unchanged(live, frozenIntent(t, text), "", memoryKey{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestOursIsWhatBelongsToTheOwnerOrWasWrittenByUs(t *testing.T) {
	const intentOf = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, ownerReferences: [{apiVersion: v1, kind: X, name: x, uid: server, controller: true}]}, data: {k: v}}`
	plain := `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v}}`
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	by := func(manager, text string) client.Object {
		server := newAPIServer(t, gvk)
		server.apply(manager, text)
		return server.live(&corev1.ConfigMap{})
	}
	for name, tc := range map[string]struct {
		live   client.Object
		intent string
		want   bool
	}{
		"the owner's, made by another manager": {by("other", intentOf), intentOf, true},
		"written by us for an earlier owner":   {by(string(mine), plain), intentOf, true},
		"nobody's":                             {by("other", plain), intentOf, false},
		"an intent without an owner":           {by("other", plain), plain, true},
	} {
		if got := writerOf(mine).ours(tc.live, frozenIntent(t, tc.intent)); got != tc.want {
			t.Errorf("%s: ours is %t", name, got)
		}
	}
}

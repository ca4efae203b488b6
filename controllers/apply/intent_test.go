package apply

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func TestAnIntentHoldsWhatItStatesAndNothingEmpty(t *testing.T) {
	for name, tc := range map[string]struct {
		ac      runtime.ApplyConfiguration
		content string
		leaves  []string
	}{
		"a ConfigMap": {
			corev1ac.ConfigMap("a", "ns").WithData(map[string]string{"k": "v", "empty": ""}).WithLabels(map[string]string{}),
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}, data: {k: v, empty: ""}}`,
			[]string{".data.empty", ".data.k"},
		},
		"nothing": {
			yamlIntent(t,
				`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, creationTimestamp: null, labels: {}}, data: null}`),
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
			nil,
		},
		"zero, false and empty text are something": {
			corev1ac.Pod("a", "ns").WithSpec(corev1ac.PodSpec().WithHostNetwork(false).WithPriority(0).WithNodeName("")),
			`{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: ns}, spec: {hostNetwork: false, priority: 0, nodeName: ""}}`,
			[]string{".spec.hostNetwork", ".spec.nodeName", ".spec.priority"},
		},
		"an item of a keyed list": {
			podTemplate(corev1ac.Container().WithName("c").WithSecurityContext(corev1ac.SecurityContext())),
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: ns}, spec: {template: {spec: {containers: [{name: c}]}}}}`,
			[]string{`.spec.template.spec.containers[name="c"].name`},
		},
		"items of a plain list, also empty ones": {
			podTemplate(corev1ac.Container().WithName("c").WithArgs("", "x").
				WithEnvFrom(corev1ac.EnvFromSource(), corev1ac.EnvFromSource())),
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: ns}, spec: {template: {spec: {containers: [{name: c, args: ["", x], envFrom: [{}, {}]}]}}}}`,
			[]string{
				`.spec.template.spec.containers[name="c"].args`, `.spec.template.spec.containers[name="c"].envFrom`,
				`.spec.template.spec.containers[name="c"].name`,
			},
		},
		"a member of a set": {
			yamlIntent(t, `{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: a, finalizers: [x/y]}}`),
			`{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: a, finalizers: [x/y]}}`,
			[]string{`.metadata.finalizers[="x/y"]`},
		},
		"an owner": {
			corev1ac.ConfigMap("a", "ns").WithOwnerReferences(metav1ac.OwnerReference().WithUID("u")),
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns, ownerReferences: [{uid: u}]}}`,
			[]string{`.metadata.ownerReferences[uid="u"]`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := encode(t, tc.ac)
			in, err := testConverter().freeze(tc.ac)
			if err != nil {
				t.Fatal(err)
			}
			var leaves []string
			in.fields.Leaves().Iterate(func(p fieldpath.Path) { leaves = append(leaves, p.String()) })
			same(t, "content", object(t, tc.content).Object, in.content)
			same(t, "leaves", tc.leaves, leaves)
			same(t, "the apply configuration", before, encode(t, tc.ac))
		})
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func podTemplate(containers ...*corev1ac.ContainerApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	return appsv1ac.Deployment("a", "ns").WithSpec(appsv1ac.DeploymentSpec().
		WithTemplate(corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithContainers(containers...))))
}

func TestAWrongIntentIsBad(t *testing.T) {
	for name, tc := range map[string]struct{ intent, says string }{
		"no kind": {`{apiVersion: v1, metadata: {name: a}}`, "without kind or name"},
		"no name": {`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: ns}}`, "without kind or name"},
		"a uid": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, uid: u}}`,
			"metadata.uid, which is the writer's",
		},
		"a version": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, resourceVersion: "1"}}`,
			"metadata.resourceVersion, which is the writer's",
		},
		"ownership": {
			`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, managedFields: [{manager: x}]}}`,
			"metadata.managedFields, which is the writer's",
		},
		"unknown field":   {`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dataa: {a: b}}`, "dataa"},
		"wrong type":      {`{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: [a]}`, "data"},
		"unknown kind":    {`{apiVersion: v1, kind: Nothing, metadata: {name: a}}`, "Nothing"},
		"unknown version": {`{apiVersion: freehold.dev/v9, kind: MCPServer, metadata: {name: a}}`, "freehold.dev/v9"},
		"item, unknown": {
			`{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [{port: 1, name: x, extra: 1}]}}`, "extra",
		},
		"one item twice": {
			`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: x}, {name: x}]}}`,
			`duplicate entries for key [name="x"]`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, err := testConverter().freeze(yamlIntent(t, tc.intent))
			var bad *BadIntent
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, %v, want a BadIntent that says %q", in.content, err, tc.says)
			}
		})
	}
	if _, err := testConverter().freeze((*corev1ac.ConfigMapApplyConfiguration)(nil)); err == nil {
		t.Error("a nil apply configuration was frozen")
	}
}

// Maps in Go have no order; the bytes of an intent do.
func TestTheSameIntentHasTheSameBytes(t *testing.T) {
	data := map[string]string{}
	for i := range 50 {
		data[fmt.Sprintf("key-%d", i)] = fmt.Sprint(i)
	}
	frozen := func(data map[string]string) intent {
		in, err := testConverter().freeze(corev1ac.ConfigMap("a", "ns").WithData(data))
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	first := frozen(data)
	for range 10 {
		if again := frozen(data); hashOf(t, again) != hashOf(t, first) ||
			body(t, again, preconditions{}) != body(t, first, preconditions{}) {
			t.Fatal("the same content has other bytes")
		}
	}
	data["key-0"] = "other"
	if hashOf(t, frozen(data)) == hashOf(t, first) {
		t.Error("other content has the same hash")
	}
}

func TestABodyCarriesItsPreconditions(t *testing.T) {
	in := frozenIntent(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {x: z}}, data: {k: v}}`)
	for name, tc := range map[string]struct {
		pre  preconditions
		want string
	}{
		"none":           {preconditions{}, `{labels: {x: z}, name: a}`},
		"a create":       {preconditions{create: true}, `{labels: {x: z}, name: a, resourceVersion: "1"}`},
		"an incarnation": {preconditions{uid: "u"}, `{labels: {x: z}, name: a, uid: u}`},
		"a version of it": {
			preconditions{uid: "u", resourceVersion: "7"},
			`{labels: {x: z}, name: a, uid: u, resourceVersion: "7"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := fmt.Sprintf(`{apiVersion: v1, kind: ConfigMap, metadata: %s, data: {k: v}}`, tc.want)
			if diff := cmp.Diff(object(t, want), object(t, body(t, in, tc.pre))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := body(t, in, preconditions{}); strings.Contains(got, "uid") || strings.Contains(got, "resourceVersion") {
		t.Errorf("preconditions of one write stay in the next: %s", got)
	}
}

func TestTheAnswerIsKeptApartFromTheBytes(t *testing.T) {
	f := &frozen{in: frozenIntent(t,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: ns}, data: {k: v}}`), sent: []byte(`{"a":1}`)}
	answer := `{"metadata":{"uid":"u","resourceVersion":"9","labels":{"theirs":"x"}},"data":{"theirs":"x"}}`
	if err := json.Unmarshal([]byte(answer), f); err != nil {
		t.Fatal(err)
	}
	if f.uid != "u" || f.resourceVersion != "9" || encode(t, f) != `{"a":1}` ||
		len(f.in.content["data"].(map[string]any)) != 1 {
		t.Errorf("after the answer: %s %s, bytes %s, content %v", f.uid, f.resourceVersion, encode(t, f), f.in.content)
	}
	if *f.GetName() != "a" || *f.GetNamespace() != "ns" || *f.GetKind() != "ConfigMap" || *f.GetAPIVersion() != "v1" {
		t.Errorf("it is about %s %s %s %s", *f.GetAPIVersion(), *f.GetKind(), *f.GetNamespace(), *f.GetName())
	}
	if err := f.UnmarshalJSON([]byte(`{"metadata":7}`)); err == nil {
		t.Error("an answer that is no object was understood")
	}
}

// Random trees: nothing empty is left but in lists, whose items keep their
// number; what says something stays; and pruning twice is pruning once.
func TestPruneOnRandomTrees(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		tree := map[string]any{}
		for i := range 4 {
			tree[fmt.Sprint(i)] = grow(random, 4)
		}
		said := says("", tree)
		prune(tree)
		if diff := cmp.Diff(said, says("", tree)); diff != "" {
			t.Fatalf("seed %d: what was said changed (-before +after):\n%s", seed, diff)
		}
		if path := emptyBelow("", tree); path != "" {
			t.Fatalf("seed %d: %s is empty in %v", seed, path, tree)
		}
		before := encode(t, tree)
		if prune(tree); encode(t, tree) != before {
			t.Fatalf("seed %d: pruned again it is %v", seed, tree)
		}
	}
}

func grow(random *rand.Rand, depth int) any {
	n := random.IntN(3)
	switch kind := random.IntN(8); {
	case kind < 3 && depth > 0:
		m := map[string]any{}
		for i := range n {
			m[fmt.Sprint(i)] = grow(random, depth-1)
		}
		return m
	case kind < 5 && depth > 0:
		list := []any{}
		for range n {
			list = append(list, grow(random, depth-1))
		}
		return list
	case kind == 5:
		return nil
	case kind == 6:
		return ""
	}
	return int64(random.IntN(2))
}

// says lists the scalars of a tree and the lengths of its lists that have any.
func says(path string, v any) map[string]any {
	said := map[string]any{}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for key, child := range v {
			for p, s := range says(path+"."+key, child) {
				said[p] = s
			}
		}
	case []any:
		if len(v) > 0 {
			said[path] = len(v)
		}
		for i, child := range v {
			for p, s := range says(fmt.Sprintf("%s[%d]", path, i), child) {
				said[p] = s
			}
		}
	default:
		said[path] = v
	}
	return said
}

func emptyBelow(path string, v any) string {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			if child == nil || isMap(child) && len(child.(map[string]any)) == 0 || isList(child) && len(child.([]any)) == 0 {
				return path + "." + key
			}
			if p := emptyBelow(path+"."+key, child); p != "" {
				return p
			}
		}
	case []any:
		for i, child := range v {
			if p := emptyBelow(fmt.Sprintf("%s[%d]", path, i), child); p != "" {
				return p
			}
		}
	}
	return ""
}

func hashOf(t *testing.T, in intent) [sha256.Size]byte {
	t.Helper()
	hash, err := in.hash()
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func body(t *testing.T, in intent, pre preconditions) string {
	t.Helper()
	data, err := in.body(pre)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func encode(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

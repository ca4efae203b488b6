package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// merges reports what a merge of whole objects by the API server's algorithm
// says: that it changes nothing, also not the order of an item.
func merges(t *testing.T, live runtime.Object, in intent) bool {
	t.Helper()
	value, err := testConverter().live(in.gvk, live)
	if err != nil {
		t.Fatalf("the live object does not fit its schema: %v", err)
	}
	merged, err := value.Merge(in.value)
	return err == nil && reflect.DeepEqual(value.AsValue().Unstructured(), merged.AsValue().Unstructured())
}

func TestAnIntentHoldsWhereAMergeChangesNothing(t *testing.T) {
	const (
		pod    = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {%s, hostAliases: [{ip: "1", hostnames: [h]}]}}}}`
		stated = `nodeSelector: {k: v}, containers: [{name: a, env: [{name: P, value: p}, {name: Q, value: q}], args: [r, s]}, {name: b}]`
	)
	for name, tc := range map[string]struct {
		live string
		want bool
	}{
		"the same": {stated, true},
		"more of theirs": {
			`nodeSelector: {k: v}, hostNetwork: true, containers: [{name: zero}, {name: a, tty: true, env: [{name: O}, {name: P, value: p}, {name: Z}, {name: Q, value: q}], args: [r, s]}, {name: c}, {name: b}]`, true,
		},
		"another value": {
			`nodeSelector: {k: v}, containers: [{name: a, env: [{name: P, value: p}, {name: Q, value: z}], args: [r, s]}, {name: b}]`, false,
		},
		"no value": {
			`nodeSelector: {k: v}, containers: [{name: a, env: [{name: P, value: p}, {name: Q}], args: [r, s]}, {name: b}]`,
			false,
		},
		"an item less": {
			`nodeSelector: {k: v}, containers: [{name: a, env: [{name: P, value: p}], args: [r, s]}, {name: b}]`, false,
		},
		"no items": {`nodeSelector: {k: v}, containers: [{name: a, args: [r, s]}, {name: b}]`, false},
		"another order": {
			`nodeSelector: {k: v}, containers: [{name: a, env: [{name: Q, value: q}, {name: P, value: p}], args: [r, s]}, {name: b}]`, false,
		},
		"another order above": {
			`nodeSelector: {k: v}, containers: [{name: b}, {name: a, env: [{name: P, value: p}, {name: Q, value: q}], args: [r, s]}]`, false,
		},
		"an item twice": {
			`nodeSelector: {k: v}, containers: [{name: a, env: [{name: P, value: p}, {name: Q, value: q}, {name: P, value: p}], args: [r, s]}, {name: b}]`, false,
		},
		"an atomic list, longer": {
			`nodeSelector: {k: v}, containers: [{name: a, env: [{name: P, value: p}, {name: Q, value: q}], args: [r, s, t]}, {name: b}]`, false,
		},
		"an atomic list, shuffled": {
			`nodeSelector: {k: v}, containers: [{name: a, env: [{name: P, value: p}, {name: Q, value: q}], args: [s, r]}, {name: b}]`, false,
		},
		"an atomic map, larger": {
			`nodeSelector: {k: v, l: w}, containers: [{name: a, env: [{name: P, value: p}, {name: Q, value: q}], args: [r, s]}, {name: b}]`, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, live := frozenIntent(t, fmt.Sprintf(pod, stated)), object(t, fmt.Sprintf(pod, tc.live))
			if merged := merges(t, live, in); merged != tc.want {
				t.Fatalf("a merge says %t", merged)
			}
			for _, live := range []runtime.Object{live, deployment(t, live.Object)} {
				if got := in.satisfiedBy(live); got != tc.want {
					t.Errorf("as %T: it holds: %t", live, got)
				}
			}
		})
	}
}

// The keys of a list may be left out where they have a default.
func TestAKeyWithADefaultIsTheSameKey(t *testing.T) {
	const service = `{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {ports: [%s]}}`
	for _, tc := range []struct {
		intent, live string
		want         bool
	}{
		{`{port: 80, name: x}`, `{port: 80, name: x}`, true},
		{
			`{port: 80, name: x, protocol: TCP}`, `{port: 80, name: x, protocol: TCP}, {port: 80, name: q, protocol: UDP}`,
			true,
		},
		{`{port: 80, name: x}`, `{port: 80, name: q, protocol: UDP}, {port: 80, name: x, protocol: TCP}`, true},
		{`{port: 80, name: x, protocol: TCP}`, `{port: 80, name: x}`, false}, // the merge states it
		{`{port: 80, name: x, protocol: UDP}`, `{port: 80, name: x}`, false},
	} {
		in, live := frozenIntent(t, fmt.Sprintf(service, tc.intent)), object(t, fmt.Sprintf(service, tc.live))
		got, merged := in.satisfiedBy(live), merges(t, live, in)
		if got != tc.want || merged != tc.want {
			t.Errorf("%s in %s: holds is %t; a merge says %t", tc.intent, tc.live, got, merged)
		}
	}
}

// A Go type that leaves out what is empty does not hold an empty text: whether
// the server has it is for what was learned of its answer to say.
func TestAnEmptyTextIsNotHeldByATypeThatOmitsIt(t *testing.T) {
	const pod = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {template: {spec: {containers: [{name: c, env: [{name: P, value: ""}]}]}}}}`
	in, live := frozenIntent(t, pod), object(t, pod)
	if !in.satisfiedBy(live) || in.satisfiedBy(deployment(t, live.Object)) {
		t.Error("an empty text is not told from none")
	}
}

// What JSON says of a Go value is what counts.
func TestValuesAreEqualAsInJSON(t *testing.T) {
	type inline struct {
		Text  string `json:"text,omitempty"`
		Count int32  `json:"count"`
	}
	for name, tc := range map[string]struct {
		want, live any
		equal      bool
	}{
		"texts":                     {"a", "a", true},
		"other texts":               {"a", "b", false},
		"bytes":                     {"YQ==", []byte("a"), true},
		"other bytes":               {"YQ==", []byte("b"), false},
		"a text and a number":       {"1", 1, false},
		"truths":                    {true, true, true},
		"other truths":              {true, false, false},
		"numbers":                   {int64(7), int32(7), true},
		"other numbers":             {int64(7), int32(8), false},
		"unsigned":                  {int64(7), uint8(7), true},
		"unsigned, another":         {int64(-1), uint64(1<<64 - 1), false},
		"a whole and a broken":      {int64(7), 7.0, true},
		"a whole and another":       {int64(7), 7.5, false},
		"broken numbers":            {7.5, 7.5, true},
		"a broken and a whole":      {7.0, int64(7), true},
		"other broken numbers":      {7.5, 7.25, false},
		"null and null":             {nil, (*int)(nil), true},
		"null and a number":         {nil, new(int), false},
		"a number and null":         {int64(0), (*int)(nil), false},
		"a map and a struct":        {map[string]any{"text": "a", "count": int64(0)}, inline{Text: "a"}, true},
		"a struct with more":        {map[string]any{"count": int64(0)}, inline{Text: "a"}, false},
		"a struct without":          {map[string]any{"text": "", "count": int64(0)}, inline{}, false},
		"a map and a map":           {map[string]any{"text": "a"}, map[string]string{"text": "a"}, true},
		"a map with more":           {map[string]any{"text": "a"}, map[string]string{"text": "a", "b": "b"}, false},
		"a map with something else": {map[string]any{"text": ""}, map[string]string{"b": "b"}, false},
		"a map and nothing":         {map[string]any{"text": "a"}, nil, false},
		"a list":                    {[]any{"a", int64(1)}, []any{"a", int64(1)}, true},
		"a longer list":             {[]any{"a"}, []any{"a", "b"}, false},
		"a list and a text":         {[]any{"a"}, "a", false},
		"an empty list and null":    {[]any{}, []string(nil), false},
		"a quantity":                {"1", quantity("1000m"), true},
		"another quantity":          {"2", quantity("1000m"), false},
		"a port":                    {int64(80), intstr.FromInt32(80), true},
		"a port by name":            {"http", new(intstr.FromString("http")), true},
		"another port":              {int64(80), new(intstr.FromInt32(81)), false},
	} {
		if got := equal(tc.want, plain(reflect.ValueOf(tc.live))); got != tc.equal {
			t.Errorf("%s: equal is %t", name, got)
		}
	}
}

// A proxy that is edited at random is judged as a merge judges it, as a Go type and as a map.
func TestHoldsAgreesWithMergeOnRandomEdits(t *testing.T) {
	proxy := proxyIntent(t)
	in, err := testConverter().freeze(proxy)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := runtime.DefaultUnstructuredConverter.ToUnstructured(proxyLive(t, proxy))
	if err != nil {
		t.Fatal(err)
	}
	verdicts := map[bool]int{}
	for seed := range uint64(250) {
		random := rand.New(rand.NewPCG(seed, 2))
		live := runtime.DeepCopyJSON(whole)
		for range 1 + random.IntN(2) {
			mutate(random, live["spec"])
		}
		var want bool
		for _, live := range []runtime.Object{&unstructured.Unstructured{Object: live}, deployment(t, live)} {
			want = merges(t, live, in)
			if got := in.satisfiedBy(live); got != want {
				t.Fatalf("seed %d as %T: holds is %t; a merge says %t", seed, live, got, want)
			}
		}
		verdicts[want]++
	}
	if verdicts[true] < 10 || verdicts[false] < 10 {
		t.Errorf("the edits are of one sort: %v", verdicts)
	}
}

// mutate changes one thing somewhere below v, in a way that keeps its type.
func mutate(random *rand.Rand, v any) {
	for {
		switch parent := v.(type) {
		case map[string]any:
			keys := slices.Sorted(maps.Keys(parent))
			if len(keys) == 0 {
				return
			}
			key := keys[random.IntN(len(keys))]
			if child := parent[key]; random.IntN(4) > 0 && (isMap(child) || isList(child)) {
				v = child
				continue
			}
			switch child := parent[key].(type) {
			case string:
				parent[key] = child + "x"
			case int64:
				parent[key] = child + 1
			case bool:
				parent[key] = !child
			default:
				delete(parent, key)
			}
			return
		case []any:
			if len(parent) == 0 {
				return
			}
			i, j := random.IntN(len(parent)), random.IntN(len(parent))
			switch kind := random.IntN(6); {
			case kind == 0:
				parent[i], parent[j] = parent[j], parent[i]
				return
			case kind == 1:
				parent[i] = runtime.DeepCopyJSONValue(parent[j]) // one twice, one less
				return
			case isMap(parent[i]) || isList(parent[i]):
				v = parent[i]
			default:
				parent[i] = fmt.Sprint(parent[i], "x")
				return
			}
		default:
			return
		}
	}
}

func isMap(v any) bool  { _, ok := v.(map[string]any); return ok }
func isList(v any) bool { _, ok := v.([]any); return ok }

// deployment is an object in its Go type.
func deployment(t *testing.T, content map[string]any) *appsv1.Deployment {
	t.Helper()
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := json.Unmarshal(data, d); err != nil {
		t.Fatal(err)
	}
	return d
}

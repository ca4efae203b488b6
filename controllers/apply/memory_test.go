package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestAheadIsALaterVersionOfTheSameObject(t *testing.T) {
	for name, tc := range map[string]struct {
		uid, version string
		want         bool
	}{
		"older":               {"u", "9", true},
		"the same":            {"u", "10", false},
		"newer":               {"u", "11", false},
		"newer by digits":     {"u", "100", false},
		"another incarnation": {"other", "9", false},
		"no uid":              {"", "9", false},
		"no version":          {"u", "", false},
		"no number":           {"u", "x", false},
	} {
		w := written{uid: "u", resourceVersion: "10"}
		if got := w.ahead(types.UID(tc.uid), tc.version); got != tc.want {
			t.Errorf("%s: ahead is %t", name, got)
		}
	}
	if (written{uid: "u", resourceVersion: "x"}).ahead("u", "9") {
		t.Error("a version that is no number is ahead")
	}
}

func TestMemoryKeepsWritesApart(t *testing.T) {
	m := newMemory()
	at := memoryKey{
		gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, key: types.NamespacedName{Namespace: "ns", Name: "a"}, manager: "m",
	}
	m.put(at, written{resourceVersion: "1"})
	m.put(at, written{resourceVersion: "2"})
	if w, ok := m.get(at); !ok || w.resourceVersion != "2" {
		t.Errorf("remembered is %+v, %t", w, ok)
	}
	for name, change := range map[string]func(*memoryKey){
		"kind":        func(k *memoryKey) { k.gvk.Kind = "Secret" },
		"group":       func(k *memoryKey) { k.gvk.Group = "x" },
		"namespace":   func(k *memoryKey) { k.key.Namespace = "other" },
		"name":        func(k *memoryKey) { k.key.Name = "b" },
		"manager":     func(k *memoryKey) { k.manager = "n" },
		"subresource": func(k *memoryKey) { k.subresource = "status" },
	} {
		other := at
		change(&other)
		if _, ok := m.get(other); ok {
			t.Errorf("a write of another %s is taken for this one", name)
		}
	}
	m.forget(at)
	if _, ok := m.get(at); ok {
		t.Error("it was not forgotten")
	}
}

func TestAbsentIsNoObjectOfAnyType(t *testing.T) {
	if !absent(nil) || !absent((*corev1.ConfigMap)(nil)) {
		t.Error("nil is an object")
	}
	if absent(&corev1.ConfigMap{ObjectMeta: meta("a")}) {
		t.Error("an object is absent")
	}
}

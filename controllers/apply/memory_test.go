package apply

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
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

// restored is an API server whose store was restored from a backup, or one that is well, by the version that it has.
type restored struct {
	client.Client
	version string
	reads   int
}

func (r *restored) Scheme() *runtime.Scheme { return scheme.Scheme }

func (r *restored) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r.reads++
	if r.version == "" {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	obj.SetUID("u")
	obj.SetResourceVersion(r.version)
	return nil
}

// A cache that does not show our write is waited for, but not for ever: a server
// that was restored from a backup never shows it.
func TestACacheIsWaitedForAsLongAsTheServerHasOurWrite(t *testing.T) {
	for name, tc := range map[string]struct {
		stored  string
		after   time.Duration
		waits   bool
		reads   int
		forgets bool
	}{
		"just written":           {"9", maxCacheLag - 1, true, 0, false},
		"the cache is late":      {"10", maxCacheLag, true, 1, false},
		"later than that":        {"12", time.Hour, true, 1, false},
		"the object is gone":     {"", maxCacheLag, true, 1, false},
		"the store was restored": {"9", maxCacheLag, false, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := &restored{version: tc.stored}
			a, now := New(server, server, nil, ownership.Contract{}), noon
			a.Now = func() time.Time { return now }
			shown := &corev1.ConfigMap{ObjectMeta: meta("a")}
			shown.UID, shown.ResourceVersion = "u", "8"
			k := memoryKey{
				gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
				key: client.ObjectKeyFromObject(shown), manager: "m",
			}
			other := k
			other.key.Name = "another"
			forgot := 0
			a.OnRestore(func() { forgot++ })
			a.memory.put(k, written{uid: "u", resourceVersion: "10", at: now})
			a.memory.put(other, written{uid: "v", resourceVersion: "7", at: now})
			now = now.Add(tc.after)
			for range 2 { // the second time the server is not asked again
				wait, err := a.Ahead(t.Context(), shown, "m")
				if err != nil || (wait > 0) != tc.waits || wait > maxCacheLag {
					t.Fatalf("it waits %s (%v), want %t", wait, err, tc.waits)
				}
			}
			if server.reads != tc.reads {
				t.Errorf("it read %d times, want %d", server.reads, tc.reads)
			}
			if _, ok := a.memory.get(other); ok == tc.forgets {
				t.Errorf("it remembers its other writes: %t", ok)
			}
			if (forgot == 1) != tc.forgets {
				t.Errorf("others were told %d times to forget", forgot)
			}
		})
	}
}

func TestMemoryKeepsWritesApart(t *testing.T) {
	m := newMemory()
	at := memoryKey{
		gvk: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, key: types.NamespacedName{Namespace: "ns", Name: "a"},
		manager: "m",
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

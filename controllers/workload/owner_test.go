package workload

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/freehold-dev/freehold/controllers/revision"
)

// gateway is an owner of a kind that has a proxy and no backend.
func gateway(name string) Owner {
	return Owner{
		APIVersion: "freehold.dev/v1alpha1", Kind: "Gateway", Resource: "gateways", Suffix: "gw",
		Namespace: "team-a", Name: name, UID: "2222",
	}
}

// Names cannot be told apart by a lookup, and a selector that meets another's pods could never be changed.
func TestTwoKindsOfOneNameDoNotMeet(t *testing.T) {
	rev, whose := revision.Revision{Generation: 7, Hash: "abc"}, map[string]string{}
	var keys []string
	for _, name := range []string{
		"echo", "gw", "echo-gw", "echo-proxy", "echo-proxy-gw", "echo-run", "echo-runner",
		"echo-session", "echo-session-5e9f2f0c", "echo-backend", "echo-backend-headless",
		"echo-slot2", "echo-slot2-headless",
	} {
		keys = append(keys, Owner{Name: name}.Key(), gateway(name).Key())
	}
	if distinct := slices.Compact(slices.Sorted(slices.Values(keys))); len(distinct) != len(keys) {
		t.Errorf("two owners have one key: %q", keys)
	}
	for _, key := range keys {
		if errs := validation.IsValidLabelValue(key); len(errs) > 0 {
			t.Errorf("no label has the value %q: %v", key, errs)
		}
		for kind, name := range map[string]string{
			"account": RunnerName(key), "ConfigMap": RunConfigName(key, rev), "Deployment": ProxyName(key),
			"StatefulSet": BackendName(key),
			"Service":     ProxyName(key), "Service of the backend": BackendName(key), "headless Service": HeadlessName(key),
			"StatefulSet of slot 2": Slot2.Name(key), "Service of slot 2": Slot2.Name(key),
			"Service of slot 2, headless": Slot2.HeadlessName(key),
			"Secrets, older":              olderSessionName(key), "Secrets": SessionName(key, "5e9f2f0c-1"),
		} {
			if kind = kind[:min(7, len(kind))]; whose[kind+name] != "" && whose[kind+name] != key {
				t.Errorf("%s and %s both have a %s %s", key, whose[kind+name], kind, name)
			}
			whose[kind+name] = key
			if kind == "Service" && len(validation.IsDNS1035Label(name)) > 0 {
				t.Errorf("no Service of %s can be called %s", key, name)
			}
			for _, other := range keys {
				if kind != "Secrets" && IsChildName(other, name) != (other == key) {
					t.Errorf("%s is a child of %s: %t", name, other, other != key)
				}
			}
		}
		for _, other := range keys {
			if labels.SelectorFromSet(Selector(key, ComponentProxy)).
				Matches(labels.Set(Labels(other, ComponentProxy))) != (other == key) {
				t.Errorf("the proxy's selector of %s meets the pods of %s", key, other)
			}
		}
	}
}

// An Event of a pod that is gone has its name alone. A ReplicaSet cuts what is longer than 58
// characters before the last five.
func TestAPodIsOfItsOwner(t *testing.T) {
	long := "a23456789012345678901234567890123456789012"
	for pod, want := range map[string][2]string{
		"echo-backend-0":                    {"echo", "backend"},
		"echo-backend-12":                   {"echo", "backend"},
		"echo-slot2-3":                      {"echo", "backend-slot2"},
		"a-backend-slot2-0":                 {"a-backend", "backend-slot2"},
		"a-slot2-backend-0":                 {"a-slot2", "backend"},
		"-slot2-0":                          {},
		"a-backend-backend-0":               {"a-backend", "backend"},
		"a-proxy-backend-0":                 {"a-proxy", "backend"},
		"echo-proxy-7d9f6c4b5-x2x4z":        {"echo", "proxy"},
		"a-proxy-proxy-7d9f6c4b5-x2x4z":     {"a-proxy", "proxy"},
		"a-backend-0-proxy-7d9f6c4b5-x2x4z": {"a-backend-0", "proxy"},
		"echo-proxy-remote-7d9f6c4b5-x2x4z": {"echo.remote", "proxy"},
		"remote-proxy-7d9f6c4b5-x2x4z":      {"remote", "proxy"},
		long + "-proxy-7d9f6c4bx2x4z":       {long, "proxy"},
		long + "-proxy-remote-x2x4z":        {long + ".remote", "proxy"},
		"echo-backend-headless":             {},
		"echo-backend-":                     {},
		"-backend-0":                        {},
		"postgres-0":                        {},
		"":                                  {},
	} {
		if key, component := OfPod(pod); key != want[0] || component != want[1] {
			t.Errorf("%s is of %q, the %q; want %q", pod, key, component, want)
		}
	}
}

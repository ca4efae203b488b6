package podtemplate

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestObjectsCarryWhatTheReleaseSaysAndWhatAServerHandsDown(t *testing.T) {
	release := ObjectDefaults{
		Labels: map[string]string{"team": "platform", "tier": "mcp"}, Annotations: map[string]string{"a": "b"},
		InheritLabels: []string{"team", "absent"},
	}
	got := release.Of(&metav1.ObjectMeta{Labels: map[string]string{"team": "blue", "tier": "own", "other": "x"}})
	if want := map[string]string{"team": "blue", "tier": "mcp"}; !maps.Equal(got.Labels, want) ||
		!maps.Equal(got.Annotations, release.Annotations) {
		t.Errorf("%+v, want the labels %v", got, want)
	}
	if got := release.Of(&metav1.ObjectMeta{}); !maps.Equal(got.Labels, release.Labels) {
		t.Errorf("without labels of its own it hands down %v", got.Labels)
	}
	if release.Labels["team"] != "platform" {
		t.Error("it changed what the release says")
	}
}

func TestWhatNoObjectMayCarryIsRefused(t *testing.T) {
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprintf("k%d", i)] = ""
	}
	for says, d := range map[string]ObjectDefaults{
		"": {
			Labels:        map[string]string{"team": "a", "example.com/cost-center": "1"},
			Annotations:   map[string]string{"example.com/owner": "a b@example.com"},
			InheritLabels: []string{"team"},
		},
		`objectDefaults.labels["freehold.dev/server"]: only Freehold`: {
			Labels: map[string]string{"freehold.dev/server": "a"},
		},
		`objectDefaults.labels["app.kubernetes.io/part-of"]: only Freehold`: {
			Labels: map[string]string{"app.kubernetes.io/part-of": "a"},
		},
		`objectDefaults.annotations["service.beta.kubernetes.io/x"]: a key of Kubernetes`: {
			Annotations: map[string]string{"service.beta.kubernetes.io/x": "a"},
		},
		`objectDefaults.annotations["k8s.io/x"]: a key of Kubernetes`: {
			Annotations: map[string]string{"k8s.io/x": "a"},
		},
		`objectDefaults.inheritLabels["kubernetes.io/metadata.name"]: a key of Kubernetes`: {
			InheritLabels: []string{"kubernetes.io/metadata.name"},
		},
		`objectDefaults.inheritLabels["a b"]: no label or annotation has such a key`: {InheritLabels: []string{"a b"}},
		`objectDefaults.labels["team"]: no label has such a value`: {
			Labels: map[string]string{"team": "a b"},
		},
		`objectDefaults.annotations: has more than 64 keys`: {Annotations: many},
		`objectDefaults.annotations: are longer than 16384 bytes together`: {
			Annotations: map[string]string{"a": strings.Repeat("x", 16384)},
		},
		`objectDefaults.labels: and inheritLabels have more than 64 keys together`: {
			Labels:        first(many, 64),
			InheritLabels: []string{"team"},
		},
	} {
		err := AsError(CheckObjects(d))
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func first(of map[string]string, n int) map[string]string {
	some := map[string]string{}
	for key, value := range of {
		if len(some) < n {
			some[key] = value
		}
	}
	return some
}

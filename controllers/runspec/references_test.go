package runspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// Each place of content that names a ConfigMap or Secret.
func TestReferencesAreFoundEverywhere(t *testing.T) {
	const spec = `
image: i
imagePullSecrets: [{name: pull}]
env:
- {name: A, value: x}
- {name: B, valueFrom: {configMapKeyRef: {name: cm-env, key: k}}}
- {name: C, valueFrom: {secretKeyRef: {name: s-env, key: k, optional: true}}}
envFrom: [{configMapRef: {name: cm-from, optional: true}}, {secretRef: {name: s-env}}]
volumes:
- {name: a, configMap: {name: cm-volume}}
- {name: b, secret: {secretName: s-volume}}
- {name: c, projected: {sources: [{configMap: {name: cm-projected}}, {secret: {name: s-projected}}]}}
- {name: d, emptyDir: {}}
podTemplate:
  spec:
    initContainers: [{name: first, envFrom: [{configMapRef: {name: cm-init}}]}]
    containers: [{name: beside, env: [{name: A, valueFrom: {secretKeyRef: {name: s-beside, key: k}}}]}]
    volumes: [{name: e, configMap: {name: cm-overlay}}]
`
	var server v1alpha1.MCPServer
	if err := yaml.Unmarshal([]byte(spec), &server.Spec); err != nil {
		t.Fatal(err)
	}
	want := []Reference{
		{"ConfigMap", "cm-env", false},
		{"ConfigMap", "cm-from", true},
		{"ConfigMap", "cm-init", false},
		{"ConfigMap", "cm-overlay", false},
		{"ConfigMap", "cm-projected", false},
		{"ConfigMap", "cm-volume", false},
		{"Secret", "pull", true},
		{"Secret", "s-beside", false},
		{"Secret", "s-env", false},
		{"Secret", "s-projected", false},
		{"Secret", "s-volume", false},
	}
	if diff := cmp.Diff(want, References(For(&server).Backend)); diff != "" {
		t.Errorf("the references (-want +got):\n%s", diff)
	}
}

// A message has room for so many.
func TestFewReferencesAreNamed(t *testing.T) {
	var many []Reference
	for i := range mostNamed + 2 {
		many = append(many, Reference{Kind: "Secret", Name: string(rune('a' + i))})
	}
	for want, refs := range map[string][]Reference{
		"": nil, "Secret/a, Secret/b": many[:2], ", Secret/i, Secret/j, and 2 more": many,
	} {
		if got := Named(refs); !strings.HasSuffix(got, want) || want == "" && got != "" {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

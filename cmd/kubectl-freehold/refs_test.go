package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/test/golden"
)

func fromYAML(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const conditionReady = `conditions: [{type: Ready, status: "%s", reason: %s, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]`

// referrer is a server that refers to the policies, if any, and runs with a hash of them.
func referrer(t *testing.T, name, policies, hash, status, reason string) *unstructured.Unstructured {
	t.Helper()
	spec, configs := "image: i", ""
	if policies != "" {
		spec += ", oidcConfigRef: {name: login}, authzConfigRef: {name: " + policies + "}"
	}
	if hash != "" {
		configs = "workload: {generation: 1, hash: a, configs: [{kind: MCPOIDCConfig, name: login, hash: l}, {kind: " +
			"MCPAuthzConfig, name: company, hash: " + hash + "}]}, "
	}
	return fromYAML(t, fmt.Sprintf(
		"{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: %s, namespace: tools}, spec: {%s}, status: "+
			"{%s"+conditionReady+"}}",
		name, spec, configs, status, reason))
}

func TestWhoRefersToWhat(t *testing.T) {
	config := func(kind, name, hash string) *unstructured.Unstructured {
		return fromYAML(t, fmt.Sprintf(
			"{apiVersion: freehold.dev/v1alpha1, kind: %s, metadata: {name: %s, namespace: tools}, status: {hash: %q, "+
				conditionReady+"}}", kind, name, hash, "True", "Valid"))
	}
	company := config("MCPAuthzConfig", "company", "new")
	servers := []*unstructured.Unstructured{
		referrer(t, "waits", "company", "old", "False", "RolloutPending"),
		referrer(t, "runs", "company", "new", "True", "Ready"),
		referrer(t, "starts", "company", "", "False", "Starting"), referrer(t, "other", "other", "new", "True", "Ready"),
		referrer(t, "open", "", "", "True", "Ready"),
	}
	configs := []*unstructured.Unstructured{
		company, config("MCPAuthzConfig", "login", "x"),
		config("MCPOIDCConfig", "company", "x"),
	}
	for name, tc := range map[string]struct {
		of     func(*unstructured.Unstructured, []*unstructured.Unstructured) ([]referring, error)
		object *unstructured.Unstructured
		others []*unstructured.Unstructured
		format string
	}{
		"refs-config":      {workloadsOf, company, servers, ""},
		"refs-config-json": {workloadsOf, company, servers, "json"},
		"refs-nobody":      {workloadsOf, config("MCPAuthzConfig", "lonely", ""), servers, ""},
		"refs-server":      {configsOf, servers[0], configs, ""}, // of which the login is missing
		"refs-open":        {configsOf, servers[4], configs, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ends, err := tc.of(tc.object, tc.others)
			if err != nil {
				t.Fatal(err)
			}
			d := sit("")
			code := d.exit(d.showRefs(output{format: tc.format}, tc.object, ends))
			golden.File(t, filepath.Join("testdata", "golden", name+".txt"), d.said(code))
		})
	}
}

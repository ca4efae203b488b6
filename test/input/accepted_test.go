package input

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// accepted are specs at the edge of what is refused.
var accepted = map[string]string{
	"a short image":                "image: echo",
	"an image with a port":         "image: localhost:5000/team/echo",
	"an image with all separators": "image: registry.example.com:443/a_b/c.d/e--f/g__h:V1.0_rc-1",
	"an image by digest":           "image: registry.example.com/echo@sha256:" + strings.Repeat("0aF9", 16),
	"an image by tag and digest":   "image: echo:1@sha256:" + strings.Repeat("a", 64),
	"a registry in upper case":     "image: Registry.example.com/echo:1",
	"a path with dots":             "path: /mcp/v1.0/..a/b..",
	"the root as path":             "path: /",
	"quantities": "resources: {limits: {cpu: 0, memory: 1.5Gi, nvidia.com/gpu: 1, hugepages-2Mi: 2Mi, " +
		"ephemeral-storage: 1e3}, requests: {cpu: 0}}",
	"origins": `proxy: {allowedOrigins: ["https://app.example.com", "http://localhost:3000", "http://[::1]:3000", "vscode-webview://0a1b"]}`,
	"an HTTPRoute": "proxy: {httpRoute: {parentRefs: [{name: a, namespace: b, sectionName: https, port: 443}], " +
		"hostnames: [localhost, a.example.com], path: /team/echo.v1}}",
	"a public URL":                 `proxy: {publicURL: "https://mcp.example.com:8443/echo?a=b"}`,
	"a ServiceAccount with a dot":  "serviceAccountName: team.robot-1",
	"a ServiceAccount with runner": "serviceAccountName: runner-1",
	"the longest argument":         "args: [" + strings.Repeat("x", 131072) + "]",
	"a claim of one pod": "volumeClaimTemplates: [{metadata: {name: a}, spec: {volumeMode: Filesystem, " +
		"accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Gi}}}}]",
	"a claim of a block device": "volumeClaimTemplates: [{metadata: {name: a}, spec: {volumeMode: Block, accessModes: " +
		"[ReadWriteOnce, ReadOnlyMany], resources: {requests: {storage: 1Gi}}}}]",
	"words of any kind as args": `args: ["{{ .Values.a }}", "", "\a", "ü", "8080"]`,
}

// A rule that is too strict would refuse what works.
func TestTheAPIServerAccepts(t *testing.T) {
	t.Parallel()
	k := newKubectl(newEnv(t))
	for name, spec := range accepted {
		t.Run(name, func(t *testing.T) {
			r := row{spec: spec}
			must(t, k.create(r.text("fine")), "creating it")
			must(t, k.apply("fine", r.text("fine")), "applying it")
			must(t, k.send("DELETE", yamlType, "fine", ""), "deleting it")
		})
	}
}

// What people copy is right.
func TestTheAPIServerAcceptsTheSamples(t *testing.T) {
	t.Parallel()
	s := newEnv(t)
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are %d samples: %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err, "reading a sample")
		if got := s.Apply("git", string(text)); got.GetName() == "" {
			t.Errorf("%s has no name", file)
		}
	}
}

package plugin

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/test/kit"
)

// installed is an operator as the chart labels it, whose Lease has an old holder.
const installed = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: their-release-operator, labels: {app.kubernetes.io/component: operator}}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - {name: operator, image: "freehold.dev/operator:v1.2.3", args: ["--runner-image=freehold.dev/runner:v1.2.4"]}
`

const held = `
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: freehold-operator}
spec: {holderIdentity: their-pod_uuid, leaseDurationSeconds: 15, renewTime: "2026-01-01T00:00:00.000000Z"}
`

// What status and debug show of a server that runs, and of an operator that does not.
func TestStatusAndDebugOfARunningServer(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.says(s.asks("", "status"), 1, "There are no MCPServers and no shared configurations here.")
	s.serve("echo")
	s.Apply("git", kit.Server("echo", "registry.example.com/echo:1", "env: [{name: TOKEN, value: s3cret}]"))
	s.Apply("git", installed)
	s.Apply("git", held)
	s.pass("echo")
	got := s.asks("", "status")
	s.says(got, 1, s.Namespace+"/their-release-operator   0/0", "nobody; their-pod stopped", "v1.2.3    v1.2.4", "MCPServer   1", "No pod of the operator is ready")

	got = s.asks("", "debug", "echo", "--file", "-")
	if got.code != 0 {
		t.Fatal(got.err)
	}
	uncompressed, err := gzip.NewReader(strings.NewReader(got.out))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(uncompressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "freehold-debug-"+s.Namespace+"-echo/")] = string(text)
		if strings.Contains(string(text), "s3cret") {
			t.Errorf("%s holds the value of a variable:\n%s", header.Name, text)
		}
	}
	for name, says := range map[string]string{
		"mcpserver-echo.yaml":                   "REDACTED",
		"objects/deployment-echo-proxy.yaml":    "managedFields",
		"objects/statefulset-echo-backend.yaml": "registry.example.com/echo:1",
		"status.txt":                            "their-release-operator",
		"audit.txt":                             "fields with a wrong owner: 0",
		"version.txt":                           "kubectl-freehold",
		"operator/" + s.Namespace + "-deployment-their-release-operator.yaml": "runner-image",
		"unread.txt": "logs/", // no kubelet answers here
	} {
		if !strings.Contains(files[name], says) {
			t.Errorf("%s of the bundle does not say %q:\n%s", name, says, files[name])
		}
	}
	s.says(s.asks("", "debug", "nobody"), 2, "not found")
}

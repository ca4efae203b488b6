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
	s.says(s.asks("", "status"), 1, "There are no MCPServers, MCPRemoteProxies or shared configurations here.")
	s.serve("echo")
	s.Apply("git", kit.Server("echo", "registry.example.com/echo:1", "env: [{name: TOKEN, value: s3cret}]"))
	s.Apply("git", installed)
	s.Apply("git", held)
	s.pass("echo")
	got := s.asks("", "status")
	s.says(got, 1, s.Namespace+"/their-release-operator   0/0", "nobody; their-pod stopped", "v1.2.3    v1.2.4",
		"MCPServer   1", "No pod of the operator is ready")

	got = s.asks("", "debug", "echo", "--file", "-")
	if got.code != 0 {
		t.Fatal(got.err)
	}
	files := unpacked(t, got.out, "freehold-debug-"+s.Namespace+"-echo/")
	for name, text := range files {
		if strings.Contains(text, "s3cret") {
			t.Errorf("%s holds the value of a variable:\n%s", name, text)
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

// unpacked are the files of a bundle, by their names below its folder.
func unpacked(t *testing.T, bundle, folder string) map[string]string {
	t.Helper()
	uncompressed, err := gzip.NewReader(strings.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(uncompressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, folder)] = string(text)
	}
}

// Another product's operator has the label that the chart sets, and arguments that are nobody's business.
const others = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: database-operator, labels: {app.kubernetes.io/component: operator}}
spec:
  replicas: 0
  selector: {matchLabels: {c: d}}
  template:
    metadata: {labels: {c: d}}
    spec:
      containers:
      - {name: operator, image: "example.com/database:1", args: ["--password=hunter2"]}
`

// What debug collects of an MCPRemoteProxy: its children by their key, and of operators only Freehold's. No kubelet
// answers here, so each log that it asks for is one that unread.txt names.
func TestABundleOfARemoteProxyHasNothingOfOthers(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.Apply("git", "{apiVersion: freehold.dev/v1alpha1, kind: MCPRemoteProxy, metadata: {name: search}, spec: {url: "+
		"https://search.example.com/mcp}}")
	s.Apply("git", installed)
	s.Apply("vendor", others)
	pod := func(name, labels, containers string) {
		containers = strings.ReplaceAll(containers, "image: i",
			"image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}")
		s.Apply("kubelet", "{apiVersion: v1, kind: Pod, metadata: {name: "+name+", labels: {"+labels+
			"}}, spec: {securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, "+containers+"}}")
	}
	pod("ours", "a: b", "initContainers: [{name: first, image: i}], containers: [{name: operator, image: i}]")
	pod("theirs", "c: d, app.kubernetes.io/component: operator", "containers: [{name: operator, image: i}]")
	pod("of-the-proxy", "freehold.dev/server: search.remote, app.kubernetes.io/component: proxy",
		"containers: [{name: proxy, image: i}]")
	pod("of-a-server", "freehold.dev/server: search, app.kubernetes.io/component: proxy",
		"containers: [{name: proxy, image: i}]")
	pod("backend", "freehold.dev/server: search.remote, app.kubernetes.io/component: backend",
		"initContainers: [{name: bridge, image: i, restartPolicy: Always}], containers: [{name: server, image: i}]")
	got := s.asks("", "debug", "mcprp/search", "--file", "-")
	if got.code != 0 {
		t.Fatal(got.err)
	}
	files := unpacked(t, got.out, "freehold-debug-"+s.Namespace+"-search/")
	for name, text := range files {
		if strings.Contains(name+text, "database") || strings.Contains(text, "hunter2") || strings.Contains(text, "theirs") {
			t.Errorf("%s has something of another product's:\n%s", name, text)
		}
	}
	if files["mcpremoteproxy-search.yaml"] == "" || files["objects/pod-of-the-proxy.yaml"] == "" ||
		files["objects/pod-of-a-server.yaml"] != "" {
		t.Errorf("the bundle has other objects than those of the MCPRemoteProxy")
	}
	for log, asked := range map[string]bool{
		"ours-operator": true, "ours-first": true, "of-the-proxy-proxy": true, "backend-bridge": true,
		"backend-server": false, "of-a-server-proxy": false,
	} {
		if strings.Contains(files["unread.txt"], "logs/"+log+".log") != asked {
			t.Errorf("the log of %s was asked for: %t, want %t\n%s", log, !asked, asked, files["unread.txt"])
		}
	}
	s.says(s.asks("", "debug", "pod", "ours"), 2, "name an MCPServer or an MCPRemoteProxy")
	s.says(s.asks("", "debug"), 2, "name one MCPServer")
}

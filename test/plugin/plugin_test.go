package plugin

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// seized is what a deployment tool renders that knows nothing of owners.
const seized = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: echo-proxy, annotations: {tool.example.com/revision: "1"}}
spec:
  replicas: 3
  template:
    spec:
      containers:
      - {name: proxy, image: registry.example.com/mirror:1}
      - {name: sidecar, image: registry.example.com/sidecar:1}
`

func proxyOf(s *story) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "echo-proxy", Namespace: s.Namespace}}
}

func serverOf(s *story) *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: s.Namespace}}
}

// No verdict on what Freehold itself writes is a false alarm.
func TestAServerThatRunsIsSound(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.says(s.asks("", "audit"), 0, "servers: 1, objects: 9, fields with a wrong owner: 0")
	s.says(s.asks("", "audit", "-o", "json"), 0, `"findings": []`)
	for object, texts := range map[string][]string{
		"mcp/echo": {
			`metadata.finalizers[="freehold.dev/mcpserver"]`, "mcpserver.freehold.dev/conditions", "runner.freehold.dev/report",
			"ours", "git", "foreign",
		},
		"deployment/echo-proxy":    {"mcpserver.freehold.dev/children", "ours", "kube-controller-manager", "foreign"},
		"statefulset/echo-backend": {"runner.freehold.dev/backend", "ours"},
	} {
		got := s.asks("", "owners", object)
		s.says(got, 0, append(texts, "VERDICT")...)
		for _, wrong := range []string{"taken", "stray"} {
			if strings.Contains(got.out, wrong) {
				t.Errorf("%s of %s:\n%s", wrong, object, got.out)
			}
		}
	}
	s.says(s.asks("", "owners", "sa", "default"), 2, "has no managedFields")
	s.says(s.asks("", "__complete", "owners", "mcp", ""), 0, "echo\n")
}

// Both ends of a reference are found from the other.
func TestWhoRefersToAConfiguration(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.Apply("git", "{apiVersion: freehold.dev/v1alpha1, kind: MCPAuthzConfig, metadata: {name: company}, spec: "+
		"{policies: [{name: a, policy: 'permit(principal, action, resource);'}]}}")
	s.Apply("git", kit.Server("refers", "registry.example.com/echo:1",
		"suspend: true\nauthzConfigRef: {name: company}\noidcConfigRef: {name: missing}"))
	s.says(s.asks("", "refs", "mcpauthz", "company"), 0, "MCPServer/refers")
	s.says(s.asks("", "refs", "mcp/refers"), 0, "MCPAuthzConfig/company", "MCPOIDCConfig/missing", "NotFound")
	s.says(s.asks("", "refs", "mcp/echo"), 0, "no references")
	s.says(s.asks("", "refs", "deployment/echo-proxy"), 2, "is neither a configuration nor a workload")
	s.says(s.asks("", "owners", "mcpauthz/company"), 0, "git", "foreign")
	s.says(s.asks("", "audit"), 0, "servers: 2", "fields with a wrong owner: 0")
}

// A tool takes the proxy by force: audit says so, the operator takes back what it states, and release ends the rest.
func TestWhatWasTakenIsFoundAndReleased(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.Force("tool", seized)
	found := s.asks("", "audit")
	s.says(found, 1, "Deployment/echo-proxy   spec.replicas ", "spec.template.spec.containers[name=proxy].image", "tool",
		"taken", "owner: 3")
	for _, theirs := range []string{"sidecar", "tool.example.com"} {
		if strings.Contains(found.out, theirs) {
			t.Errorf("%s is what they added, and no fault:\n%s", theirs, found.out)
		}
	}
	s.says(s.asks("", "audit", "-A", "-o", "json"), 1, `"namespace": "`+s.Namespace+`"`, `"verdict": "taken"`)

	s.says(s.asks("", "release", "deployment/echo-proxy", "--manager", "tool", "--yes"), 2, "image: Required value")
	s.Owns(proxyOf(s), "tool", "spec.replicas")

	s.pass("echo")
	s.says(s.asks("", "audit"), 1, "spec.template.spec.containers[name=proxy].name", "owner: 1")
	s.says(s.asks("y\n", "release", "deployment", "echo-proxy", "--manager", "tool"), 0,
		"stay, because another manager owns them too:\n  spec.template.spec.containers[name=proxy].name\n",
		"are removed, or get their default:\n  metadata.annotations[\"tool.example.com/revision\"]\n",
		"[y/N] Deployment/echo-proxy released")
	live := proxyOf(s)
	s.OwnsNothing(live, "tool")
	s.Read(live)
	if containers := live.Spec.Template.Spec.Containers; len(containers) != 1 ||
		live.Annotations["tool.example.com/revision"] != "" {
		t.Errorf("what the tool added is still there: %+v, %v", containers, live.Annotations)
	}
	s.says(s.asks("", "audit"), 0, "owner: 0")
}

// An entry of ours that is no apply, and a field that a policy has not held.
func TestStrayEntriesAreFound(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.Patch(serverOf(s), string(contract.MCPServerAddress), `{"metadata":{"labels":{"team":"red"}}}`)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"url":"http://elsewhere"}}`))
	s.Must(plane.Client.Status().Patch(s.Ctx, serverOf(s), patch, client.FieldOwner("dashboard")), "taking status.url")
	s.says(s.asks("", "audit"), 1, "metadata.labels.team", "Update", "stray", "status.url", "dashboard", "taken",
		"owner: 2")
	s.says(s.asks("", "release", "mcp/echo", "--manager", "dashboard", "--subresource", "status"), 2,
		"owns fields of MCPServer/echo by Update")
}

func TestReleaseDoesNothingWithoutAYes(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.Apply("billing",
		`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo","labels":{"team":"blue"}}}`)
	s.ApplyStatus("scanner",
		`{"apiVersion":"freehold.dev/v1alpha1","kind":"MCPServer","metadata":{"name":"echo"},"status":{"conditions":[
		{"type":"Scanned","status":"True","reason":"Clean","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	release := []string{"release", "mcp", "echo", "--manager", "billing"}
	for _, answer := range []string{"", "n\n", "yess\n"} {
		s.says(s.asks(answer, release...), 2, "nothing was changed")
	}
	s.says(s.asks("", append(release, "--dry-run")...), 0, "could be released (dry run)")
	after := serverOf(s)
	s.Owns(after, "billing", "metadata.labels.team")
	s.says(s.asks("", "release", "mcp/echo", "--manager", "scanner", "--yes"), 2, `these do: `,
		`--manager "scanner" --subresource status`)
	s.says(s.asks("", "release", "mcp/echo", "--manager", "scanner", "--subresource", "status", "--yes"), 0,
		"MCPServer/echo released")
	s.OwnsNothing(after, "scanner")
	s.Owns(after, "billing", "metadata.labels.team")
	s.Owns(after, string(contract.MCPServerConditions), "status.conditions[type=Ready]")
	s.Owns(after, string(contract.RunnerReport), "status.conditions[type=BackendApplied]")
}

// The operator is gone for good, and its finalizer holds a server.
func TestReleaseLetsAServerGo(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.Delete(serverOf(s))
	s.says(s.asks("", "release", "mcp/echo", "--manager", string(contract.MCPServerFinalizer), "--yes"), 0,
		`metadata.finalizers[="freehold.dev/mcpserver"]`)
	s.AwaitGone(serverOf(s))
}

// Who may only read can see everything, and change nothing.
func TestAReaderIsEnough(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.serve("echo")
	s.Must(plane.Client.Create(s.Ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: s.Namespace},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}}},
	}), "creating a role")
	s.Must(plane.Client.Create(s.Ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: s.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "reader-of-" + s.Namespace}},
	}), "binding it")
	as := func(args ...string) answer { return s.asks("y\n", append(args, "--as", "reader-of-"+s.Namespace)...) }
	s.says(as("owners", "mcp", "echo"), 0, "ours")
	s.says(as("audit"), 0, "objects: 9")
	s.says(as("release", "mcp", "echo", "--manager", "git"), 2, "forbidden")
	s.says(as("audit", "-A"), 2, "forbidden", "The audit is not whole. You may not list ",
		"mcpservers.freehold.dev: ask for that right")
	s.Owns(serverOf(s), "git", "spec.image")
	nobody := s.asks("", "status", "--as", "nobody-of-"+s.Namespace)
	s.says(nobody, 2, "Not everything could be read, so this is not all. The errors are below. You may not list ",
		"mcpservers.freehold.dev")
	if strings.Contains(nobody.out, "There are no MCPServers") {
		s.Errorf("who may not list is told that there are none:\n%s", nobody.out)
	}
	for _, command := range []string{"status", "audit"} {
		s.says(s.asks("", command, "-n", "no-"+s.Namespace), 2, "there is no namespace")
	}
	s.says(as("status", "-n", "no-"+s.Namespace), 2, "may not list")
}

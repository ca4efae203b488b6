package identity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/ownership/rbac"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

// operate runs the operator's program as the chart does, with a token of its ServiceAccount, for the test's namespace.
// The returned function ends it in good order.
func operate(s *kit.Env) (end func()) {
	s.Helper()
	return s.Run(program, plane.OperatorConfig(), "--runner-image=freehold.dev/runner:test", "--namespaces="+s.Namespace,
		"--probe-address=0",
		"--leader-elect", "--lease-namespace="+kit.SystemNamespace, "--identity-namespace="+kit.SystemNamespace)
}

// ready waits until the server is, for its present spec, with so many replicas.
func ready(s *kit.Env, server *v1alpha1.MCPServer, generation int64, replicas int32) {
	s.Helper()
	s.Await(server, fmt.Sprintf("the server is ready with generation %d and %d replicas", generation, replicas),
		func() error {
			c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
			w, n := server.Status.Workload, server.Status.ReadyReplicas
			if c == nil || c.Status != "True" || c.ObservedGeneration != server.Generation || w == nil ||
				w.Generation != generation || n == nil || *n != replicas {
				return fmt.Errorf("its status is %+v", server.Status)
			}
			return nil
		})
}

// TestEveryPassWorks is the life of a server under the operator's program with
// the rights of the chart, and what the audit log says of it.
func TestEveryPassWorks(t *testing.T) {
	s := kit.NewEnv(t, plane)
	s.ServeHTTPRoutes()
	end := operate(s)
	s.RunProxies()
	server := &v1alpha1.MCPServer{}
	server.Name = "echo"
	s.Apply("git", kit.Server("echo", "registry.example.com/echo:1", proxyOnly))
	ready(s, server, 1, 1)
	s.Apply("git", kit.Server("echo", "registry.example.com/echo:2", inPlace+"\nproxy: "+byRoute))
	ready(s, server, 2, 1)
	first := leader(s)
	endSecond := operate(s)
	s.Scale(server, "autoscaler", 3)
	ready(s, server, 2, 3)
	if now := leader(s); now != first {
		t.Errorf("%s leads while %s runs", now, first)
	}
	end()
	// What ends in good order gives the Lease up: nobody waits until it expires.
	if now := leader(s); now == first {
		t.Errorf("%s has ended and still holds the Lease", first)
	}
	// Outdated run configs are removed once no pod can mount them. Short ones are no objects.
	for i := range 4 {
		s.Apply("git", kit.Server("echo", fmt.Sprintf("registry.example.com/echo:%d", 3+i),
			inPlace+"\nargs: ["+strings.Repeat("x", 17<<10)+"]"))
		ready(s, server, int64(3+i), 3)
	}
	beside(s, server)
	shared(s)
	remote(s)
	s.Delete(server)
	s.AwaitGone(server)
	gone := &appsv1.StatefulSet{}
	gone.Name = "echo-backend"
	s.AwaitGone(gone)
	endSecond()

	log := audited(t, s.Namespace)
	writtenByWhoOwns(t, s.Namespace, log)
	for _, identity := range append(contract.Controllers(), contract.IdentityOperator, contract.IdentityRunner,
		contract.IdentityRemoteRunner) {
		everyRightIsUsed(t, s.Namespace, identity, log)
	}
}

// byRoute publishes a proxy by a Gateway.
const byRoute = "{httpRoute: {parentRefs: [{name: public}], hostnames: [mcp.example.com]}}"

// inPlace has new content replace pods: here no proxy tells the operator's process that its calls have moved.
const inPlace = "rollout: {strategy: Replace}"

// beside is content that comes up beside what serves, and is given up.
func beside(s *kit.Env, server *v1alpha1.MCPServer) {
	s.Helper()
	const more = "rollout: {strategy: Successive}\nargs: [%s]"
	args := strings.Repeat("x", 17<<10)
	second := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: server.Name + "-slot2-headless", Namespace: s.Namespace}}
	s.Apply("git", kit.Server(server.Name, "registry.example.com/echo:7", fmt.Sprintf(more, args)))
	s.Await(second, "the content comes up in slot 2", func() error { return nil })
	s.Apply("git", kit.Server(server.Name, "registry.example.com/echo:6", fmt.Sprintf(more, args)))
	s.AwaitGone(second)
	ready(s, server, 8, 3)
}

// shared is the life of configurations that a suspended server refers to.
func shared(s *kit.Env) {
	s.Helper()
	s.Apply("git", "{apiVersion: freehold.dev/v1alpha1, kind: MCPOIDCConfig, metadata: {name: company}, spec: {oidc: "+
		"{issuer: 'https://a.example.com'}}}")
	s.Apply("git", "{apiVersion: freehold.dev/v1alpha1, kind: MCPAuthzConfig, metadata: {name: company}, spec: "+
		"{policies: [{name: a, policy: 'permit(principal, action, resource);'}]}}")
	s.Apply("git", "{apiVersion: freehold.dev/v1alpha1, kind: MCPGroup, metadata: {name: company}, "+
		"spec: {description: d}}")
	refers := s.Intent(kit.Server("refers", "registry.example.com/echo:1",
		"suspend: true\noidcConfigRef: {name: company}\nauthzConfigRef: {name: company}\ngroupRef: {name: company}"))
	s.Must(s.Client.Create(s.Ctx, refers), "making a server that refers to them")
	meta := metav1.ObjectMeta{Name: "company", Namespace: s.Namespace}
	login, policies := &v1alpha1.MCPOIDCConfig{ObjectMeta: meta}, &v1alpha1.MCPAuthzConfig{ObjectMeta: meta}
	group := &v1alpha1.MCPGroup{ObjectMeta: meta}
	counted := func(status *v1alpha1.ConfigStatus) func() error {
		return func() error {
			if status.Workloads == nil || *status.Workloads != 1 {
				return fmt.Errorf("its status is %+v", status)
			}
			return nil
		}
	}
	s.Await(login, "it counts who refers to it", counted(&login.Status))
	s.Await(policies, "it counts who refers to it", counted(&policies.Status))
	s.Await(group, "it counts who refers to it", counted(&group.Status.ConfigStatus))
	s.Delete(login)
	s.Delete(policies)
	s.Delete(group)
	s.Delete(refers)
	s.AwaitGone(login)
	s.AwaitGone(policies)
	s.AwaitGone(group)
	s.AwaitGone(refers)
}

// remote is the life of a proxy of the server's name in front of a server elsewhere, with a run config that is long.
func remote(s *kit.Env) {
	s.Helper()
	var headers []string
	for i := range 5 {
		headers = append(headers, fmt.Sprintf("{name: x-%d, value: %s}", i, strings.Repeat("x", 4000)))
	}
	proxy := &v1alpha1.MCPRemoteProxy{ObjectMeta: metav1.ObjectMeta{Name: "echo", Namespace: s.Namespace}}
	for i := range 4 {
		by := "{}"
		if i == 0 {
			by = byRoute
		}
		s.Apply("git", fmt.Sprintf("{apiVersion: freehold.dev/v1alpha1, kind: MCPRemoteProxy, metadata: {name: echo}, "+
			"spec: {url: 'https://mcp.example.com/%d', headers: [%s], proxy: %s}}", i, strings.Join(headers, ", "), by))
		s.Await(proxy, "it is ready", func() error {
			c, w := meta.FindStatusCondition(proxy.Status.Conditions, v1alpha1.ConditionReady), proxy.Status.Workload
			if c == nil || c.Status != "True" || c.ObservedGeneration != proxy.Generation || w == nil ||
				w.Generation != int64(i+1) || proxy.Status.URL == "" {
				return fmt.Errorf("its status is %+v", proxy.Status)
			}
			return nil
		})
	}
	s.Delete(proxy)
	s.AwaitGone(proxy)
}

// leader is who holds the operator's Lease.
func leader(s *kit.Env) string {
	s.Helper()
	lease := &coordinationv1.Lease{}
	s.Must(s.Client.Get(s.Ctx, client.ObjectKey{Namespace: kit.SystemNamespace, Name: contract.LeaseName}, lease),
		"reading the Lease")
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// audited is what was asked of the API server in the test's namespace, and of
// the lease, and was allowed. What was denied fails the test.
func audited(t *testing.T, namespace string) []auditv1.Event {
	t.Helper()
	text, err := os.ReadFile(plane.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	var log []auditv1.Event
	for line := range bytes.Lines(text) {
		var e auditv1.Event
		if err := json.Unmarshal(line, &e); err != nil || e.ObjectRef == nil || e.ResponseStatus == nil {
			continue // the last line may still be being written
		}
		ours := strings.HasPrefix(asker(e), "system:serviceaccount:"+kit.SystemNamespace+":freehold-") ||
			asker(e) == userOf(contract.IdentityRunner, namespace) ||
			asker(e) == userOf(contract.IdentityRemoteRunner, namespace)
		if !ours || e.ObjectRef.Namespace != namespace && e.ObjectRef.Resource != "leases" {
			continue
		}
		if e.ResponseStatus.Code == 403 {
			t.Errorf("%s may not %s %s/%s %s", asker(e), e.Verb, e.ObjectRef.Resource, e.ObjectRef.Subresource, e.ObjectRef.Name)
			continue
		}
		log = append(log, e)
	}
	if len(log) < 50 {
		t.Fatalf("the audit log holds %d requests of ours", len(log))
	}
	return log
}

// asker is as whom something was asked for.
func asker(e auditv1.Event) string {
	if e.ImpersonatedUser != nil {
		return e.ImpersonatedUser.Username
	}
	return e.User.Username
}

// userOf is the ServiceAccount of an identity.
func userOf(identity, namespace string) string {
	switch identity {
	case contract.IdentityRunner:
		return "system:serviceaccount:" + namespace + ":echo-runner"
	case contract.IdentityRemoteRunner:
		return "system:serviceaccount:" + namespace + ":echo.remote-runner"
	}
	return "system:serviceaccount:" + kit.SystemNamespace + ":" + identity
}

// writtenByWhoOwns holds that the log tells of each write which controller it was, and which process.
func writtenByWhoOwns(t *testing.T, namespace string, log []auditv1.Event) {
	t.Helper()
	const process = "system:serviceaccount:" + kit.SystemNamespace + ":" + contract.IdentityOperator
	seen := map[string]bool{}
	for _, e := range log {
		request, err := url.Parse(e.RequestURI)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s %s %s/%s", e.Verb, e.RequestURI, e.ObjectRef.Namespace, e.ObjectRef.Name)
		manager := request.Query().Get("fieldManager")
		identity := freehold.Identity(ownership.Manager(manager))
		switch {
		case slices.Contains([]string{"events", "leases"}, e.ObjectRef.Resource):
			identity = contract.IdentityOperator
		case e.Verb == "delete":
			identity = contract.IdentityMCPServer
			if strings.HasPrefix(e.ObjectRef.Name, "echo.remote-") || strings.HasSuffix(e.ObjectRef.Name, "-remote") {
				identity = contract.IdentityMCPRemoteProxy
			}
		case slices.Contains([]string{"get", "list", "watch"}, e.Verb):
			continue
		// The API server refuses force to a patch that is no apply.
		case e.ObjectRef.Resource == "secrets" && e.Verb == "patch" && identity != "" &&
			(e.ResponseStatus.Code == 201 || e.ResponseStatus.Code == 409):
			// Made, or left as it is: never forced.
		case e.Verb != "patch" || identity == "" || request.Query().Get("force") != "true":
			t.Errorf("%s is no apply of ours", what)
			continue
		}
		seen[manager] = true
		if want := userOf(identity, namespace); asker(e) != want {
			t.Errorf("%s was written by %s, want %s", what, asker(e), want)
		}
		if slices.Contains(contract.Controllers(), identity) && (e.User.Username != process || e.ImpersonatedUser == nil) {
			t.Errorf("%s does not tell the process: %s", what, e.User.Username)
		}
	}
	for _, g := range freehold.Grants {
		if !seen[string(g.Manager)] {
			t.Errorf("nothing was written as %s", g.Manager)
		}
	}
}

// elsewhere are rights that a life without mishaps does not use, or that the log
// does not tell of; TestEveryRightIsNeeded has each of them.
func elsewhere(identity string, r right) bool {
	switch {
	case r.verb == "update" && r.resource != "leases", r.verb == "impersonate": // asked for within other requests
		return true
	case r.verb == "get" && r.resource != "leases": // where a cache cannot know
		return true
	case r.verb == "delete" && !freehold.MayRemove(identity, kindOf(r.group, r.resource)): // to own what another hand made
		return true
	case r.verb == "delete" && identity == contract.IdentityRBAC: // what binds another account or Role
		return true
	case r.resource == "events" && r.verb == "patch": // one that comes again and again
		return true
	case r.resource == "rolebindings" && r.verb == "delete": // of an account that another hand took
		return true
	case identity == contract.IdentityRBAC && r.group != "rbac.authorization.k8s.io": // to grant it
		return true
	case r.verb == "list": // where the API server cannot stream what is there
		return true
	}
	// The kit watches in its place.
	return (identity == contract.IdentityRunner || identity == contract.IdentityRemoteRunner) && r.verb == "watch"
}

// everyRightIsUsed holds that the role has no right that nobody asked for.
func everyRightIsUsed(t *testing.T, namespace, identity string, log []auditv1.Event) {
	t.Helper()
	for _, r := range rightsOf(rbac.Rules(freehold, identity, "")) {
		used := slices.ContainsFunc(log, func(e auditv1.Event) bool {
			resource := strings.TrimSuffix(e.ObjectRef.Resource+"/"+e.ObjectRef.Subresource, "/")
			// An apply that makes its object needs both.
			verb := e.Verb == r.verb || e.Verb == "patch" && r.verb == "create" && e.ResponseStatus.Code == 201
			return asker(e) == userOf(identity, namespace) && e.ObjectRef.APIGroup == r.group && resource == r.resource && verb
		})
		if !used && !elsewhere(identity, r) {
			t.Errorf("%s did not use its right to %s", identity, r)
		}
	}
}

package policy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// right is a write within a grant, and one more field that is outside of it.
type right struct {
	manager ownership.Manager
	object  ownership.Object
	name    string
	// fields is YAML without kind and name; $uid stands for the server's uid.
	fields string
	// more is a field outside the grant, and its name in the refusal.
	more, said string
}

const (
	labelled = "metadata: {labels: {app.kubernetes.io/managed-by: freehold, freehold.dev/server: echo}}\n"
	numbered = `metadata: {annotations: {freehold.dev/workload-generation: "1"}, labels: {app.kubernetes.io/managed-by: freehold, freehold.dev/server: echo}}` + "\n"
	pods     = "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, " +
		"image: i}]}}"
	note     = "metadata: {annotations: {example.com/note: a}}"
	noteSaid = ".metadata.annotations.example.com/note"
	// Either of these makes the API server forget who owns what, and not track the request that says so. It ignores both
	// on a subresource, and an empty list for kinds of a CRD.
	reset, emptied = "metadata: {managedFields: [{}]}", "metadata: {managedFields: []}"
)

var freehold = contract.Freehold()

// rights has a row for each grant, in an order in which they can be written.
var rights = append([]right{
	{
		contract.MCPServerFinalizer, contract.MCPServer, "echo", "metadata: {finalizers: [freehold.dev/mcpserver]}", note,
		".metadata.annotations",
	},
	{
		contract.MCPServerWorkload, contract.MCPServerSub, "echo", "status: {workload: {generation: 1, hash: abc}}",
		"status: {url: http://a}", ".status.url",
	},
	{
		contract.MCPServerPlan, contract.MCPServerSub, "echo",
		`status: {active: {slot: 1, hash: abc, generation: 1, port: 80, path: /mcp, transport: sse, since: "2026-01-01T00:00:00Z"}}`,
		"status: {url: http://a}", ".status.url",
	},
	{
		contract.MCPServerConditions, contract.MCPServerSub, "echo",
		`status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`,
		"status: {selector: a=b}", ".status.selector",
	},
	{
		contract.MCPServerAddress, contract.MCPServerSub, "echo", "status: {url: http://b, replicas: 1}",
		`status: {conditions: [{type: Other, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`, ".status.conditions",
	},
	{
		contract.MCPServerChildren, contract.ServiceAccount, "echo-runner", labelled + "automountServiceAccountToken: false",
		note, noteSaid,
	},
	{
		contract.RBACChildren, contract.Role, "echo-runner",
		labelled + `rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]`, note, noteSaid,
	},
	{
		contract.RBACChildren, contract.RoleBinding, "echo-runner",
		labelled + "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: echo-runner}", note, noteSaid,
	},
	{
		contract.MCPServerChildren, contract.NetworkPolicy, "echo-backend",
		labelled + "spec: {podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{podSelector: {}}]}], " +
			"egress: [{ports: [{port: 53, protocol: UDP}]}]}",
		note, noteSaid,
	},
	{contract.MCPServerChildren, contract.ConfigMap, "echo-run-1-abc", numbered + "data: {a: b}", note, noteSaid},
	{
		contract.MCPServerChildren, contract.Deployment, "echo-proxy", numbered + "spec: {replicas: 0, " + pods + "}",
		"spec: {paused: true}", ".spec.paused",
	},
	{
		contract.MCPServerChildren, contract.Service, "echo-proxy", numbered + "spec: {ports: [{port: 80, protocol: TCP}]}",
		"spec: {sessionAffinity: ClientIP}", ".spec.sessionAffinity",
	},
	{
		contract.MCPServerChildren, contract.HTTPRoute, "echo-proxy", labelled + "spec: {hostnames: [mcp.example.com]}",
		note, noteSaid,
	},
	{
		contract.RunnerBackend, contract.StatefulSet, "echo-backend", owned + "spec: {serviceName: s, " + ownPods + "}",
		"spec: {replicas: 3}", ".spec.replicas",
	},
	{
		contract.RunnerBackend, contract.Service, "echo-backend",
		owned + "spec: {type: ClusterIP, selector: " + ownLabels + ", ports: [{port: 80, protocol: TCP}]}", note, noteSaid,
	},
	{
		contract.RunnerBackend, contract.Service, "echo-backend-headless",
		owned + "spec: {type: ClusterIP, clusterIP: None, selector: " + ownLabels + ", ports: [{port: 80, protocol: TCP}]}",
		"metadata: {labels: {example.com/team: a}}", ".metadata.labels.example.com/team",
	},
	{
		contract.MCPServerScale, contract.StatefulSet, "echo-backend", "spec: {replicas: 0}", "spec: {minReadySeconds: 3}",
		".spec.minReadySeconds",
	},
	{
		contract.RunnerReport, contract.MCPServerSub, "echo", "status: {runtime: {serverUID: $uid, generation: 1}}",
		"status: {readyReplicas: 2}", ".status.readyReplicas",
	},
}, slices.Concat(remoteRights(), configRights())...)

// configRights are rows for the kinds of configurations.
func configRights() []right {
	const ready = `status: {observedGeneration: 1, conditions: [{type: Ready, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`
	var rows []right
	for _, c := range contract.Configs() {
		status := c.Object
		status.Subresource = "status"
		rows = append(rows,
			right{
				c.FinalizerManager, c.Object, "company", "metadata: {finalizers: [" + c.Finalizer + "]}", note,
				".metadata.annotations",
			},
			right{c.ConditionsManager, status, "company", ready, "status: {workloads: 7}", ".status.workloads"},
			right{
				c.StatusManager, status, "company", "status: {workloads: 1, referencingWorkloads: [{kind: MCPServer, name: echo}]}",
				`status: {conditions: [{type: Other, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`, ".status.conditions",
			})
	}
	return rows
}

// makeConfigs makes the configurations that the rows speak of.
func makeConfigs(env *kit.Env) {
	env.Helper()
	env.Apply("kubectl", "{apiVersion: freehold.dev/v1alpha1, kind: MCPOIDCConfig, metadata: {name: company}, spec: "+
		"{oidc: {issuer: 'https://a.example.com'}}}")
	env.Apply("kubectl", "{apiVersion: freehold.dev/v1alpha1, kind: MCPAuthzConfig, metadata: {name: company}, spec: "+
		"{policies: [{name: a, policy: 'permit(principal, action, resource);'}]}}")
	env.Apply("kubectl", "{apiVersion: freehold.dev/v1alpha1, kind: MCPGroup, metadata: {name: company}}")
}

// TestEveryGrantHasARow holds that no grant goes untried. What is written once has a story of its own.
func TestEveryGrantHasARow(t *testing.T) {
	for _, g := range slices.DeleteFunc(slices.Clone(freehold.Grants), func(g ownership.Grant) bool { return g.Once }) {
		if !slices.ContainsFunc(rights,
			func(r right) bool { return r.manager == g.Manager && r.object == g.Object && g.Named(r.name) }) {
			t.Errorf("nothing tries the grant of %s on %s", g.Manager, g.Object)
		}
	}
}

// grant is the row's.
func (r right) grant(t *testing.T) ownership.Grant {
	t.Helper()
	g, ok := freehold.Grant(r.manager, r.object, r.name)
	if !ok {
		t.Fatalf("the contract has no grant of %s on %s %s", r.manager, r.object, r.name)
	}
	return g
}

// placed is the row in a namespace.
type placed struct {
	right
	namespace, uid string
}

func (s placed) intent(more ...string) *unstructured.Unstructured {
	o := object(strings.ReplaceAll(s.fields, "$uid", s.uid))
	for _, m := range more {
		merge(o.Object, object(m).Object)
	}
	o.SetGroupVersionKind(s.object.GroupVersionKind)
	o.SetNamespace(s.namespace)
	o.SetName(s.name)
	return o
}

func merge(into, from map[string]any) {
	for key, value := range from {
		inner, is := into[key].(map[string]any)
		more, both := value.(map[string]any)
		if is && both {
			merge(inner, more)
			continue
		}
		into[key] = value
	}
}

func (s placed) live(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o := s.intent()
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	return o
}

func (s placed) apply(ctx context.Context, c client.Client, manager string, force bool, more ...string) error {
	return applied(ctx, c, manager, s.object.Subresource, s.intent(more...), force)
}

// mergePatch adds what is outside the grant, and what else is said.
func (s placed) mergePatch(ctx context.Context, c client.Client, manager string, more ...string) error {
	change := object(s.more).Object
	for _, m := range more {
		merge(change, object(m).Object)
	}
	text, err := json.Marshal(change)
	if err != nil {
		return err
	}
	if s.object.Subresource != "" {
		return c.SubResource(s.object.Subresource).Patch(ctx, s.intent(), client.RawPatch(types.MergePatchType, text),
			client.FieldOwner(manager))
	}
	return c.Patch(ctx, s.intent(), client.RawPatch(types.MergePatchType, text), client.FieldOwner(manager))
}

// put replaces the object by one with what is outside the grant.
func (s placed) put(t *testing.T, c client.Client, manager string) error {
	t.Helper()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		o := s.live(t)
		merge(o.Object, object(s.more).Object)
		if s.object.Subresource != "" {
			return c.SubResource(s.object.Subresource).Update(t.Context(), o, client.FieldOwner(manager))
		}
		return c.Update(t.Context(), o, client.FieldOwner(manager))
	})
}

// wrong are the writes of a row that are refused, and what the refusal says.
func (s placed) wrong(t *testing.T, c client.Client) map[string]wrong {
	t.Helper()
	ctx, m := t.Context(), string(s.manager)
	own, only := "writes "+s.object.Kind+" only under the field managers of that identity",
		"writes by server-side apply alone"
	adds := "and this request adds " + s.said + ": leave that out"
	writes := map[string]wrong{
		"a merge patch without a manager": {s.mergePatch(ctx, c, ""), []string{own, "names none", "docs/ownership.md"}},
		"an update without a manager":     {s.put(t, c, ""), []string{own, "names none"}},
		"an apply as another manager": {
			s.apply(ctx, c, "someone", false, s.more),
			[]string{own, `names "someone"`, "an account of your own"},
		},
		"a forced apply as another manager": {s.apply(ctx, c, "someone", true), []string{own, `names "someone"`}},
		"a merge patch as the manager": {
			s.mergePatch(ctx, c, m),
			[]string{"field manager " + m + " " + only, "write under another manager"},
		},
		"an update as the manager": {s.put(t, c, m), []string{"field manager " + m + " " + only}},
		"more than the grant": {
			s.apply(ctx, c, m, false, s.more),
			[]string{
				"field manager " + m + " may write of this " + s.object.Kind + " only ", s.grant(t).Fields[0].String(),
				adds,
			},
		},
		"more than the grant, by force": {s.apply(ctx, c, m, true, s.more), []string{adds}},
		"somebody else as the manager": {
			s.apply(ctx, admin, m, false),
			[]string{
				"field manager " + m + " is Freehold's, for its ServiceAccount " + s.grant(t).Identity + " alone",
				"is not that", "--field-manager=my-team",
			},
		},
		"somebody else's merge patch": {s.mergePatch(ctx, admin, m), []string{"alone, and ", " is not that"}},
		"another ServiceAccount, by force": {
			s.apply(ctx, as(t, s.namespace, "default"), m, true),
			[]string{"system:serviceaccount:" + s.namespace + ":default is not that"},
		},
		"the identity of another namespace": {
			s.apply(ctx, as(t, strings.Repeat("e", len(s.namespace)), accountOf(s.grant(t).Identity)), m, true),
			[]string{"is not that"},
		},
	}
	for what, forgotten := range map[string]string{"a reset": reset, "an emptied list": emptied} {
		hides := "field manager " + m + " has to be seen in metadata.managedFields"
		custom := s.object.Group == contract.MCPServer.Group || s.object.Group == contract.HTTPRoute.Group
		if s.object.Subresource != "" || custom && forgotten == emptied {
			hides = only
		}
		writes["somebody else's merge patch with "+what] = wrong{
			s.mergePatch(ctx, admin, m, forgotten),
			[]string{"alone, and ", " is not that"},
		}
		writes["a merge patch with "+what] = wrong{s.mergePatch(ctx, c, m, forgotten), []string{hides}}
	}
	if sibling := s.sibling(); sibling != "" {
		writes["another manager of the same identity"] = wrong{
			s.apply(ctx, c, sibling, true),
			[]string{"field manager " + sibling + " has no grant on ", s.name},
		}
	}
	for _, other := range slices.DeleteFunc(freehold.Identities(),
		func(i string) bool { return i == s.grant(t).Identity || isRunner(i) }) {
		writes["the identity "+other+" as the manager"] = wrong{
			s.apply(ctx, as(t, kit.SystemNamespace, other), m, true),
			[]string{other + " belongs to Freehold, which"},
		}
	}
	if s.runner(t) {
		writes["the runner of another server"] = wrong{
			s.apply(ctx, as(t, s.namespace, "other-runner"), m, true),
			[]string{"is not that"},
		}
	}
	if s.grant(t).Create {
		writes["a create"] = wrong{c.Create(ctx, s.intent(), client.FieldOwner(m)), []string{only}}
	}
	return writes
}

type wrong struct {
	err  error
	says []string
}

// sibling is a manager of the same identity that has no grant on the object, empty if there is none.
func (s placed) sibling() string {
	i := slices.IndexFunc(rights, func(r right) bool {
		_, has := freehold.Grant(r.manager, s.object, s.name)
		return !has && freehold.Identity(r.manager) == freehold.Identity(s.manager)
	})
	if i < 0 {
		return ""
	}
	return string(rights[i].manager)
}

// TestGrants holds, for each grant of the contract, that the right write passes
// and each wrong one is refused, and leaves the object as it was.
func TestGrants(t *testing.T) {
	env := kit.NewEnv(t, plane)
	uids := makeOwners(env)
	makeConfigs(env)
	env.ServeHTTPRoutes()
	for _, r := range rights {
		s := placed{right: r, namespace: env.Namespace, uid: cmp.Or(uids[r.object.Kind], uids[contract.MCPServer.Kind])}
		c := s.writer(t)
		t.Run(fmt.Sprintf("%s on %s %s", r.manager, r.object, r.name), func(t *testing.T) {
			if err := s.apply(t.Context(), c, string(r.manager), true); err != nil {
				t.Fatal("the right write is refused: ", err)
			}
			before := s.live(t).GetResourceVersion()
			writes := s.wrong(t, c)
			for _, name := range slices.Sorted(maps.Keys(writes)) {
				t.Run(name, func(t *testing.T) { refused(t, writes[name].err, writes[name].says...) })
			}
			if err := s.apply(t.Context(), c, string(r.manager), true); err != nil {
				t.Error("afterwards the right write is refused: ", err)
			}
			if after := s.live(t).GetResourceVersion(); after != before && r.object != contract.Deployment &&
				r.object != contract.StatefulSet {
				t.Errorf("the object moved from %s to %s", before, after)
			}
		})
	}
}

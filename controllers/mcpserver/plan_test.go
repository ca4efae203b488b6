package mcpserver

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// refusedSpec is a spec that cannot be rendered.
func refusedSpec(server *v1alpha1.MCPServer) {
	server.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"spec":{"hostNetwork":true}}`)}
}

// contentHash is the hash of a server's content.
func contentHash(t *testing.T, server *v1alpha1.MCPServer) string {
	t.Helper()
	rendered := workload.Render(workload.Input{Object: server}, options)
	if len(rendered.Problems) > 0 {
		t.Fatal(rendered.Problems)
	}
	return rendered.Hash
}

type hasName interface{ GetName() *string }

func TestPlan_IsEveryChildOfTheServer(t *testing.T) {
	for _, long := range []bool{false, true} {
		desiredChildren(t, long)
	}
}

func desiredChildren(t *testing.T, long bool) {
	t.Helper()
	server := echo()
	if long {
		server.Spec.Args = []string{strings.Repeat("x", 17<<10)}
	}
	hash := contentHash(t, server)
	made := planOf(server, world{}, options)
	if rev := (revision.Revision{Generation: 1, Hash: hash}); made.Target != rev || made.Claim.Generation != 1 ||
		made.Claim.Hash != hash || made.Claim.BackendHash != made.Digest.Backend {
		t.Errorf("the revision is %v, and is claimed as %v", made.Target, made.Claim)
	}
	var names []string
	for _, c := range append(identityOf(made), childrenOf(made)...) {
		names = append(names, *c.Intent.(hasName).GetName())
	}
	if diff := cmp.Diff([]string{"echo-runner", "echo-runner", "echo-runner", "echo-proxy"}, names); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
	if proxies := actions[plan.ApplyProxy](made); len(proxies) != 1 || proxies[0].Replicas != 1 ||
		len(actions[plan.ApplyRunConfig](made)) > 0 != long {
		t.Errorf("the steps are %+v", made.Steps)
	}
}

// The number never falls below one that a child carries, and grows only with the content.
func TestTheMarkOfWantedContent(t *testing.T) {
	hash := contentHash(t, echo())
	same, other := revision.Revision{Generation: 4, Hash: hash}, revision.Revision{Generation: 4, Hash: "other"}
	for name, tc := range map[string]struct {
		status *revision.Revision
		world  world
		want   int64
	}{
		"the first":                             {nil, world{}, 1},
		"the same content keeps it":             {&same, world{Proxy: proxyOf(same), Backend: backendOf(same)}, 4},
		"other content raises it":               {&other, world{Proxy: proxyOf(other)}, 5},
		"a lost status, found at the proxy":     {nil, world{Proxy: proxyOf(same)}, 4},
		"a lost status, found at the backend":   {nil, world{Backend: backendOf(same)}, 4},
		"a lost status, and other content":      {nil, world{Backend: backendOf(other)}, 5},
		"a lost status, and what is left of it": {nil, world{Calls: service(same)}, 4},
		"a run config is no number": {
			nil,
			world{RunConfigs: []metav1.PartialObjectMetadata{config(same)}},
			1,
		},
		"nor is somebody's Service":     {nil, world{Calls: free(service(same))}, 1},
		"nor an earlier server's proxy": {nil, world{Proxy: of(proxyOf(same), "earlier")}, 1},
		"nor one beyond all numbers": {
			nil,
			world{Calls: service(revision.Revision{Generation: math.MaxInt64, Hash: "other"})},
			1,
		},
		"a child is ahead, with other content": {
			&same,
			world{Backend: backendOf(revision.Revision{Generation: 9, Hash: "other"})},
			4,
		},
		"a child is ahead, with the same": {
			&other,
			world{Proxy: proxyOf(revision.Revision{Generation: 9, Hash: hash})},
			5,
		},
		"a Service of the backend is ahead": {
			&same,
			world{Calls: service(revision.Revision{Generation: 9, Hash: "other"})},
			4,
		},
		"a headless Service is ahead": {
			&same,
			world{Names: service(revision.Revision{Generation: 9, Hash: "other"})},
			4,
		},
		"a child behind changes nothing": {
			&same,
			world{Proxy: proxyOf(older), RunConfigs: []metav1.PartialObjectMetadata{config(older)}},
			4,
		},
		"a child's hash was removed":                {&same, world{Calls: service(revision.Revision{Generation: 4})}, 5},
		"two contents with one number end above it": {&other, world{Proxy: proxyOf(same)}, 5},
		"but not for somebody's Service":            {&same, world{Calls: free(service(other))}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			server := echo()
			if tc.status != nil {
				server.Status.Workload = &v1alpha1.WorkloadStatus{
					Generation: tc.status.Generation, Hash: tc.status.Hash,
					SessionSecret: "made",
				}
			}
			made := planWith(snapshot.Of(server, tc.world, noon), options)
			if rev := (revision.Revision{Generation: tc.want, Hash: hash}); made.Target != rev {
				t.Errorf("the revision is %v, want %v", made.Target, rev)
			}
			if claimed := tc.status != nil && *tc.status == made.Target; claimed == (made.Phase == plan.Claim) {
				t.Errorf("it is %s", made.Phase)
			}
		})
	}
}

// What is above the number is said, and of what an earlier server left nothing, since that goes by itself.
func TestANumberThatNoClaimMadeIsSaid(t *testing.T) {
	hash := contentHash(t, echo())
	same, high, other := revision.Revision{Generation: 4, Hash: hash}, revision.Revision{Generation: 41, Hash: "abc"},
		revision.Revision{Generation: 4, Hash: "abc"}
	for name, tc := range map[string]struct {
		world world
		want  []string
	}{
		"nothing": {world{Proxy: proxyOf(same), Backend: backendOf(older), Calls: service(same)}, nil},
		"a proxy": {world{Proxy: of(proxyOf(high), "uid")}, []string{"Deployment echo-proxy carries 41"}},
		"a backend and Service": {
			world{Backend: backendOf(high), Names: service(high)},
			[]string{"StatefulSet echo-backend carries 41", "Service echo carries 41"},
		},
		"somebody's Service":  {world{Calls: free(service(high))}, []string{"Service echo carries 41"}},
		"with our number":     {world{Calls: free(service(other))}, []string{"Service echo carries 4"}},
		"an earlier server's": {world{Proxy: of(proxyOf(high), "earlier")}, nil},
		"a run config":        {world{RunConfigs: []metav1.PartialObjectMetadata{config(high)}}, nil},
	} {
		server := echo()
		server.Status.Workload = &v1alpha1.WorkloadStatus{Generation: same.Generation, Hash: hash, SessionSecret: "made"}
		s := snapshot.Of(server, tc.world, noon)
		made := planWith(s, options)
		var carried []string
		for _, child := range made.Verdict.Unclaimed {
			carried = append(carried, fmt.Sprintf("%s %s carries %d", child.Kind, child.Name, child.Revision.Generation))
		}
		if diff := cmp.Diff(tc.want, carried); diff != "" || made.Target != same {
			t.Errorf("%s: the revision is %v, and said is (-want +got):\n%s", name, made.Target, diff)
		}
		found := report.Conditions(s, made, nil, nil)
		if stuck := found[v1alpha1.ConditionStalled].Reason == v1alpha1.ReasonUnclaimedGeneration; stuck != (tc.want != nil) {
			t.Errorf("%s: found is %v", name, found)
		}
	}
}

// Where somebody has used up the numbers, what runs stays, and it is said what to do.
func TestAfterTheLastNumberThereIsNone(t *testing.T) {
	last := revision.Revision{Generation: revision.MaxGeneration, Hash: "other"}
	made := planOf(echo(), world{Proxy: proxyOf(current), Backend: backendOf(last)}, options)
	if made.Phase != plan.Invalid || made.Target != current ||
		!strings.Contains(made.Verdict.Problems[0].Message, "delete it and create it again") {
		t.Errorf("it wants %v, and the problems are %v", made.Target, made.Verdict.Problems)
	}
}

// What stands in a child's place is what it is compared with.
func TestPlan_KnowsWhatIsThere(t *testing.T) {
	server := echo()
	server.Spec.Args = []string{strings.Repeat("x", 17<<10)} // with a ConfigMap
	w := world{Account: &corev1.ServiceAccount{}, Service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}}}
	rev := revision.Revision{Generation: 7, Hash: contentHash(t, server)}
	w.RunConfigs = []metav1.PartialObjectMetadata{config(older), config(rev)}
	server.Status.Workload = &v1alpha1.WorkloadStatus{Generation: rev.Generation, Hash: rev.Hash, SessionSecret: "made"}
	made := planOf(server, w, options)
	identity, children, configs := identityOf(made), childrenOf(made), actions[plan.ApplyRunConfig](made)
	if identity[0].Live != w.Account || children[0].Live != w.Service || configs[0].Live != &w.RunConfigs[1] {
		t.Errorf("the children stand for %v, %v, %v", identity, children, configs)
	}
	if role, ok := identity[1].Live.(*rbacv1.Role); !ok || role != nil || identity[1].Lost {
		t.Errorf("a Role that is not there is %v", identity[1].Live)
	}
	if w.Account.OwnerReferences = ofEcho(); !identity[0].Lost || identityOf(planOf(server, w, options))[0].Lost {
		t.Error("an account is lost while the server does not control it")
	}
}

// A spec that cannot be rendered leaves what runs, and can be stopped.
func TestPlan_KeepsTheProxyOfASpecThatCannotBeRendered(t *testing.T) {
	for name, tc := range map[string]struct {
		spec     func(*v1alpha1.MCPServer)
		replicas int32
	}{
		"running":        {func(*v1alpha1.MCPServer) {}, 1},
		"suspended":      {func(s *v1alpha1.MCPServer) { s.Spec.Suspend = true }, 0},
		"scaled to zero": {func(s *v1alpha1.MCPServer) { s.Spec.Proxy.Replicas = new(int32(0)) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := echo()
			refusedSpec(server)
			tc.spec(server)
			live := proxyOf(current)
			live.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "last good"}}
			live.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: string(contract.MCPServerChildren), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1",
				FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(
					`{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"proxy\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`),
			}}
			made := planOf(server, world{Proxy: live}, options)
			if made.Phase != plan.Invalid ||
				!strings.Contains(made.Verdict.Problems[0].String(), "spec.podTemplate.spec.hostNetwork") {
				t.Errorf("it is %s, and the problems are %v", made.Phase, made.Verdict.Problems)
			}
			proxies := actions[plan.ApplyProxy](made)
			if made.Target != current || len(proxies) != 1 || proxies[0].Kept == nil ||
				*proxies[0].Kept.Spec.Replicas != tc.replicas {
				t.Fatalf("kept is %+v with revision %v", proxies, made.Target)
			}
			if image := *proxies[0].Kept.Spec.Template.Spec.Containers[0].Image; image != "last good" {
				t.Errorf("the image is %s", image)
			}
			if len(identityOf(made)) != 3 || len(childrenOf(made)) > 0 {
				t.Errorf("there are %d and %d children, want what the runner acts with and neither Service nor run config of "+
					"refused content",
					len(identityOf(made)), len(childrenOf(made)))
			}
		})
	}
	server := echo()
	refusedSpec(server)
	theirs := proxyOf(current)
	theirs.ManagedFields = nil
	for name, w := range map[string]world{"no proxy yet": {}, "a proxy that is not ours": {Proxy: theirs}} {
		made := planOf(server, w, options)
		if proxies := actions[plan.ApplyProxy](made); len(proxies) > 0 || w.Proxy == nil && len(identityOf(made)) > 0 {
			t.Errorf("%s: wanted is %+v and %d children", name, proxies, len(childrenOf(made)))
		}
	}
	if made := planOf(server, world{Binding: &rbacv1.RoleBinding{}}, options); len(identityOf(made)) != 3 {
		t.Error("rights that were given are not looked after while the spec cannot be rendered")
	}
}

func TestPlan_IsTheSameEachTime(t *testing.T) {
	server := echo()
	server.Spec.Proxy.Service = &v1alpha1.ProxyService{
		Labels: map[string]string{"example.com/a": "1", "example.com/b": "2"},
	}
	first := planOf(server, world{}, options)
	for range 10 {
		if diff := cmp.Diff(first, planOf(server, world{}, options)); diff != "" {
			t.Fatalf("(-first +again):\n%s", diff)
		}
	}
}

// A plan is made from the snapshot, and changes nothing of it.
func TestPlan_LeavesTheTurnsOfTheSnapshot(t *testing.T) {
	turns := []rollout.Turn{{WorkloadConfig: named("MCPAuthzConfig", "a", "2"), Phase: rollout.Waiting}}
	up(func(s *scene) { s.world.Configs.Turns = turns }).plan()
	if turns[0].Admitted {
		t.Error("the snapshot says that the configuration was admitted")
	}
}

func TestBackendReplicas(t *testing.T) {
	three := int32(3)
	for name, tc := range map[string]struct {
		replicas *int32
		suspend  bool
		want     int32
	}{
		"unset": {nil, false, 1}, "set": {&three, false, 3}, "suspended": {&three, true, 0},
		"unset and suspended": {nil, true, 0},
	} {
		server := echo()
		server.Spec.Replicas, server.Spec.Suspend = tc.replicas, tc.suspend
		if got := kinds.BackendReplicas(server); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// The default that nobody owns is not stated: that would be a write at each create.
func TestTheDefaultOfReplicasIsLeft(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	runner, other := entry(string(contract.RunnerBackend), `{"f:spec":{"f:serviceName":{}}}`),
		entry("kubectl", `{"f:spec":{"f:replicas":{}}}`)
	told := entry("kube-controller-manager", `{"f:status":{"f:replicas":{}}}`)
	told.Subresource = "status"
	for name, tc := range map[string]struct {
		stands *int32
		fields []metav1.ManagedFieldsEntry
		wanted int32
		want   bool
	}{
		"as it was born":     {new(int32(1)), []metav1.ManagedFieldsEntry{runner}, 1, true},
		"another number":     {new(int32(1)), []metav1.ManagedFieldsEntry{runner}, 3, false},
		"stated by another":  {new(int32(1)), []metav1.ManagedFieldsEntry{runner, other}, 1, false},
		"after a reset":      {new(int32(1)), nil, 1, false},
		"none":               {nil, []metav1.ManagedFieldsEntry{runner}, 1, false},
		"told in the status": {new(int32(1)), []metav1.ManagedFieldsEntry{runner, told}, 1, true},
	} {
		s := up(func(s *scene) {
			s.server.Spec.Replicas, s.world.Backend.ManagedFields, s.world.Backend.Spec.Replicas = new(tc.wanted), tc.fields,
				tc.stands
		})
		if stated := actions[plan.ScaleBackend](s.plan()); (len(stated) == 0) != tc.want {
			t.Errorf("%s: it states %v", name, stated)
		}
	}
}

// Where a protection is added, pods without it do not serve until its successor is ready, which may be never.
func TestAProxyWithoutAProtectionStopsFirst(t *testing.T) {
	guarded := map[string]string{podtemplate.AnnotationGuards: "authorization"}
	guardedPod := pod("new", workload.ComponentProxy, older)
	guardedPod.Annotations = guarded
	guardedProxy := proxyOf(older)
	guardedProxy.Spec.Template.Annotations = guarded
	open, openPod := proxyOf(older), pod("old", workload.ComponentProxy, older)
	ending := pod("old", workload.ComponentProxy, older)
	ending.DeletionTimestamp = new(metav1.NewTime(noon))
	evicted, done := openPod, openPod
	evicted.Status.Phase, done.Status.Phase = corev1.PodFailed, corev1.PodSucceeded
	for name, tc := range map[string]struct {
		world world
		want  string
	}{
		"no proxy yet":       {world{}, "0"},
		"a proxy without it": {world{Proxy: open}, "100%"},
		"a proxy with it":    {world{Proxy: guardedProxy, Pods: []corev1.Pod{guardedPod}}, "0"},
		"a pod of before":    {world{Proxy: guardedProxy, Pods: []corev1.Pod{guardedPod, openPod}}, "100%"},
		"which ends":         {world{Proxy: guardedProxy, Pods: []corev1.Pod{guardedPod, ending}}, "0"},
		"which has ended":    {world{Proxy: guardedProxy, Pods: []corev1.Pod{guardedPod, evicted, done}}, "0"},
		"a pod of the backend has no say": {
			world{Proxy: guardedProxy, Pods: []corev1.Pod{pod("b", workload.ComponentBackend, older)}}, "0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := echo()
			server.Spec.AuthzConfig = &v1alpha1.AuthzConfig{
				Policies: []v1alpha1.AuthzPolicy{{Name: "p", Policy: `permit(principal, action, resource);`}},
			}
			made := planOf(server, tc.world, options)
			if proxies := actions[plan.ApplyProxy](made); len(proxies) != 1 || proxies[0].StopsFirst != (tc.want == "100%") {
				t.Errorf("it is %s, and the proxies are %+v, want maxUnavailable %s", made.Phase, proxies, tc.want)
			}
		})
	}
}

func TestAClaimSaysWhatChanges(t *testing.T) {
	other := func(s *scene) { s.digest.Hash = "other" }
	for want, s := range map[string]scene{
		"creates the proxy and its backend":      up(other, func(s *scene) { s.world = world{} }),
		"replaces the pods of the proxy":         up(other),
		"replaces the pods of proxy and backend": up(other, func(s *scene) { s.digest.Backend = "other" }),
		`replaces the pods of the proxy, because MCPAuthzConfig "b" changed`: up(other, func(s *scene) {
			s.server.Status.Workload.Configs = []v1alpha1.WorkloadConfig{
				named("MCPAuthzConfig", "a", "1"),
				named("MCPAuthzConfig", "b", "1"),
			}
			s.world.Configs.Turns = []rollout.Turn{
				{WorkloadConfig: named("MCPAuthzConfig", "a", "1"), Phase: rollout.Done, Admitted: true},
				{WorkloadConfig: named("MCPAuthzConfig", "b", "2"), Phase: rollout.Waiting, Admitted: true},
			}
		}),
	} {
		if got := report.Changes(s.snap(), s.plan()); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

package mcpserver

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// refusedSpec is a spec that cannot be rendered.
func refusedSpec(server *v1alpha1.MCPServer) {
	server.Spec.PodTemplate = &runtime.RawExtension{Raw: []byte(`{"spec":{"hostNetwork":true}}`)}
}

// contentHash is the hash of a server's content.
func contentHash(t *testing.T, server *v1alpha1.MCPServer) string {
	t.Helper()
	rendered := workload.Render(server, options)
	if len(rendered.Problems) > 0 {
		t.Fatal(rendered.Problems)
	}
	return rendered.Hash
}

type hasName interface{ GetName() *string }

func TestDesiredIsEveryChildOfTheServer(t *testing.T) {
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
	want := desired(server, world{}, options)
	if rev := (revision.Revision{Generation: 1, Hash: hash}); want.revision != rev || want.content.Workload.Generation != 1 || want.content.Workload.Hash != hash {
		t.Errorf("the revision is %v, and in the content %v", want.revision, want.content.Workload)
	}
	var names []string
	for _, c := range append(want.identity, want.children...) {
		names = append(names, *c.ac.(hasName).GetName())
	}
	wanted := []string{"echo-runner", "echo-runner", "echo-runner", "echo-proxy"}
	config := workload.RunConfigName("echo", want.revision)
	if long {
		wanted = append(wanted, config)
	}
	if diff := cmp.Diff(wanted, names); diff != "" {
		t.Errorf("children (-want +got):\n%s", diff)
	}
	if want.proxy == nil || *want.proxy.Spec.Replicas != 1 || want.proxy.Annotations[revision.AnnotationGeneration] != "1" {
		t.Errorf("the proxy is %+v", want.proxy)
	}
	volume, carried := want.proxy.Spec.Template.Spec.Volumes[0], want.proxy.Spec.Template.Annotations[podtemplate.AnnotationRunConfig]
	if long != (volume.ConfigMap != nil && *volume.ConfigMap.Name == config) || long != (volume.DownwardAPI == nil) || long != (carried == "") {
		t.Errorf("the proxy mounts %+v, and carries %q", volume, carried)
	}
}

// The number never falls below one that a child carries, and grows only with
// the content.
func TestTheMarkOfWantedContent(t *testing.T) {
	hash := contentHash(t, echo())
	same, other := revision.Revision{Generation: 4, Hash: hash}, revision.Revision{Generation: 4, Hash: "other"}
	for name, tc := range map[string]struct {
		status *revision.Revision
		world  world
		want   int64
	}{
		"the first":                                 {nil, world{}, 1},
		"the same content keeps it":                 {&same, world{proxy: proxyOf(same), backend: backendOf(same)}, 4},
		"other content raises it":                   {&other, world{proxy: proxyOf(other)}, 5},
		"a lost status, found at the proxy":         {nil, world{proxy: proxyOf(same)}, 4},
		"a lost status, found at the backend":       {nil, world{backend: backendOf(same)}, 4},
		"a lost status, and other content":          {nil, world{backend: backendOf(other)}, 5},
		"a lost status, and what is left of it":     {nil, world{calls: service(same)}, 4},
		"a run config is no number":                 {nil, world{configs: []metav1.PartialObjectMetadata{config(same)}}, 1},
		"nor is somebody's Service":                 {nil, world{calls: free(service(same))}, 1},
		"nor an earlier server's proxy":             {nil, world{proxy: of(proxyOf(same), "earlier")}, 1},
		"nor one beyond all numbers":                {nil, world{calls: service(revision.Revision{Generation: math.MaxInt64, Hash: "other"})}, 1},
		"a child is ahead, with other content":      {&same, world{backend: backendOf(revision.Revision{Generation: 9, Hash: "other"})}, 4},
		"a child is ahead, with the same":           {&other, world{proxy: proxyOf(revision.Revision{Generation: 9, Hash: hash})}, 5},
		"a Service of the backend is ahead":         {&same, world{calls: service(revision.Revision{Generation: 9, Hash: "other"})}, 4},
		"a headless Service is ahead":               {&same, world{names: service(revision.Revision{Generation: 9, Hash: "other"})}, 4},
		"a child behind changes nothing":            {&same, world{proxy: proxyOf(older), configs: []metav1.PartialObjectMetadata{config(older)}}, 4},
		"a child's hash was removed":                {&same, world{calls: service(revision.Revision{Generation: 4})}, 5},
		"two contents with one number end above it": {&other, world{proxy: proxyOf(same)}, 5},
		"but not for somebody's Service":            {&same, world{calls: free(service(other))}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			server := echo()
			if tc.status != nil {
				server.Status.Workload = &v1alpha1.WorkloadStatus{Generation: tc.status.Generation, Hash: tc.status.Hash, SessionSecret: "made"}
			}
			got := desired(server, tc.world, options)
			if rev := (revision.Revision{Generation: tc.want, Hash: hash}); got.revision != rev {
				t.Errorf("the revision is %v, want %v", got.revision, rev)
			}
			if claimed := tc.status != nil && *tc.status == got.revision; got.claimed(server) != claimed {
				t.Errorf("claimed is %t", got.claimed(server))
			}
		})
	}
}

// What is above the number is said, and of what an earlier server left nothing,
// since that goes by itself.
func TestANumberThatNoClaimMadeIsSaid(t *testing.T) {
	hash := contentHash(t, echo())
	same, high, other := revision.Revision{Generation: 4, Hash: hash}, revision.Revision{Generation: 41, Hash: "abc"}, revision.Revision{Generation: 4, Hash: "abc"}
	for name, tc := range map[string]struct {
		world world
		want  []string
	}{
		"nothing":               {world{proxy: proxyOf(same), backend: backendOf(older), calls: service(same)}, nil},
		"a proxy":               {world{proxy: of(proxyOf(high), "uid")}, []string{"Deployment echo-proxy carries 41"}},
		"a backend and Service": {world{backend: backendOf(high), names: service(high)}, []string{"StatefulSet echo-backend carries 41", "Service echo carries 41"}},
		"somebody's Service":    {world{calls: free(service(high))}, []string{"Service echo carries 41"}},
		"with our number":       {world{calls: free(service(other))}, []string{"Service echo carries 4"}},
		"an earlier server's":   {world{proxy: of(proxyOf(high), "earlier")}, nil},
		"a run config":          {world{configs: []metav1.PartialObjectMetadata{config(high)}}, nil},
	} {
		server := echo()
		server.Status.Workload = &v1alpha1.WorkloadStatus{Generation: same.Generation, Hash: hash, SessionSecret: "made"}
		want := desired(server, tc.world, options)
		if diff := cmp.Diff(tc.want, want.unclaimed); diff != "" || want.revision != same {
			t.Errorf("%s: the revision is %v, and said is (-want +got):\n%s", name, want.revision, diff)
		}
		found := findings(server, tc.world, want, ready(server, tc.world, want, nil), noon)
		if stuck := found[v1alpha1.ConditionStalled].Reason == v1alpha1.ReasonUnclaimedGeneration; stuck != (tc.want != nil) {
			t.Errorf("%s: found is %v", name, found)
		}
	}
}

// Where somebody has used up the numbers, what runs stays, and it is said what
// to do.
func TestAfterTheLastNumberThereIsNone(t *testing.T) {
	last := revision.Revision{Generation: revision.MaxGeneration, Hash: "other"}
	want := desired(echo(), world{proxy: proxyOf(current), backend: backendOf(last)}, options)
	if want.renderable() || want.revision != current || !strings.Contains(want.problems[0].Message, "delete it and create it again") {
		t.Errorf("it wants %v, and the problems are %v", want.revision, want.problems)
	}
}

// What stands in a child's place is what it is compared with.
func TestDesiredKnowsWhatIsThere(t *testing.T) {
	server := echo()
	server.Spec.Args = []string{strings.Repeat("x", 17<<10)} // with a ConfigMap
	w := world{account: &corev1.ServiceAccount{}, service: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}}}
	rev := revision.Revision{Generation: 7, Hash: contentHash(t, server)}
	w.configs = []metav1.PartialObjectMetadata{config(older), config(rev)}
	server.Status.Workload = &v1alpha1.WorkloadStatus{Generation: rev.Generation, Hash: rev.Hash, SessionSecret: "made"}
	want := desired(server, w, options)
	identity, children := want.identity, want.children
	if identity[0].live != w.account || children[0].live != w.service || children[1].live != &w.configs[1] {
		t.Errorf("the children stand for %v, %v", identity, children)
	}
	if role, ok := identity[1].live.(*rbacv1.Role); !ok || role != nil || identity[1].lost {
		t.Errorf("a Role that is not there is %v", identity[1].live)
	}
	if w.account.OwnerReferences = ofEcho(); !identity[0].lost || desired(server, w, options).identity[0].lost {
		t.Error("an account is lost while the server does not control it")
	}
}

// A spec that cannot be rendered leaves what runs, and can be stopped.
func TestDesiredKeepsTheProxyOfASpecThatCannotBeRendered(t *testing.T) {
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
				Manager: string(contract.MCPServerChildren), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"proxy\"}":{".":{},"f:name":{},"f:image":{}}}}}}}`),
			}}
			got := desired(server, world{proxy: live}, options)
			if got.renderable() || !strings.Contains(got.problems[0].String(), "spec.podTemplate.spec.hostNetwork") {
				t.Errorf("the problems are %v", got.problems)
			}
			if got.revision != current || got.proxy == nil || !got.kept || *got.proxy.Spec.Replicas != tc.replicas {
				t.Fatalf("kept is %+v with revision %v", got.proxy, got.revision)
			}
			if image := *got.proxy.Spec.Template.Spec.Containers[0].Image; image != "last good" {
				t.Errorf("the image is %s", image)
			}
			if len(got.identity) != 3 || len(got.children) > 0 {
				t.Errorf("there are %d and %d children, want what the runner acts with and neither Service nor run config of refused content", len(got.identity), len(got.children))
			}
		})
	}
	server := echo()
	refusedSpec(server)
	for name, w := range map[string]world{"no proxy yet": {}, "a proxy that is not ours": {proxy: proxyOf(current)}} {
		if got := desired(server, w, options); got.proxy != nil || w.proxy == nil && len(got.identity) > 0 {
			t.Errorf("%s: wanted is %+v and %d children", name, got.proxy, len(got.children))
		}
	}
	if got := desired(server, world{binding: &rbacv1.RoleBinding{}}, options); len(got.identity) != 3 {
		t.Error("rights that were given are not looked after while the spec cannot be rendered")
	}
}

func TestDesiredIsTheSameEachTime(t *testing.T) {
	server := echo()
	server.Spec.Proxy.Service = &v1alpha1.ProxyService{Labels: map[string]string{"example.com/a": "1", "example.com/b": "2"}}
	first := desired(server, world{}, options)
	for range 10 {
		again := desired(server, world{}, options)
		if diff := cmp.Diff(first.proxy, again.proxy); diff != "" || first.revision != again.revision {
			t.Fatalf("(-first +again):\n%s", diff)
		}
		for i := range first.children {
			if diff := cmp.Diff(first.children[i].ac, again.children[i].ac); diff != "" {
				t.Fatalf("(-first +again):\n%s", diff)
			}
		}
	}
}

// The pods leave the node's namespaces for one pass; where nobody put them
// there nothing is said about it.
func TestLeaveNode(t *testing.T) {
	all := &corev1.PodSpec{HostNetwork: true, HostPID: true, HostIPC: true}
	whole, replaced := corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec()), corev1ac.PodTemplateSpec()
	for name, tc := range map[string]struct {
		template corev1ac.PodTemplateSpecApplyConfiguration
		pod      *corev1.PodSpec
		want     []string
	}{
		"no proxy":    {*whole, nil, nil},
		"outside":     {*whole, &corev1.PodSpec{}, nil},
		"network":     {*whole, &corev1.PodSpec{HostNetwork: true}, []string{"hostNetwork"}},
		"all of them": {*whole, all, []string{"hostNetwork", "hostPID", "hostIPC"}},
		// Restated where nothing of the pod spec is ours any more.
		"a pod spec of another hand":          {*replaced, &corev1.PodSpec{}, nil},
		"a pod spec of another hand, with it": {*replaced, all, []string{"hostNetwork", "hostPID", "hostIPC"}},
	} {
		want := wanted{proxy: appsv1ac.Deployment("echo-proxy", "ns").WithSpec(appsv1ac.DeploymentSpec().WithTemplate(&tc.template))}
		if tc.template.Spec != nil {
			tc.template.Spec = corev1ac.PodSpec()
		}
		var live *appsv1.Deployment
		if tc.pod != nil {
			live = proxyOf(current)
			live.Spec.Template.Spec = *tc.pod
		}
		if got := want.clearHostNamespaces(live); !slices.Equal(got, tc.want) {
			t.Errorf("%s: left are %v", name, got)
		}
		spec := tc.template.Spec
		if spec == nil {
			spec = corev1ac.PodSpec()
		}
		for field, stated := range map[string]*bool{"hostNetwork": spec.HostNetwork, "hostPID": spec.HostPID, "hostIPC": spec.HostIPC} {
			if left := slices.Contains(tc.want, field); left != (stated != nil) || (stated != nil && *stated) {
				t.Errorf("%s: %s is stated as %v", name, field, stated)
			}
		}
	}
}

func TestBackendReplicas(t *testing.T) {
	three := int32(3)
	for name, tc := range map[string]struct {
		replicas *int32
		suspend  bool
		want     int32
	}{
		"unset": {nil, false, 1}, "set": {&three, false, 3}, "suspended": {&three, true, 0}, "unset and suspended": {nil, true, 0},
	} {
		server := echo()
		server.Spec.Replicas, server.Spec.Suspend = tc.replicas, tc.suspend
		if got := backendReplicas(server); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// The default that nobody owns is not stated: that would be a write at each birth.
func TestTheDefaultOfReplicasIsLeft(t *testing.T) {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
	}
	runner, other := entry(string(contract.RunnerBackend), `{"f:spec":{"f:serviceName":{}}}`), entry("kubectl", `{"f:spec":{"f:replicas":{}}}`)
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
		backend := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{ManagedFields: tc.fields}, Spec: appsv1.StatefulSetSpec{Replicas: tc.stands}}
		if got := hasByDefault(backend, tc.wanted); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Where a protection is added, pods without it do not serve until its successor
// is ready, which may be never.
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
		"no proxy yet":                    {world{}, "0"},
		"a proxy without it":              {world{proxy: open}, "100%"},
		"a proxy with it":                 {world{proxy: guardedProxy, pods: []corev1.Pod{guardedPod}}, "0"},
		"a pod of before":                 {world{proxy: guardedProxy, pods: []corev1.Pod{guardedPod, openPod}}, "100%"},
		"which ends":                      {world{proxy: guardedProxy, pods: []corev1.Pod{guardedPod, ending}}, "0"},
		"which has ended":                 {world{proxy: guardedProxy, pods: []corev1.Pod{guardedPod, evicted, done}}, "0"},
		"a pod of the backend has no say": {world{proxy: guardedProxy, pods: []corev1.Pod{pod("b", workload.ComponentBackend, older)}}, "0"},
	} {
		t.Run(name, func(t *testing.T) {
			server := echo()
			server.Spec.AuthzConfig = &v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{{Name: "p", Policy: `permit(principal, action, resource);`}}}
			want := desired(server, tc.world, options)
			if len(want.problems) > 0 {
				t.Fatal(want.problems)
			}
			if got := want.proxy.Spec.Strategy.RollingUpdate.MaxUnavailable.String(); got != tc.want {
				t.Errorf("maxUnavailable is %s, want %s", got, tc.want)
			}
		})
	}
}

func TestAClaimSaysWhatChanges(t *testing.T) {
	for want, s := range map[string]scene{
		"creates the proxy and its backend":      up(func(s *scene) { s.world = world{} }),
		"replaces the pods of the proxy":         up(),
		"replaces the pods of proxy and backend": up(func(s *scene) { s.want.content = contentOf(older) }),
		`replaces the pods of the proxy, because MCPAuthzConfig "b" changed`: up(func(s *scene) {
			s.server.Status.Workload.Configs = []v1alpha1.WorkloadConfig{named("MCPAuthzConfig", "a", "1"), named("MCPAuthzConfig", "b", "1")}
			s.want.configs = []v1alpha1.WorkloadConfig{named("MCPAuthzConfig", "a", "1"), {Kind: "MCPAuthzConfig", Name: "b", Hash: "2", InTurn: true}}
		}),
	} {
		if got := s.want.changes(s.server, s.world); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
}

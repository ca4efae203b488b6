package controllers

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/routes"
)

// megabyte is a text as long as an object may be.
var megabyte = strings.Repeat("x", 1<<20)

// large is a kind's object of a megabyte, where the API server lets one put it.
func large(kind client.Object) client.Object {
	obj := kind.DeepCopyObject().(client.Object)
	obj.SetNamespace("ns")
	obj.SetLabels(map[string]string{"freehold.dev/server": "echo"})
	obj.SetAnnotations(map[string]string{"note": megabyte})
	obj.SetFinalizers([]string{"example.com/" + megabyte})
	obj.SetOwnerReferences([]metav1.OwnerReference{{Kind: "MCPServer", Name: megabyte, Controller: new(true)}})
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:` + megabyte + `":{}}`)},
	})
	switch o := obj.(type) {
	case *rbacv1.Role:
		o.Rules = []rbacv1.PolicyRule{{Verbs: []string{megabyte}}}
	case *corev1.Pod:
		o.Spec.Containers = []corev1.Container{{Args: []string{megabyte}}}
		for range 100 {
			o.Spec.SchedulingGates = append(o.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: megabyte})
			o.Spec.Volumes = append(o.Spec.Volumes, corev1.Volume{Name: megabyte},
				corev1.Volume{Name: megabyte, VolumeSource: corev1.VolumeSource{
					Image: &corev1.ImageVolumeSource{Reference: megabyte},
				}})
		}
	case *appsv1.Deployment:
		o.Spec.Template.Annotations = map[string]string{"note": megabyte}
	case *appsv1.StatefulSet:
		o.Spec.Template.Annotations = map[string]string{"note": megabyte}
	}
	return obj
}

func sizeOf(t *testing.T, obj any) int {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}

// Whoever may create objects in a namespace decides about their labels and their
// size, and must not decide about the operator's memory with it.
func TestLittleIsKeptOfWhatIsNotOurs(t *testing.T) {
	for _, kind := range mcpserver.Watched() {
		names := []string{"anything", "echo", "other-proxy", "echo-runner", "echo-proxy", "echo-run-7-abc", "echo-backend"}
		for _, name := range names {
			obj := large(kind)
			obj.SetName(name)
			kept, err := newInterner().trim(obj)
			if err != nil {
				t.Fatal(err)
			}
			if size := sizeOf(t, kept); size > 4<<10 {
				t.Errorf("of a %T called %s %d bytes are kept", kind, name, size)
			}
			if o := kept.(client.Object); o.GetName() != name || o.GetNamespace() != "ns" ||
				reflect.TypeOf(o) != reflect.TypeOf(kind) {
				t.Errorf("a %T called %s became %T %s", kind, name, o, o.GetName())
			}
			if again, err := newInterner().trim(kept); err != nil || !equality.Semantic.DeepEqual(again, kept) {
				t.Errorf("of a %T called %s less is kept the second time: %v", kind, name, err)
			}
		}
	}
}

// Of an object of ours everything is read but what kubectl apply keeps beside it, which
// is as large as its spec, and labels that it does not hand down.
func TestAnObjectOfOursIsKeptOnce(t *testing.T) {
	for _, kind := range []client.Object{
		&v1alpha1.MCPServer{}, &v1alpha1.MCPRemoteProxy{}, &v1alpha1.MCPOIDCConfig{},
		&v1alpha1.MCPAuthzConfig{},
	} {
		kind.SetFinalizers([]string{"freehold.dev/x"})
		kind.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
		want := kind.DeepCopyObject()
		want.(client.Object).SetAnnotations(map[string]string{"freehold.dev/adopt": "true"})
		want.(client.Object).SetLabels(map[string]string{"team": "blue"})
		kind.SetAnnotations(map[string]string{
			"freehold.dev/adopt": "true",
			"kubectl.kubernetes.io/last-applied-configuration": megabyte,
		})
		kind.SetLabels(map[string]string{"theirs": "1", "team": "blue"})
		if kept, err := newInterner("team", "cost").trim(kind); err != nil || !equality.Semantic.DeepEqual(kept, want) {
			t.Errorf("a %T keeps %+v (%v)", kind, kept, err)
		}
	}
}

// What a pass compares stays whole.
func TestOurChildrenAreKept(t *testing.T) {
	for name, kind := range map[string]client.Object{
		"echo-runner":    &rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}}}},
		"echo-run-7-abc": &metav1.PartialObjectMetadata{},
		"echo-proxy": &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "proxy", Args: []string{megabyte[:16<<10]}}},
		}}}},
	} {
		kind.SetName(name)
		kind.SetLabels(map[string]string{"freehold.dev/server": "echo", "theirs": "1"})
		kind.SetAnnotations(map[string]string{"freehold.dev/workload-generation": "7", "theirs": strings.Repeat("x", 8<<10)})
		kind.SetOwnerReferences([]metav1.OwnerReference{
			{APIVersion: "freehold.dev/v1alpha1", Kind: "MCPServer", Name: "echo", Controller: new(true)},
		})
		kind.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: "mcpserver.freehold.dev/children"}})
		want := kind.DeepCopyObject()
		if kept, err := newInterner().trim(kind); err != nil || !equality.Semantic.DeepEqual(kept, want) {
			t.Errorf("%s: it keeps %+v (%v)", name, kept, err)
		}
	}
}

// Of content in a server's history only whose it is and its number is kept, and nothing else by its labels.
func TestOfStoredContentTheNumberIsKept(t *testing.T) {
	stored := &metav1.PartialObjectMetadata{}
	stored.SetName("echo-content-38ced22730")
	stored.SetLabels(map[string]string{"freehold.dev/server": "echo", "app.kubernetes.io/component": "runner"})
	stored.SetAnnotations(map[string]string{
		"freehold.dev/workload-generation": "7", "freehold.dev/workload-hash": "abc", "theirs": "1",
	})
	stored.SetOwnerReferences([]metav1.OwnerReference{{Kind: "MCPServer", Name: "echo", Controller: new(true)}})
	stored.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "mcpserver.freehold.dev/children"}})
	want := stored.DeepCopy()
	want.Labels, want.ManagedFields = map[string]string{"freehold.dev/server": "echo"}, nil
	delete(want.Annotations, "theirs")
	if kept, err := newInterner().trim(stored); err != nil || !equality.Semantic.DeepEqual(kept, want) {
		t.Errorf("it keeps %+v (%v)", kept, err)
	}
}

// Of a large child no more is kept than that there is more, whoever controls it.
func TestALargeChildIsCut(t *testing.T) {
	for kind, names := range map[client.Object][]string{
		&appsv1.Deployment{}: {"echo-proxy", "anything"}, &appsv1.StatefulSet{}: {"echo-backend"},
		&corev1.Service{}: {"echo-proxy"}, &networkingv1.NetworkPolicy{}: {"echo-backend"},
		routes.Object(): {"echo-proxy", "anything"},
	} {
		for _, name := range names {
			obj := large(kind)
			obj.SetName(name)
			obj.SetOwnerReferences([]metav1.OwnerReference{
				{APIVersion: "freehold.dev/v1alpha1", Kind: "MCPServer", Name: "echo", Controller: new(true)},
			})
			kept, err := newInterner().trim(obj)
			if err != nil || sizeOf(t, kept) > 4<<10 || reconcile.IsCut(kept.(client.Object)) != (name != "anything") {
				t.Errorf("of a %T called %s it keeps %d bytes (%v)", kind, name, sizeOf(t, kept), err)
			}
		}
	}
}

func TestOfALargeHTTPRouteAPartIsKept(t *testing.T) {
	options, err := routeCacheOptions([]string{"team"})
	if err != nil {
		t.Fatal(err)
	}
	route := large(routes.Object())
	route.SetName("echo-proxy")
	kept, err := options.DefaultTransform(route)
	if err != nil || !reconcile.IsCut(kept.(client.Object)) || options.DefaultLabelSelector.Matches(labels.Set{"a": "b"}) {
		t.Errorf("it keeps %d bytes (%v)", sizeOf(t, kept), err)
	}
}

// Of a large object of ours whom it refers to and how it fares is kept, so that others
// are told, and a name of what it says.
func TestOfALargeObjectOfOursAPartIsKept(t *testing.T) {
	status := v1alpha1.ConfigStatus{Workloads: new(int32(3))}
	workload := &v1alpha1.WorkloadStatus{Generation: 7}
	many := []v1alpha1.AuthzPolicy{{Name: "a", Policy: megabyte}}
	login, authz := &v1alpha1.OIDCConfigReference{LocalReference: v1alpha1.LocalReference{Name: "l"}},
		&v1alpha1.LocalReference{Name: "a"}
	for _, kind := range []client.Object{
		&v1alpha1.MCPServer{
			Spec: v1alpha1.MCPServerSpec{
				Args: []string{megabyte}, ToolConfigRef: &v1alpha1.LocalReference{Name: "t"},
				ExternalAuthConfigRef: &v1alpha1.LocalReference{Name: "e"}, ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
					Suspend: true, AuthzConfigRef: authz,
					OIDCConfigRef: &v1alpha1.OIDCConfigReference{LocalReference: login.LocalReference, Scopes: []string{megabyte}},
				},
			},
			Status: v1alpha1.MCPServerStatus{ProxyWorkloadStatus: v1alpha1.ProxyWorkloadStatus{Workload: workload}},
		},
		&v1alpha1.MCPRemoteProxy{
			Spec: v1alpha1.MCPRemoteProxySpec{
				ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
					AuthzConfig: &v1alpha1.AuthzConfig{Policies: many}, AuthzConfigRef: authz,
					OIDCConfigRef: &v1alpha1.OIDCConfigReference{LocalReference: login.LocalReference, Scopes: []string{megabyte}},
				},
			},
			Status: v1alpha1.MCPRemoteProxyStatus{ProxyWorkloadStatus: v1alpha1.ProxyWorkloadStatus{Workload: workload}},
		},
		&v1alpha1.MCPOIDCConfig{
			Spec:   v1alpha1.MCPOIDCConfigSpec{OIDC: &v1alpha1.OIDCIssuer{Issuer: megabyte}},
			Status: status,
		},
		&v1alpha1.MCPAuthzConfig{Spec: v1alpha1.AuthzConfig{Policies: many}, Status: status},
	} {
		obj := large(kind)
		obj.SetFinalizers([]string{"x/" + megabyte, "freehold.dev/mcpserver"})
		obj.SetGeneration(4)
		digest := digestOf(obj)
		kept, err := newInterner().trim(obj)
		if err != nil {
			t.Fatal(err)
		}
		small := kept.(client.Object)
		if sizeOf(t, small) > 2<<10 || !reconcile.IsCut(small) || reconcile.CutDigest(small) != digest ||
			small.GetGeneration() != 4 ||
			!slices.Equal(small.GetFinalizers(), []string{"freehold.dev/mcpserver"}) {
			t.Errorf("of a %T it keeps %d bytes: %+v", kind, sizeOf(t, small), small)
		}
		if server, ok := small.(kinds.Object); ok {
			spec := server.GetProxySpec()
			if !reflect.DeepEqual(spec.OIDCConfigRef, login) || !reflect.DeepEqual(spec.AuthzConfigRef, authz) ||
				!slices.Equal(server.ConfigRefs(), obj.(kinds.Object).ConfigRefs()) ||
				server.GetProxyStatus().Workload.Generation != 7 {
				t.Errorf("of a %T it keeps %+v", kind, server)
			}
		} else if digest == "" || small.(interface{ GetConfigStatus() *v1alpha1.ConfigStatus }).GetConfigStatus().
			Workloads == nil {
			t.Errorf("of a %T it keeps %+v", kind, small)
		}
		whole := small.DeepCopyObject()
		if again, err := newInterner().trim(kept); err != nil || !equality.Semantic.DeepEqual(again, whole) {
			t.Errorf("of a %T less is kept the second time: %v", kind, err)
		}
	}
}

// Of what the runner writes little is read.
func TestOfABackendLittleIsKept(t *testing.T) {
	c := corev1.Container{
		Name: "server", Image: "i", Args: []string{megabyte}, Command: []string{megabyte},
		Env: []corev1.EnvVar{{Value: megabyte}},
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Name: name, UID: "u", Labels: map[string]string{"freehold.dev/server": "echo"},
			Annotations:     map[string]string{"freehold.dev/workload-generation": "7"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "freehold.dev/v1alpha1", Kind: "MCPServer", Name: "echo"}},
		}
	}
	backend := &appsv1.StatefulSet{ObjectMeta: meta("echo-backend")}
	backend.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "runner.freehold.dev/backend"}}
	backend.Status.ReadyReplicas = 2
	backend.Spec.Replicas = new(int32(2))
	want := backend.DeepCopy()
	backend.Spec.ServiceName = "echo-backend-headless"
	backend.Spec.Template.Annotations = map[string]string{"freehold.dev/backend-hash": "ab", "note": megabyte}
	backend.Spec.Template.Spec = corev1.PodSpec{
		InitContainers: []corev1.Container{c}, Containers: []corev1.Container{c},
		Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
	}
	want.Spec.Template.Annotations = map[string]string{"freehold.dev/backend-hash": "ab"}
	want.Spec.Template.Spec = corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "server"}},
		Containers:     []corev1.Container{{Name: "server"}}, Volumes: []corev1.Volume{{Name: "v"}},
	}
	service := &corev1.Service{ObjectMeta: meta("echo-backend-headless"), Spec: corev1.ServiceSpec{ClusterIP: "None"}}
	service.ManagedFields = backend.ManagedFields
	for kept, want := range map[client.Object]client.Object{
		backend: want,
		service: &corev1.Service{ObjectMeta: meta("echo-backend-headless")},
		&corev1.Service{ObjectMeta: meta("echo-proxy"), Spec: service.Spec}: &corev1.Service{
			ObjectMeta: meta("echo-proxy"),
			Spec:       service.Spec,
		},
	} {
		if kept, err := newInterner().trim(kept); err != nil || !equality.Semantic.DeepEqual(kept, want) {
			t.Errorf("it keeps %+v (%v), want %+v", kept, err, want)
		}
	}
}

// Of the status of a proxy one condition is read.
func TestOfAProxyTheFailureIsKept(t *testing.T) {
	proxy := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name:   "echo-proxy",
		Labels: map[string]string{"freehold.dev/server": "echo"},
	}}
	failure := appsv1.DeploymentCondition{
		Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue,
		Message: "no",
	}
	proxy.Status.Replicas, proxy.Status.Conditions = 1, []appsv1.DeploymentCondition{failure}
	want := proxy.DeepCopy()
	proxy.Status.Conditions = []appsv1.DeploymentCondition{
		{Type: appsv1.DeploymentAvailable},
		failure,
		{Type: appsv1.DeploymentProgressing},
	}
	if kept, err := newInterner().trim(proxy); err != nil || !equality.Semantic.DeepEqual(kept, want) {
		t.Errorf("it keeps %+v (%v)", kept, err)
	}
}

// Two pods and more of every server are cached, and a pass reads little of them.
func TestOfPodsTheCacheKeepsWhatIsRead(t *testing.T) {
	ours := map[string]string{"freehold.dev/server": "echo", "app.kubernetes.io/component": "proxy"}
	annotations := map[string]string{
		"freehold.dev/workload-generation": "3", "freehold.dev/workload-hash": "ab",
		"freehold.dev/backend-hash": "cd",
	}
	read := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "echo-proxy-1", Namespace: "ns", UID: "u", ResourceVersion: "7", Labels: ours,
			Annotations: annotations, OwnerReferences: []metav1.OwnerReference{{Controller: new(true)}},
		},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(300))},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"}, {Type: corev1.PodReady},
			},
			InitContainerStatuses: []corev1.ContainerStatus{{
				Name: "first", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			}},
			ContainerStatuses: []corev1.ContainerStatus{
				{
					Name: "proxy", Image: "i", ImageID: "@sha256:ab", Ready: true,
					State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				},
			},
		},
	}
	whole := read.DeepCopy()
	whole.GenerateName = "echo-proxy-"
	whole.OwnerReferences = []metav1.OwnerReference{{Name: "note"}, {Name: "echo-proxy", Controller: new(true)}}
	whole.Labels["pod-template-hash"], whole.Annotations["someone.example/s"] = "h", "note"
	whole.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	whole.Spec.NodeName, whole.Status.PodIP, whole.Status.NominatedNodeName = "node", "10.0.0.1", "node"
	whole.Status.Conditions = append(whole.Status.Conditions, corev1.PodCondition{Type: corev1.PodInitialized})
	c := &whole.Status.ContainerStatuses[0]
	c.ImageID, c.RestartCount = "registry.example.com/i@sha256:ab", 2
	kept, err := newInterner().trim(whole)
	if err != nil || !equality.Semantic.DeepEqual(kept, &read) {
		t.Errorf("it keeps %+v (%v), want %+v", kept, err, read)
	}
	// Of a pod that has failed it keeps why, in bounds.
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodPending} {
		ended := &corev1.Pod{Status: corev1.PodStatus{
			Phase: phase, Reason: "Evicted",
			Message: strings.Repeat("full ", 1000),
		}}
		if _, err := newInterner().trim(ended); err != nil {
			t.Fatal(err)
		}
		if failed := phase == corev1.PodFailed; (ended.Status.Reason == "Evicted") != failed ||
			strings.HasPrefix(ended.Status.Message, "full full") != failed || len(ended.Status.Message) > 2000 {
			t.Errorf("of a pod that is %s it keeps %q, %q", phase, ended.Status.Reason, ended.Status.Message)
		}
	}
}

// Kubelet reports each step of a start, and of an end: few of them change what is kept, and wake somebody.
func TestOfAStartingPodFewStepsAreKept(t *testing.T) {
	condition := func(of corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
		return corev1.PodCondition{Type: of, Status: status}
	}
	waits := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	pod := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodPending}}
	status := &pod.Status
	for _, step := range []struct {
		what string
		take func()
		kept bool
	}{
		{"the scheduler names a node", func() { status.NominatedNodeName = "n" }, true},
		{"it is scheduled", func() {
			status.Conditions = append(status.Conditions, condition(corev1.PodScheduled, corev1.ConditionTrue))
		}, true}, // the node is named no more
		{"kubelet has seen it", func() {
			status.Conditions = append(status.Conditions, condition(corev1.PodReady, corev1.ConditionFalse))
			status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: waits("ContainerCreating")}}
		}, false},
		{"its sandbox is made", func() {
			status.Conditions = append(status.Conditions, condition(corev1.PodReadyToStartContainers, corev1.ConditionTrue))
			status.PodIP = "10.0.0.1"
		}, false},
		{"its image is not there", func() { status.ContainerStatuses[0].State = waits("ErrImagePull") }, true},
		{"it is there", func() { status.ContainerStatuses[0].State = waits("ContainerCreating") }, true},
		{"it runs", func() {
			status.Phase = corev1.PodRunning
			status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}, true},
		{"it is ready", func() {
			status.ContainerStatuses[0].Ready = true
			status.Conditions[1] = condition(corev1.PodReady, corev1.ConditionTrue)
		}, true},
		{"it ends", func() { pod.DeletionTimestamp = new(metav1.Now()) }, true},
		{"its container has ended", func() {
			status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
			status.Conditions[1] = condition(corev1.PodReady, corev1.ConditionFalse)
		}, false},
		{"all have", func() { status.Phase = corev1.PodSucceeded }, true},
	} {
		before := trimPod(pod.DeepCopy())
		step.take()
		if kept := !equality.Semantic.DeepEqual(before, trimPod(pod.DeepCopy())); kept != step.kept {
			t.Errorf("%s: is it kept? %t, want %t", step.what, kept, step.kept)
		}
	}
}

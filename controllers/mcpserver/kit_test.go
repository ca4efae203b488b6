package mcpserver

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/render"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// A world in which everything has come up, and edits of it. Rows of tables hold the edits only.

var (
	current = revision.Revision{Generation: 3, Hash: "ccc"}
	older   = revision.Revision{Generation: 2, Hash: "bbb"}
	noon    = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	isUp    = conditions.True(v1alpha1.ReasonReady, "MCP calls are served at http://echo-proxy.ns.svc:8000/mcp")
	options = podtemplate.Release{RunnerImage: "freehold.dev/runner:test"}
)

// scene is what a plan is made from.
type scene struct {
	server *v1alpha1.MCPServer
	world  world
	// digest is that of the content that is asked for.
	digest render.Digest
	// now is when it is looked at, noon if it is zero, refused why pods of the backend are not made, held what this
	// process has claimed, stops since when the server stops, and conflicts what the pass has met.
	now       time.Time
	refused   string
	held      snapshot.Held
	stops     snapshot.Stops
	conflicts []*apply.Conflict
}

// world is what is read beside the server.
type world = snapshot.Objects

func (s scene) snap() *snapshot.Snapshot {
	if s.now.IsZero() {
		s.now = noon
	}
	snap := snapshot.Of(s.server, s.world, s.now)
	snap.Slots[snap.Active].Refused.Words, snap.Held, snap.Stops = s.refused, s.held, s.stops
	return snap
}

// wanted are the pods of current.
func wanted(s *snapshot.Snapshot) snapshot.Wanted {
	return snapshot.Wanted{Revision: current, Slot: s.Active, Hash: digestOf(current).Backend}
}

// at is the scene at another time.
func (s scene) at(now time.Time) *snapshot.Snapshot {
	s.now = now
	return s.snap()
}

// plan is what a pass does.
func (s scene) plan() plan.Plan {
	return plan.Make(s.snap(), render.Digests{Present: s.digest}, options)
}

// says is what a pass says, whose writes came to err.
func (s scene) says(err error) map[string]conditions.Finding {
	made := s.plan()
	found := report.Conditions(s.snap(), made, err, s.conflicts)
	// Who reads the status of an earlier release finds the same phase in the words.
	if f, is := found[v1alpha1.ConditionReady]; err == nil && is && made.Verdict.Phase != conditions.PhaseOf(f) {
		panic(fmt.Sprintf("the phase is %s, and Ready says %s", made.Verdict.Phase, f.Reason))
	}
	return found
}

// ready is what it says of Ready, or of Suspended in its place.
func (s scene) ready(err error) conditions.Finding {
	found := s.says(err)
	if f, stopped := found[v1alpha1.ConditionSuspended]; stopped {
		return f
	}
	return found[v1alpha1.ConditionReady]
}

// waitFor is the wait of a server that is not ready for a reason.
func waitFor(reason string) plan.Wait {
	f := conditions.False(reason, "")
	return plan.Wait{Phase: conditions.PhaseOf(f), Failure: &f}
}

// moves is the condition that shows that a server is not ready for a reason.
func moves(s *snapshot.Snapshot, reason string) string {
	if stalls, _ := waitFor(reason).Stalls(s); stalls {
		return v1alpha1.ConditionStalled
	}
	return v1alpha1.ConditionReconciling
}

// planOf is what a pass over a server does in a world, once the content that it asks for is claimed.
func planOf(server *v1alpha1.MCPServer, w world, release podtemplate.Release) plan.Plan {
	made := planWith(snapshot.Of(server, w, noon), release)
	if made.Phase == plan.Claim || made.Phase == plan.LowerReady {
		server = server.DeepCopy()
		server.Status.Workload = &made.Claim
		made = planWith(snapshot.Of(server, w, noon), release)
	}
	return made
}

// planWith is what a pass does.
func planWith(s *snapshot.Snapshot, release podtemplate.Release) plan.Plan {
	digests, known := render.New(release).Digests(s)
	if !known {
		panic("a configuration is not whole")
	}
	return plan.Make(s, digests, release)
}

// actions are those of a plan of one type, also those of its groups.
func actions[A plan.Action](p plan.Plan) (found []A) {
	var walk func([]plan.Step)
	walk = func(steps []plan.Step) {
		for _, step := range steps {
			if group, is := step.Action.(plan.Objects); is {
				walk(group.Steps)
			}
			if a, is := step.Action.(A); is {
				found = append(found, a)
			}
		}
	}
	walk(p.Steps)
	return found
}

// childrenOf are the objects that a plan applies and that no content is in.
func childrenOf(p plan.Plan) (children []plan.Child) {
	for _, a := range actions[plan.ApplyChild](p) {
		children = append(children, a.Child)
	}
	return children
}

// identityOf is what the runner of a plan acts with.
func identityOf(p plan.Plan) []plan.Child {
	for _, a := range actions[plan.ApplyIdentity](p) {
		return a.Children
	}
	return nil
}

func named(kind, name, hash string) v1alpha1.WorkloadConfig {
	return v1alpha1.WorkloadConfig{Kind: kind, Name: name, Hash: hash}
}

// policyOf is the NetworkPolicy of the backend of a server with this uid.
func policyOf(uid types.UID) *networkingv1.NetworkPolicy {
	return of(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "echo-backend"}}, uid)
}

type edit func(*scene)

// up is a server whose content current has rolled out and is ready.
func up(edits ...edit) scene {
	server := echo()
	server.Finalizers = []string{contract.Finalizer}
	server.Status = v1alpha1.MCPServerStatus{
		ProxyWorkloadStatus: v1alpha1.ProxyWorkloadStatus{
			Workload: &v1alpha1.WorkloadStatus{
				Generation: current.Generation, Hash: current.Hash, BackendHash: digestOf(current).Backend,
			},
			Runtime: &v1alpha1.RuntimeStatus{Generation: current.Generation, ServerUID: "uid"},
			URL:     "http://old",
		},
	}
	said("Ready")(&scene{server: server})
	answered(metav1.ConditionTrue, "Answers", "")(&scene{server: server})
	s := scene{
		server: server,
		world: world{
			Proxy: proxyOf(current), Backend: backendOf(current),
			Pods: []corev1.Pod{
				pod("proxy", workload.ComponentProxy, current),
				pod("backend", workload.ComponentBackend, current),
			},
			Contents: []metav1.PartialObjectMetadata{content(current.Generation, digestOf(current).Backend)},
		},
		digest: digestOf(current),
	}
	for _, e := range edits {
		e(&s)
	}
	return s
}

// digestOf is that of content of rev.
func digestOf(rev revision.Revision) render.Digest {
	return render.Digest{Key: rev.Hash, Hash: rev.Hash, Backend: running(rev)[workload.AnnotationBackendHash], Short: true}
}

// echo is a server as the API server has it, with its defaults.
func echo() *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "echo", UID: "uid", Generation: 5},
		Spec: v1alpha1.MCPServerSpec{
			Image: "registry.example.com/echo:1", Transport: v1alpha1.TransportStreamableHTTP, Port: 8080,
			ProxyWorkloadSpec: v1alpha1.ProxyWorkloadSpec{
				Path:  "/mcp",
				Proxy: &v1alpha1.ProxySpec{Replicas: new(int32(1)), Port: 8000}, ProgressDeadlineSeconds: new(int32(600)),
			}, Replicas: new(int32(1)),
		},
	}
}

// echoInPlace is echo, whose pods new content replaces in place.
func echoInPlace() *v1alpha1.MCPServer {
	server := echo()
	server.Spec.Rollout = &v1alpha1.RolloutSpec{Strategy: v1alpha1.StrategyReplace}
	return server
}

func carrying(rev revision.Revision) map[string]string {
	if rev == (revision.Revision{}) {
		return nil
	}
	return map[string]string{
		revision.AnnotationGeneration: strconv.FormatInt(rev.Generation, 10), revision.AnnotationHash: rev.Hash,
	}
}

// running is what backend pods of content of rev carry.
func running(rev revision.Revision) map[string]string {
	if rev == (revision.Revision{}) {
		return nil
	}
	return map[string]string{workload.AnnotationBackendHash: "backend-" + rev.Hash}
}

func proxyOf(rev revision.Revision) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "echo-proxy", Generation: 4, Annotations: carrying(rev),
			OwnerReferences: ofEcho(), ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: string(contract.MCPServerChildren), Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1",
				FieldsType: "FieldsV1",
				FieldsV1:   metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:serviceAccountName":{}}}}}`),
			}},
		},
		Spec: appsv1.DeploymentSpec{Replicas: new(int32(1)), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: carrying(rev)},
		}},
		Status: appsv1.DeploymentStatus{ObservedGeneration: 4, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1},
	}
}

func backendOf(rev revision.Revision) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "echo-backend", Generation: 2, Annotations: carrying(rev),
			OwnerReferences: ofEcho(),
		},
		Spec: appsv1.StatefulSetSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: running(rev)},
		}},
		Status: appsv1.StatefulSetStatus{
			ObservedGeneration: 2, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, CurrentRevision: "r", UpdateRevision: "r",
		},
	}
}

// pod is one that is ready.
func pod(name, component string, rev revision.Revision) corev1.Pod {
	annotations := carrying(rev)
	if component == workload.ComponentBackend {
		annotations = running(rev)
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, Annotations: annotations, Labels: workload.Labels("echo", component),
		},
		Status: corev1.PodStatus{
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "c", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
}

// waiting makes a pod's container wait with a reason.
func waiting(p corev1.Pod, reason, message string) corev1.Pod {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
		Name: "c", Image: "i", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
		},
	}
	return p
}

// complains is what kubelet says of a pod of the backend, for a minute until noon.
func complains(pod, reason, words string) conditions.Complaint {
	return conditions.Complaint{
		Pod: pod, Component: workload.ComponentBackend, Reason: reason, Words: words,
		First: noon.Add(-time.Minute), Last: noon,
	}
}

func config(rev revision.Revision) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: workload.RunConfigName("echo", rev), Annotations: carrying(rev),
		OwnerReferences: ofEcho(),
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: string(contract.MCPServerChildren), Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{}}`),
		}},
	}}
}

// content is what history keeps of a backend's content of a hash under a number.
func content(generation int64, hash string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: workload.ContentName("echo", hash), OwnerReferences: ofEcho(),
		Annotations: carrying(revision.Revision{Generation: generation, Hash: hash}),
	}}
}

// said makes reason what Ready said last.
func said(reason string) edit {
	return func(s *scene) {
		s.server.Status.Conditions = nil
		status := metav1.ConditionFalse
		if reason == v1alpha1.ReasonReady {
			status = metav1.ConditionTrue
		}
		condition(v1alpha1.ConditionReady, status, reason, "")(s)
	}
}

// first makes this the first content, of which nothing was reported yet.
func first(s *scene) { s.server.Status.URL, s.server.Status.Conditions = "", nil }

func noBackend(s *scene) { s.world.Backend = nil }

func condition(t string, status metav1.ConditionStatus, reason, message string) edit {
	return func(s *scene) {
		s.server.Status.Conditions = append(s.server.Status.Conditions, metav1.Condition{
			Type: t, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(noon),
		})
	}
}

// answered is what the runner says of how MCP answers.
func answered(status metav1.ConditionStatus, reason, message string) edit {
	return func(s *scene) {
		meta.RemoveStatusCondition(&s.server.Status.Conditions, v1alpha1.ConditionBackendAnswers)
		condition(v1alpha1.ConditionBackendAnswers, status, reason, message)(s)
	}
}

func service(rev revision.Revision) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "echo", Annotations: carrying(rev),
		OwnerReferences: ofEcho(),
	}}
}

// ofEcho is what a child of echo says of its owner.
func ofEcho() []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: "MCPServer", Name: "echo", UID: "uid", Controller: new(true)}}
}

// of gives a child to the server of a uid, free to nobody.
func of[O client.Object](child O, uid types.UID) O {
	owners := ofEcho()
	owners[0].UID = uid
	child.SetOwnerReferences(owners)
	return child
}

func free[O client.Object](child O) O {
	child.SetOwnerReferences(nil)
	return child
}

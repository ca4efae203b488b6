package mcpserver

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

var (
	starting    = conditions.False("Starting", "waiting for pods of the proxy and the backend to become ready")
	updating    = conditions.False("Updating", "waiting for pods with the new content to replace the older ones")
	unavailable = conditions.False("Unavailable",
		"the rollout is complete, but no pod of the proxy is ready, or none of the backend")
	scaledDown = conditions.False("ScaledToZero",
		"spec.replicas or spec.proxy.replicas is 0: raise it to start the server again")
	noRunner   = conditions.False("ImagePull", `the image "i" of container "c" cannot be pulled: `+conditions.OfProxy.Pull)
	cannotPull = conditions.False("ImagePull",
		`the image "i" of container "c" cannot be pulled: check its name, and spec.imagePullSecrets if it is private`)
)

// joined adds a pod to the world.
func joined(p corev1.Pod) edit {
	return func(s *scene) { s.world.Pods = append(s.world.Pods, p) }
}

func unpullable(name, component string, rev revision.Revision) corev1.Pod {
	return waiting(pod(name, component, rev), "ImagePullBackOff", "Back-off")
}

// says is what Ready is to say in each scene.
type says map[string]struct {
	scene scene
	want  conditions.Finding
}

func (table says) check(t *testing.T) {
	for name, tc := range table {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.scene.ready(nil)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadyOfWhatIsNotServed(t *testing.T) {
	says{
		"all is up": {up(), isUp},
		"suspended": {
			up(func(s *scene) { s.server.Spec.Suspend = true }),
			conditions.False("Suspended", "spec.suspend is true: set it to false to start the server again"),
		},
		"no backends wanted": {up(func(s *scene) { s.server.Spec.Replicas = new(int32(0)) }), scaledDown},
		"no proxies wanted":  {up(func(s *scene) { s.server.Spec.Proxy.Replicas = new(int32(0)) }), scaledDown},
		"replicas unset":     {up(func(s *scene) { s.server.Spec.Replicas, s.server.Spec.Proxy = nil, nil }), isUp},
		"a protection that is not enforced": {
			up(func(s *scene) { s.digest.NotEnforced = []string{"spec.authzConfig", "spec.oidcConfigRef"} }),
			conditions.False("NotEnforced",
				"spec.authzConfig, spec.oidcConfigRef are set, and this version does not enforce them: calls are refused until "+
					"they are removed"),
		},
	}.check(t)
}

// Never Ready for content that has not rolled out.
func TestReadyWhileContentMoves(t *testing.T) {
	says{
		"not claimed yet":            {up(func(s *scene) { s.server.Status.Workload = nil }), updating},
		"claimed for other content":  {up(func(s *scene) { s.server.Status.Workload.Hash = "other" }), updating},
		"no proxy":                   {up(func(s *scene) { s.world.Proxy = nil }), updating},
		"an older proxy":             {up(func(s *scene) { s.world.Proxy = proxyOf(older) }), updating},
		"a proxy without a revision": {up(func(s *scene) { s.world.Proxy = proxyOf(revision.Revision{}) }), updating},
		"a proxy's spec not seen":    {up(said("Updating"), func(s *scene) { s.world.Proxy.Generation++ }), updating},
		"a proxy pod of older content": {up(func(s *scene) {
			s.world.Proxy.Status.Replicas, s.world.Proxy.Status.AvailableReplicas = 2, 2
		}), updating},
		"no backend":       {up(noBackend), updating},
		"an older backend": {up(func(s *scene) { s.world.Backend = backendOf(older) }), updating},
		"a backend of older content that runs the same": {up(func(s *scene) {
			s.world.Backend.Annotations = carrying(older)
		}), updating},
		"a backend that does not run its content": {up(func(s *scene) {
			s.world.Backend.Spec.Template.Annotations = running(older)
		}), updating},
		"a backend's spec not seen":   {up(said("Updating"), func(s *scene) { s.world.Backend.Generation++ }), updating},
		"a backend between revisions": {up(func(s *scene) { s.world.Backend.Status.UpdateRevision = "s" }), updating},
		"a backend pod of older content": {
			up(said("Updating"), func(s *scene) { s.world.Backend.Status.Replicas = 2 }),
			updating,
		},
		"a runner of older content":      {up(func(s *scene) { s.server.Status.Runtime.Generation = 2 }), updating},
		"a runner that has not reported": {up(func(s *scene) { s.server.Status.Runtime = nil }), updating},
	}.check(t)
}

// What is scaled keeps its content, and Ready.
func TestReadyWhileSomethingIsScaled(t *testing.T) {
	says{
		"a surplus backend that ends": {up(func(s *scene) { s.world.Backend.Status.Replicas = 2 }), isUp},
		"one of new content": {
			up(said("Updating"), func(s *scene) { s.world.Backend.Status.Replicas = 2 }),
			updating,
		},
		"one that ends, of another's content": {
			up(func(s *scene) { s.world.Backend.Status.Replicas, s.world.Backend.Status.UpdateRevision = 2, "s" }), updating,
		},
		"a proxy":   {up(func(s *scene) { s.world.Proxy.Generation++ }), isUp},
		"a backend": {up(func(s *scene) { s.world.Backend.Generation++ }), isUp},
		"to other content": {up(func(s *scene) {
			s.world.Backend = backendOf(older)
			s.world.Backend.Generation++
		}), updating},
	}.check(t)
}

func TestReadyOfFirstAndOfLaterContent(t *testing.T) {
	says{
		"nothing yet": {up(func(s *scene) {
			s.server.Status, s.world = v1alpha1.MCPServerStatus{}, world{}
		}), starting},
		"the first content on its way": {up(first, noBackend), starting},
		"the first content, not ready": {
			up(first, func(s *scene) { s.world.Backend.Status.ReadyReplicas = 0 }),
			starting,
		},
		"the first content, once more": {
			up(said("Starting"), func(s *scene) { s.world.Proxy.Status.AvailableReplicas = 0 }), starting,
		},
		"the first content, that is ready": {up(first, answered(metav1.ConditionTrue, "Answers", "")), isUp},
		"new content, not ready": {
			up(said("Updating"), func(s *scene) { s.world.Proxy.Status.AvailableReplicas = 0 }), updating,
		},
		"started again after a suspension": {
			up(said("Suspended"), func(s *scene) { s.world.Backend.Status.ReadyReplicas = 0 }), updating,
		},
		"still unavailable": {
			up(said("Unavailable"), func(s *scene) { s.world.Proxy.Status.AvailableReplicas = 0 }),
			unavailable,
		},
		"the first content cannot be pulled": {up(first, func(s *scene) {
			s.world.Pods[0] = unpullable("proxy", workload.ComponentProxy, current)
		}, noBackend), noRunner},
	}.check(t)
}

func TestReadySaysWhyNot(t *testing.T) {
	says{
		"no proxy is available": {up(func(s *scene) { s.world.Proxy.Status.AvailableReplicas = 0 }), unavailable},
		"no backend is ready":   {up(func(s *scene) { s.world.Backend.Status.ReadyReplicas = 0 }), unavailable},
		"one of two is ready": {up(func(s *scene) {
			s.world.Backend.Status.Replicas, s.world.Backend.Status.UpdatedReplicas = 2, 2
			s.world.Pods = append(s.world.Pods, unpullable("b2", workload.ComponentBackend, current))
		}), isUp},
		"why none is available": {up(func(s *scene) {
			s.world.Proxy.Status.AvailableReplicas = 0
			s.world.Pods[0] = unpullable("proxy", workload.ComponentProxy, current)
		}), noRunner},
		"why it does not roll out": {up(func(s *scene) {
			s.world.Backend.Status.UpdateRevision = "s"
			s.world.Pods[1] = unpullable("backend", workload.ComponentBackend, current)
		}), cannotPull},
		"why a backend does not run that stays as it is": {up(said("Updating"), func(s *scene) {
			s.world.Backend.Annotations = carrying(older)
			s.world.Pods[1] = unpullable("backend", workload.ComponentBackend, current)
		}), cannotPull},
		"what the runner says": {
			up(noBackend,
				condition("BackendApplied", metav1.ConditionFalse, "Refused", "the server said no")),
			conditions.False("Refused", "the server said no"),
		},
		"a pod's trouble before the runner's": {up(func(s *scene) {
			s.world.Backend = backendOf(older)
			s.world.Pods[0] = unpullable("proxy", workload.ComponentProxy, current)
		}, condition("BackendApplied", metav1.ConditionFalse, "Refused", "")), noRunner},
		"what the runner says of what has rolled out": {
			up(condition("BackendApplied", metav1.ConditionFalse, "NameTaken", "a Service")),
			conditions.False("NameTaken", "a Service"),
		},
		"a runner that stands back": {up(func(s *scene) { s.world.Backend = backendOf(older) },
			condition("BackendApplied", metav1.ConditionFalse, "StandingBack", "")), updating},
		"a runner whose phase says that it stands back": {up(func(s *scene) {
			s.world.Backend, s.server.Status.Runtime.Phase = backendOf(older), v1alpha1.PhaseUpdating
		}, condition("BackendApplied", metav1.ConditionFalse, "ALaterReason", "")), updating},
		"what the runner of an earlier server said": {
			up(func(s *scene) { s.server.Status.Runtime.ServerUID = "another" }),
			updating,
		},
		"what a runner said of other content": {up(func(s *scene) { s.digest.Hash = "other" },
			condition("BackendApplied", metav1.ConditionFalse, "Refused", "")), updating},
	}.check(t)
}

// What the API server refused comes first: it is why nothing moves. That it was
// not there for a moment makes nothing less ready.
func TestReadySaysWhatWasRefused(t *testing.T) {
	put := func(err error) error { return fmt.Errorf("applying Role ns/echo-runner: %w", err) }
	role := schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "roles"}
	forbidden := put(apierrors.NewForbidden(role, "echo-runner", errors.New("no")))
	broken := put(apierrors.NewInternalError(errors.New("etcd")))
	suspended, moving := up(func(s *scene) { s.server.Spec.Suspend = true }), up(said("Updating"))
	failed := func(err error) conditions.Finding { return conditions.False("ApplyFailed", err.Error()) }
	for name, tc := range map[string]struct {
		scene scene
		err   error
		want  conditions.Finding
	}{
		"a refusal":                {up(), forbidden, failed(forbidden)},
		"a refusal beside a fault": {up(), errors.Join(broken, forbidden), failed(errors.Join(broken, forbidden))},
		"a refusal of the intent": {
			up(), put(&apply.BadIntent{Err: errors.New("422")}),
			failed(put(errors.New("422"))),
		},
		"a refusal while suspended":        {suspended, forbidden, failed(forbidden)},
		"a fault":                          {up(), broken, isUp},
		"no connection":                    {up(), put(errors.New("refused")), isUp},
		"too many requests":                {up(), put(apierrors.NewTooManyRequestsError("later")), isUp},
		"a fault while content moves":      {moving, broken, failed(broken)},
		"a fault while it is to be halted": {suspended, broken, failed(broken)},
		"a foreign object": {
			up(), fmt.Errorf("applying Service ns/echo-proxy: %w", apply.ErrForeign),
			conditions.False("NameTaken",
				"applying Service ns/echo-proxy: an object of this name exists that is not controlled by the same owner: delete "+
					"or rename that object, give this server another name, "+
					"or annotate the object with freehold.dev/adopt=true to hand it over"),
		},
		"one that was handed over": {
			up(),
			fmt.Errorf("applying Service ns/echo-proxy: %w", &apply.Unadoptable{Err: errors.New("no")}),
			conditions.False("NotAdoptable",
				"applying Service ns/echo-proxy: an object of this name was handed over, but cannot be taken over: no: Freehold "+
					"left it as it is; delete or rename it, or give this server another name"),
		},
	} {
		if diff := cmp.Diff(tc.want, tc.scene.ready(tc.err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestTrouble(t *testing.T) {
	missing := `MountVolume.SetUp failed for volume "v" : configmap "c" not found`
	needs := conditions.False("MissingReference",
		`volume "v": configmap "c" not found: create it, or correct spec.volumes`)
	creating := func(name string) corev1.Pod {
		return waiting(pod(name, workload.ComponentBackend, current), "ContainerCreating", "")
	}
	for name, tc := range map[string]struct {
		world world
		want  *conditions.Finding
	}{
		"none":    {up().world, nil},
		"no pods": {world{}, nil},
		"a pod's": {
			world{Pods: []corev1.Pod{
				pod("a", workload.ComponentBackend, current),
				unpullable("b", workload.ComponentBackend, current),
			}}, &cannotPull,
		},
		"a pod's of older revision": {world{Pods: []corev1.Pod{unpullable("a", workload.ComponentBackend, older)}}, nil},
		"a pod's without revision": {
			world{Pods: []corev1.Pod{unpullable("a", workload.ComponentBackend, revision.Revision{})}}, nil,
		},
		"a pod's that is going": {world{Pods: []corev1.Pod{func() corev1.Pod {
			p := unpullable("a", workload.ComponentBackend, current)
			p.DeletionTimestamp = &metav1.Time{}
			return p
		}()}}, nil},
		"a pod's that was evicted": {world{Pods: []corev1.Pod{func() corev1.Pod {
			p := pod("a", workload.ComponentProxy, current)
			p.Status.Phase = corev1.PodFailed
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
				Name:  "c",
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}},
			}
			return p
		}()}}, nil},
		"a mount's": {
			world{Pods: []corev1.Pod{creating("a")}, Complaints: []conditions.Complaint{complains("a", "FailedMount", missing)}},
			&needs,
		},
		"an old mount's": {
			world{
				Pods:       []corev1.Pod{pod("a", workload.ComponentBackend, current)},
				Complaints: []conditions.Complaint{complains("a", "FailedMount", missing)},
			}, nil,
		},
		"a mount's of another pod": {
			world{Pods: []corev1.Pod{creating("a")}, Complaints: []conditions.Complaint{complains("b", "FailedMount", missing)}},
			nil,
		},
		"a mount's of older content": {
			world{
				Pods:       []corev1.Pod{waiting(pod("a", workload.ComponentBackend, older), "ContainerCreating", "")},
				Complaints: []conditions.Complaint{complains("a", "FailedMount", missing)},
			}, nil,
		},
		"the pod's before the mount's": {
			world{
				Pods:       []corev1.Pod{unpullable("a", workload.ComponentBackend, current)},
				Complaints: []conditions.Complaint{complains("a", "FailedMount", missing)},
			}, &cannotPull,
		},
		"a mount that was mended: the container runs": {world{
			Pods:       []corev1.Pod{unready(pod("a", workload.ComponentBackend, current))},
			Complaints: []conditions.Complaint{complains("a", "FailedMount", missing)},
		}, nil},
		"pods that are refused": {
			world{Proxy: failing(current, corev1.ConditionTrue)},
			&conditions.Finding{
				Status: "False", Reason: "PodRefused",
				Message: "the API server refuses the pod: it is forbidden: no",
			},
		},
		"backend pods that are refused": {
			world{Backend: backendOf(current)},
			&conditions.Finding{
				Status: "False", Reason: "PodRefused",
				Message: "the API server refuses the pod: it is forbidden: no",
			},
		},
		"backend pods of older content":           {world{Backend: backendOf(older)}, nil},
		"pods that were refused":                  {world{Proxy: failing(current, corev1.ConditionFalse)}, nil},
		"pods of older content that were refused": {world{Proxy: failing(older, corev1.ConditionTrue)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := snapshot.Of(echo(), tc.world, noon)
			if strings.HasPrefix(name, "backend pods") {
				s.Slots[s.Active].Refused.Words = `create Pod b-0 in StatefulSet b failed error: pods "b-0" is forbidden: no`
			}
			if diff := cmp.Diff(tc.want, s.FirstFailure(wanted(s))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// unready runs, and does not answer its probe.
func unready(p corev1.Pod) corev1.Pod {
	p.Status.Conditions[0].Status = corev1.ConditionFalse
	p.Status.ContainerStatuses[0].Ready = false
	return p
}

func failing(rev revision.Revision, status corev1.ConditionStatus) *appsv1.Deployment {
	d := proxyOf(rev)
	d.Status.Conditions = []appsv1.DeploymentCondition{{
		Type: appsv1.DeploymentReplicaFailure, Status: status, Message: `pods "echo-proxy-abc" is forbidden: no`,
	}}
	return d
}

// Accepted is always stated. What kstatus reads, Reconciling and Stalled, is there only while true, and never both.
func TestFindings(t *testing.T) {
	states{
		"ready":  {up(), nil, "Accepted=True Ready=True"},
		"moving": {up(func(s *scene) { s.world.Proxy = nil }), nil, "Accepted=True Ready=False Reconciling=True"},
		"failed": {up(), &apply.BadIntent{Err: errors.New("no")}, "Accepted=True Ready=False Reconciling=True"},
		"refused": {
			up(func(s *scene) { s.digest.Problems = []podtemplate.Problem{{Field: "spec.podTemplate", Message: "no"}} }), nil,
			"Accepted=False Ready=False Stalled=True",
		},
		"a name that is taken": {up(), apply.ErrForeign, "Accepted=True Ready=False Stalled=True"},
		"a stranger in the pods": {up(func(s *scene) {
			s.world.Proxy.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: "mcpserver.freehold.dev/children", Operation: "Apply",
				FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
			}}
			s.world.Proxy.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar"}}
		}), nil, "Accepted=True ForeignPodContent=True Ready=True"},
	}.check(t)
}

// A server that has stopped has got what it asks for, and then Ready is not stated:
// kstatus would take a False for the way there.
func TestFindingsOfWhatStops(t *testing.T) {
	states{
		"stopping": {up(suspended), nil, "Accepted=True Ready=False Reconciling=True"},
		"stopped":  {up(suspended, gone), nil, "Accepted=True Suspended=True"},
		"stopped, with an evicted pod": {up(suspended, gone, joined(func() corev1.Pod {
			p := pod("proxy", workload.ComponentProxy, current)
			p.Status.Phase = corev1.PodFailed
			return p
		}())), nil, "Accepted=True Suspended=True"},
		"a pod that ends": {
			up(suspended, gone, joined(pod("b", workload.ComponentBackend, current))), nil,
			"Accepted=True Ready=False Reconciling=True",
		},
		"stopped, for other content": {
			up(suspended, gone, func(s *scene) { s.digest.Hash = "other" }), nil,
			"Accepted=True Ready=False Reconciling=True",
		},
		"stopped, and refused": {
			up(suspended, gone), &apply.BadIntent{Err: errors.New("no")},
			"Accepted=True Ready=False Reconciling=True",
		},
		"stopped, and wrong": {
			up(suspended, gone, func(s *scene) {
				s.digest.Problems = []podtemplate.Problem{{Field: "spec.podTemplate", Message: "no"}}
			}), nil,
			"Accepted=False Ready=False Stalled=True",
		},
		"no backends": {up(wants(0), gone), nil, "Accepted=True Suspended=True"},
		"no proxies": {up(func(s *scene) {
			s.server.Spec.Proxy.Replicas, s.world.Proxy.Spec.Replicas = new(int32(0)), new(int32(0))
			s.world.Proxy.Status, s.world.Pods = appsv1.DeploymentStatus{ObservedGeneration: 4}, s.world.Pods[1:]
		}), nil, "Accepted=True Suspended=True"},
	}.check(t)
}

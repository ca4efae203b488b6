package conditions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func waits(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: code, Reason: reason,
		Message: message,
	}}
}

var runs = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

// one is a pod of one container.
func one(status corev1.ContainerStatus) *corev1.Pod {
	status.Name, status.Image = "server", "registry.example.com/a:1"
	return &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{status}}}
}

// after is a pod whose init container has this status; its own waits.
func after(status corev1.ContainerStatus) *corev1.Pod {
	pod := one(corev1.ContainerStatus{State: waits("PodInitializing", "")})
	status.Name, status.Image = "init", "registry.example.com/init:1"
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{status}
	return pod
}

const (
	pull = `the image "registry.example.com/a:1" of container "server" cannot be pulled: check its name, and spec.imagePullSecrets if it is private`
	root = `the image of container "server" runs as root or under a user that is not a number, and may not by default: ` +
		`set spec.podTemplate.spec.securityContext.runAsUser to the number of another user, use an image that names one, or allow root with runAsNonRoot: false there`
)

// finds is what is found in each pod; nothing, where no reason is given.
type finds map[string]struct {
	pod             *corev1.Pod
	reason, message string
}

func (table finds) check(t *testing.T) {
	for name, tc := range table {
		t.Run(name, func(t *testing.T) {
			var want *Finding
			if tc.reason != "" {
				want = new(False(tc.reason, tc.message))
			}
			if diff := cmp.Diff(want, PodTrouble(tc.pod, nil, OfBackend)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPodThatWaits(t *testing.T) {
	finds{
		"a new pod":             {&corev1.Pod{}, "", ""},
		"a pod that runs":       {one(corev1.ContainerStatus{State: runs, Ready: true}), "", ""},
		"a pod that starts":     {one(corev1.ContainerStatus{State: runs}), "", ""},
		"a pod that is created": {one(corev1.ContainerStatus{State: waits("ContainerCreating", "")}), "", ""},
		"a pod that ran before": {one(
			corev1.ContainerStatus{State: runs, Ready: true, LastTerminationState: ended(1, "Error", "x")}), "", ""},
		"a pod that initialises":   {after(corev1.ContainerStatus{State: runs}), "", ""},
		"a pod that is scheduled":  {scheduled(corev1.ConditionTrue, "", ""), "", ""},
		"a pod that waits for one": {scheduled(corev1.ConditionFalse, "Later", "later"), "", ""},
		"a pod with scheduling gates": {
			gated("kueue.x-k8s.io/admission", "example.com/quota"), "SchedulingGated",
			"the pod is not scheduled while it has scheduling gates (kueue.x-k8s.io/admission, example.com/quota): whoever " +
				"adds a gate removes it; " +
				"see spec.podTemplate.spec.schedulingGates, and what sets gates on pods of this namespace",
		},
		"a pod with readiness gates": {
			readinessGated("ReadinessGatesNotReady",
				`corresponding condition of pod readiness gate "target-health.elbv2.k8s.aws/echo" does not exist.`),
			"ReadinessGatesNotReady",
			`all containers of the pod are ready, and the pod is not: corresponding condition of pod readiness gate "target-health.elbv2.k8s.aws/echo" does not exist.: ` +
				"whoever sets that condition on pods has not; see spec.podTemplate.spec.readinessGates",
		},
		"a pod whose containers are not ready": {
			readinessGated("ContainersNotReady", "containers with unready status: [server]"), "", "",
		},
		"a pod that no node takes": {
			scheduled(corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available: 3 Insufficient cpu."),
			"Unschedulable", "no node takes the pod: Insufficient cpu.",
		},
		"a pod that no node takes, by preemption either": {
			scheduled(corev1.ConditionFalse, "Unschedulable",
				"0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. "+
					"no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."),
			"Unschedulable", "no node takes the pod: node(s) had untolerated taint(s), Insufficient cpu.",
		},

		"a claim that is not there": {
			scheduled(corev1.ConditionFalse, "Unschedulable",
				`0/1 nodes are available: persistentvolumeclaim "absent" not found. not found`),
			"MissingReference",
			`no node takes the pod: the PersistentVolumeClaim "absent" does not exist: create it, or correct spec.volumes`,
		},
		"a claim without a volume": {
			scheduled(corev1.ConditionFalse, "Unschedulable",
				"0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found"),
			"Unschedulable", "no node takes the pod: a PersistentVolumeClaim of it has no volume: kubectl describe " +
				"persistentvolumeclaims says why; " +
				"often its StorageClass does not exist, or the namespace has no default one",
		},
		"a claim whose volume does not come": {
			scheduled(corev1.ConditionFalse, "SchedulerError",
				`running PreBind plugin "VolumeBinding": binding volumes: context deadline exceeded`),
			"Unschedulable", "no node takes the pod: a PersistentVolumeClaim of it gets no volume (binding volumes: context " +
				"deadline exceeded): kubectl describe persistentvolumeclaims says why; often the provisioner of its " +
				"StorageClass does not run",
		},
		"a scheduler that fails": {
			scheduled(corev1.ConditionFalse, "SchedulerError", `running Bind plugin "DefaultBinder": no`),
			"Unschedulable", `the scheduler cannot bind the pod to a node: running Bind plugin "DefaultBinder": no`,
		},
	}.check(t)
}

func TestAContainerThatWaits(t *testing.T) {
	finds{
		"an image that is not there": {
			one(corev1.ContainerStatus{State: waits("ErrImagePull", "rpc error: 17:03:11 not found")}), "ImagePull", pull,
		},
		"the same, a moment later": {
			one(corev1.ContainerStatus{State: waits("ImagePullBackOff", "Back-off pulling image")}), "ImagePull", pull,
		},
		"an image that is never pulled": {
			one(corev1.ContainerStatus{State: waits("ErrImageNeverPull", "")}), "ImagePull",
			pull,
		},
		"an image name that is none": {one(corev1.ContainerStatus{State: waits("InvalidImageName", "")}), "ImagePull", pull},
		"an image of an init container": {
			after(corev1.ContainerStatus{State: waits("ImagePullBackOff", "")}), "ImagePull",
			strings.NewReplacer("a:1", "init:1", `"server"`, `"init"`).Replace(pull),
		},

		"an image that is root": {
			one(corev1.ContainerStatus{State: waits("CreateContainerConfigError",
				"container has runAsNonRoot and image will run as root (pod: \"echo-backend-0_ns(1f)\", container: server)")}),
			"MustRunAsRoot", root,
		},
		"an image whose user is a name": {
			one(corev1.ContainerStatus{State: waits("CreateContainerConfigError",
				"container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root")}),
			"MustRunAsRoot", root,
		},
		"a Secret that is missing": {
			one(corev1.ContainerStatus{State: waits("CreateContainerConfigError", `secret "s" not found`)}),
			"MissingReference", `container "server": secret "s" not found: create it, or correct spec.env or spec.envFrom`,
		},
		"a key that is missing": {
			one(corev1.ContainerStatus{State: waits("CreateContainerConfigError", "couldn't find key k in ConfigMap ns/c")}),
			"MissingReference",
			`container "server": couldn't find key k in ConfigMap ns/c: create it, or correct spec.env or spec.envFrom`,
		},
		"a container that cannot be made": {
			one(corev1.ContainerStatus{State: waits("CreateContainerError", "no command specified")}),
			"CrashLoop", `container "server" cannot be created: no command specified`,
		},
		"a container that cannot be made, by an id of each attempt": {
			one(corev1.ContainerStatus{State: waits("CreateContainerError",
				`failed to generate container "`+strings.Repeat("0f", 32)+`" spec: no`)}),
			"CrashLoop", `container "server" cannot be created: failed to generate container "ID" spec: no`,
		},
		"a runtime without volumes of images": {
			one(corev1.ContainerStatus{State: waits("CreateContainerError",
				`failed to generate container "`+strings.Repeat("0f", 32)+
					`" spec: failed to generate spec: failed to mkdir "": mkdir : no such file or directory`)}),
			"VolumeNotMounted",
			`container "server" cannot be created: the container runtime of the pod's node knows no volumes of images: use another volume in spec.volumes, or a newer runtime`,
		},
	}.check(t)
}

// A person is sent to where the pod comes from.
func TestAProxyPodIsCuredElsewhere(t *testing.T) {
	for name, tc := range map[string]struct{ reason, message, cure string }{
		"an image": {"ImagePullBackOff", "", "runner.imagePullSecrets"},
		"a user": {
			"CreateContainerConfigError", "container has runAsNonRoot and image will run as root",
			"spec.proxy.podTemplate.spec.securityContext.runAsUser",
		},
		"a missing": {"CreateContainerConfigError", `secret "s" not found`, "correct spec.proxy.podTemplate"},
	} {
		f := PodTrouble(one(corev1.ContainerStatus{State: waits(tc.reason, tc.message)}), nil, OfProxy)
		if f == nil || !strings.Contains(f.Message, tc.cure) {
			t.Errorf("%s: found %+v, want %q in it", name, f, tc.cure)
		}
	}
}

func TestAPodThatEnds(t *testing.T) {
	finds{
		"a crash": {
			one(corev1.ContainerStatus{State: ended(1, "Error", "no database\n")}), "CrashLoop",
			`container "server" ends with exit code 1: no database`,
		},
		"a crash without words": {
			one(corev1.ContainerStatus{State: ended(2, "Error", "")}), "CrashLoop",
			`container "server" ends with exit code 2`,
		},
		"a crash of an init container": {
			after(corev1.ContainerStatus{State: ended(1, "Error", "x")}), "CrashLoop",
			`container "init" ends with exit code 1: x`,
		},
		"out of memory": {
			one(corev1.ContainerStatus{State: ended(137, "OOMKilled", "")}), "CrashLoop",
			`container "server" ran out of memory: raise its memory limit`,
		},
		"a program that cannot be started": {
			one(corev1.ContainerStatus{
				State:                waits("CrashLoopBackOff", "back-off 10s"),
				LastTerminationState: ended(128, "StartError", "exec: no such file"),
			}),
			"CrashLoop", `container "server" ends with exit code 128: exec: no such file`,
		},
		"an init container that is done": {
			after(corev1.ContainerStatus{State: ended(0, "Completed", ""), Ready: true}), "",
			"",
		},
		"the same, not marked ready": {after(corev1.ContainerStatus{State: ended(0, "Completed", "")}), "", ""},
		"an init container that runs anew": {
			after(corev1.ContainerStatus{State: runs, LastTerminationState: ended(0, "Completed", "")}), "", "",
		},
		"an init container that waits to": {
			after(corev1.ContainerStatus{State: waits("PodInitializing", ""), LastTerminationState: ended(0, "Completed", "")}),
			"", "",
		},
		"whose image is gone by then": {
			after(corev1.ContainerStatus{State: waits("ImagePullBackOff", ""), LastTerminationState: ended(0, "Completed", "")}),
			"ImagePull", strings.NewReplacer("a:1", "init:1", `"server"`, `"init"`).Replace(pull),
		},
		"an init container before a crash": {
			initialised(one(corev1.ContainerStatus{State: ended(1, "Error", "x")})),
			"CrashLoop", `container "server" ends with exit code 1: x`,
		},
		"no node comes before what came last": {
			unschedulable(one(corev1.ContainerStatus{State: ended(1, "Error", "x")})),
			"Unschedulable", "no node takes the pod: none",
		},
	}.check(t)
}

func scheduled(status corev1.ConditionStatus, reason, message string) *corev1.Pod {
	return &corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: status, Reason: reason, Message: message},
	}}}
}

func gated(gates ...string) *corev1.Pod {
	pod := scheduled(corev1.ConditionFalse, "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
	for _, name := range gates {
		pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: name})
	}
	return pod
}

func readinessGated(reason, message string) *corev1.Pod {
	pod := one(corev1.ContainerStatus{State: runs, Ready: true})
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: reason, Message: message},
	}
	return pod
}

func unschedulable(pod *corev1.Pod) *corev1.Pod {
	pod.Status.Conditions = scheduled(corev1.ConditionFalse, "Unschedulable", "none").Status.Conditions
	return pod
}

func initialised(pod *corev1.Pod) *corev1.Pod {
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "init", State: ended(0, "Completed", ""), Ready: true},
	}
	return pod
}

// A container that ends again and again passes through these states for ever.
// Each change of the finding would be a write and an event. A program that
// ends in peace is no server either.
func TestACrashLoopIsOneFinding(t *testing.T) {
	for _, code := range []int32{0, 1, 143} {
		end := ended(code, "Completed", "bye")
		want := False("CrashLoop", fmt.Sprintf(`container "server" ends with exit code %d: bye`, code))
		for name, status := range map[string]corev1.ContainerStatus{
			"it ends for the first time": {State: end},
			"it waits": {
				State:                waits("CrashLoopBackOff", "back-off 10s restarting"),
				LastTerminationState: end,
			},
			"it waits longer":   {State: waits("CrashLoopBackOff", "back-off 5m0s restarting"), LastTerminationState: end},
			"it runs once more": {State: runs, LastTerminationState: end},
			"it ends once more": {State: end, LastTerminationState: end},
		} {
			if diff := cmp.Diff(&want, PodTrouble(one(status), nil, OfBackend)); diff != "" {
				t.Errorf("exit code %d, %s (-want +got):\n%s", code, name, diff)
			}
		}
	}
}

// Why a container ended last stays in its status for ever. It is not why the container
// is not ready now, if it was since.
func TestACrashBeforeTheContainerWasReadyIsNoNews(t *testing.T) {
	started := time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)
	for after, crashed := range map[time.Duration]bool{
		-time.Hour: true, 0: true, time.Second: false,
		72 * time.Hour: false,
	} {
		status := corev1.ContainerStatus{State: runs, LastTerminationState: ended(137, "OOMKilled", "")}
		status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}
		pod := one(status)
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(started.Add(after))},
		}
		if got := PodTrouble(pod, nil, OfBackend); (got != nil) != crashed {
			t.Errorf("not ready %s after it started again: %v, want a crash %t", after, got, crashed)
		}
		pod.Status.ContainerStatuses[0].State = waits("CrashLoopBackOff", "")
		if PodTrouble(pod, nil, OfBackend) == nil {
			t.Errorf("not ready %s after it started, and ended: no crash is found", after)
		}
	}
}

func TestLastWordsAreTheEndFromALine(t *testing.T) {
	line := strings.Repeat("a", 300)
	for name, tc := range map[string]struct{ message, want string }{
		"nothing":                 {"", ""},
		"white space":             {" \n\t", ""},
		"a line":                  {"panic: no\n", "panic: no"},
		"lines":                   {"a\nb\n", "a\nb"},
		"as long as may be":       {strings.Repeat("a", 512), strings.Repeat("a", 512)},
		"the last whole lines":    {line + "\n" + line + "\nlast", line + "\nlast"},
		"one line that is longer": {strings.Repeat("b", 600), strings.Repeat("b", 512)},
	} {
		if got := tail(tc.message); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// The bridge's image is the runner's, and its registry not the one of spec.image.
func TestTheBridgesImageHasACureOfItsOwn(t *testing.T) {
	pod := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{
		Name: "bridge", Image: "runner:1",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}},
	}}}}
	if f := PodTrouble(pod, nil, OfBackend); f == nil || !strings.Contains(f.Message, "it is the runner's: ") {
		t.Errorf("got %v", f)
	}
}

// A program that may not write a file says so in the words of its runtime, in which others speak of other things.
func TestWhoCannotWriteIsToldHow(t *testing.T) {
	for words, want := range map[string]bool{
		"Error: EACCES: permission denied, mkdir '/.npm'":                            true,
		"npm error code EACCES\nnpm error path /.npm":                                true,
		"Error: EROFS: read-only file system, open '/app/state.json'":                true,
		"PermissionError: [Errno 13] Permission denied: '/.cache'":                   true,
		"OSError: [Errno 30] Read-only file system: '/opt/app'":                      true,
		"started\nopen /.config/a: permission denied\nexit status 1":                 true,
		"Error: listen EACCES: permission denied 0.0.0.0:80":                         false,
		"listen tcp :80: bind: permission denied":                                    false,
		"exec /usr/bin/server: permission denied":                                    false,
		"pq: permission denied for table notes":                                      false,
		"no database":                                                                false,
		"the user is not permitted: 403":                                             false,
		"listening at 8080\nError: EACCES: permission denied, mkdir '/.npm', exit 1": true,
	} {
		pod := one(corev1.ContainerStatus{State: ended(1, "Error", words)})
		for name, cures := range map[string]Cures{"backend": OfBackend, "proxy": OfProxy} {
			f := PodTrouble(pod, nil, cures)
			if told := strings.Contains(f.Message, "have HOME"); told != (want && name == "backend") {
				t.Errorf("%s: told is %t\n%s", name, told, f.Message)
			}
		}
	}
}

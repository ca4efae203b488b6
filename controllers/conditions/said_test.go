package conditions

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var noon = time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)

// complains is a complaint about the pod of one, of a minute before noon.
func complains(reason, message string) Complaint {
	return Complaint{Reason: reason, Words: Plain(message), First: noon.Add(-time.Minute), Last: noon}
}

func (c Complaint) once() Complaint {
	c.First = c.Last
	return c
}

func (c Complaint) about(container string) Complaint {
	c.Container = container
	return c
}

// creating is a pod no container of which has run.
func creating() *corev1.Pod {
	return one(corev1.ContainerStatus{State: waits("ContainerCreating", "")})
}

const sandbox = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: "

// start is what is said of a pod that does not start, and what it means, nothing without a reason.
type start struct {
	said            []Complaint
	reason, message string
}

func mount(message string) []Complaint { return []Complaint{complains("FailedMount", message)} }

// The words are those of Kubernetes 1.36, and of containerd and CRI-O.
var (
	volumes = map[string]start{
		"nothing is said": {nil, "", ""},
		"a Secret": {
			mount(`MountVolume.SetUp failed for volume "cert" : secret "tls" not found`),
			"MissingReference", `volume "cert": secret "tls" not found: create it, or correct spec.volumes`,
		},
		"a ConfigMap": {
			mount("MountVolume.SetUp failed for volume \"conf\" : configmap \"c\" not found\n"),
			"MissingReference", `volume "conf": configmap "c" not found: create it, or correct spec.volumes`,
		},
		"a key": {
			mount(`MountVolume.SetUp failed for volume "conf" : references non-existent config key: k`),
			"MissingReference", `volume "conf": references non-existent config key: k: create it, or correct spec.volumes`,
		},
		"a key of a ConfigMap": {
			mount(`MountVolume.SetUp failed for volume "conf" : configmap references non-existent config key: k`),
			"MissingReference",
			`volume "conf": configmap references non-existent config key: k: create it, or correct spec.volumes`,
		},
		"a CSI driver": {
			mount(
				`MountVolume.SetUp failed for volume "v" : kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name secrets-store.csi.k8s.io not found in the list of registered CSI drivers`),
			"VolumeNotMounted",
			`volume "v": the CSI driver secrets-store.csi.k8s.io is not registered on the pod's node: install it there, or correct spec.volumes`,
		},
		"NFS": {
			mount("MountVolume.SetUp failed for volume \"data\" : mount failed: exit status 32\nMounting command: mount\n" +
				"Mounting arguments: -t nfs 10.0.0.9:/data " +
				"/var/lib/kubelet/pods/5e9f2f0c-1111-2222-3333-444455556666/volumes/kubernetes.io~nfs/data\nOutput: mount.nfs: " +
				"Connection timed out"),
			"VolumeNotMounted", `volume "data" cannot be mounted: mount failed: exit status 32 Mounting command: mount ` +
				`Mounting arguments: -t nfs 10.0.0.9:/data /var/lib/kubelet/pods/UID/volumes/kubernetes.io~nfs/data Output: mount.nfs: Connection timed out`,
		},
		"a volume of one node": {
			[]Complaint{complains("FailedAttachVolume",
				`Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) other-0`).once()},
			"VolumeNotMounted",
			`volume "pvc-1" is attached to another node, and can be to one at a time only: Volume is already used by pod(s) other-0: ` +
				`end the pod that uses it there, or use a claim that several nodes may mount (ReadWriteMany)`,
		},
		"a disk that cannot be attached": {
			[]Complaint{complains("FailedAttachVolume",
				`AttachVolume.Attach failed for volume "pvc-1" : rpc error: code = NotFound desc = no such disk`).once()},
			"VolumeNotMounted", `volume "pvc-1" cannot be mounted: rpc error: code = NotFound desc = no such disk`,
		},
		"a folder of the node that is not there": {
			[]Complaint{complains("FailedMount",
				`MountVolume.NewMounter initialization failed for volume "local-pv" : path "/nowhere" does not exist`).once()},
			"VolumeNotMounted", `volume "local-pv" cannot be mounted: path "/nowhere" does not exist`,
		},
		"a program that the node lacks": {
			[]Complaint{complains("FailedMount",
				`MountVolume.WaitForAttach failed for volume "v" : executable file not found in $PATH`).once()},
			"VolumeNotMounted", `volume "v" cannot be mounted: executable file not found in $PATH`,
		},
		"a device that is a folder": {
			mount("Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process " +
				"volumes=[v]: volume v has volumeMode Filesystem, but is specified in volumeDevices"),
			"VolumeNotMounted", "kubelet cannot mount a volume of the pod: Unable to attach or mount volumes: unmounted " +
				"volumes=[v], unattached volumes=[], " +
				"failed to process volumes=[v]: volume v has volumeMode Filesystem, but is specified in volumeDevices",
		},
		"a token whose pod the API server does not know yet": {
			[]Complaint{complains("FailedMount",
				`MountVolume.SetUp failed for volume "runner-token" : failed to fetch token: serviceaccounts "x-runner" is forbidden: User "system:node:n" cannot create `+
					`resource "serviceaccounts/token" in API group "" in the namespace "ns": no relationship found between node 'n' and this object`).once()},
			"", "",
		},
		"what kubelet says in the end": {
			mount("Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process " +
				"volumes=[]: context deadline exceeded"),
			"VolumeNotMounted", "kubelet cannot mount a volume of the pod: Unable to attach or mount volumes: unmounted " +
				"volumes=[data], unattached volumes=[], failed to process volumes=[]: context deadline exceeded",
		},
		"the cause comes before that": {
			append(mount("Unable to attach or mount volumes: unmounted volumes=[cert]"),
				complains("FailedMount", `MountVolume.SetUp failed for volume "cert" : secret "tls" not found`)),
			"MissingReference", `volume "cert": secret "tls" not found: create it, or correct spec.volumes`,
		},
		"a cache that is on its way": {
			[]Complaint{complains("FailedMount",
				`MountVolume.SetUp failed for volume "v" : failed to sync configmap cache: timed out waiting for the condition`).
				once()}, "", "",
		},
	}
	others = map[string]start{
		"a RuntimeClass, in containerd's words": {
			[]Complaint{complains("FailedCreatePodSandBox", sandbox+`no runtime for "nohandler" is configured`).once()},
			"PodNotStarted", "the pod's node has no runtime for the handler nohandler, which the pod's RuntimeClass names: " +
				"correct spec.podTemplate.spec.runtimeClassName, or configure the runtime of the node",
		},
		"a RuntimeClass, in CRI-O's words": {
			[]Complaint{complains("FailedCreatePodSandBox",
				"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find runtime handler nohandler from "+
					"runtime list map[crun:0x1]").once()},
			"PodNotStarted", "the pod's node has no runtime for the handler nohandler, which the pod's RuntimeClass names: " +
				"correct spec.podTemplate.spec.runtimeClassName, or configure the runtime of the node",
		},
		"a network that does not come": {
			[]Complaint{complains("FailedCreatePodSandBox",
				`Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "`+
					strings.Repeat("0f", 32)+`": plugin type="x" failed (add): no addresses`)},
			"PodNotStarted",
			`kubelet does not start the pod: FailedCreatePodSandBox: Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "ID": plugin type="x" failed (add): no addresses`,
		},
		"the same in passing": {
			[]Complaint{complains("FailedCreatePodSandBox", "Failed to create pod sandbox: no").once()},
			"", "",
		},
		"what nobody knows": {
			[]Complaint{complains("Unheard", "no pods on Fridays")},
			"PodNotStarted",
			"kubelet does not start the pod: Unheard: no pods on Fridays",
		},
		"what keeps none back": {[]Complaint{complains("DNSConfigForming", "Search Line limits were exceeded")}, "", ""},
		"what was said before": {
			[]Complaint{{
				Reason: "FailedMount", Words: `MountVolume.SetUp failed for volume "a" : secret "s" not found`,
				First: noon.Add(-time.Hour), Last: noon.Add(-4 * time.Minute),
			}, complains("Unheard", "no")},
			"PodNotStarted", "kubelet does not start the pod: Unheard: no",
		},
		"another pod's": {[]Complaint{
			{Pod: "another", Reason: "Unheard", Words: "no", First: noon.Add(-time.Hour), Last: noon},
		}, "", ""},
		"an earlier pod's": {[]Complaint{
			{UID: "earlier", Reason: "Unheard", Words: "no", First: noon.Add(-time.Hour), Last: noon},
		}, "", ""},
	}
)

func TestWhyAPodDoesNotStart(t *testing.T) {
	all := maps.Clone(volumes)
	maps.Copy(all, others)
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			var want *Finding
			if tc.reason != "" {
				want = new(False(tc.reason, tc.message))
			}
			for range 2 { // whatever is listed first
				if diff := cmp.Diff(want, PodTrouble(creating(), tc.said, OfBackend)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				tc.said = append([]Complaint{}, tc.said...)
				for i, j := 0, len(tc.said)-1; i < j; i, j = i+1, j-1 {
					tc.said[i], tc.said[j] = tc.said[j], tc.said[i]
				}
			}
			if f := PodTrouble(one(corev1.ContainerStatus{State: runs}), tc.said, OfBackend); f != nil {
				t.Errorf("of a pod that runs it says %v", f)
			}
		})
	}
	said := []Complaint{complains("FailedMount",
		`MountVolume.SetUp failed for volume "login" : [configmap "c" not found, secret "s" not found]`)}
	if want, got := False("MissingReference",
		`volume "login": [configmap "c" not found, secret "s" not found]: create it, or correct spec.oidc of the MCPOIDCConfig`), PodTrouble(creating(), said, OfProxy); got == nil || *got != want {
		t.Errorf("of a proxy: %v, want %v", got, want)
	}
}

// Kubelet says of a container that it cannot pull the image of a volume.
func TestAnImageVolumeIsNamed(t *testing.T) {
	const reference = "freehold.dev/no-such-model:1"
	volume := `the image "freehold.dev/no-such-model:1" of volume "v", which container "server" mounts, cannot be pulled: check its reference in spec.volumes, and spec.imagePullSecrets if it is private`
	for name, tc := range map[string]struct{ reference, message, want string }{
		"backing off": {
			reference,
			`Back-off pulling image "` + reference + `": ErrImagePull: rpc error: not found`, volume,
		},
		"at once": {
			reference,
			`rpc error: code = NotFound desc = failed to pull and unpack image "` + reference + `": not found`, volume,
		},
		"in full": {
			"model:1", `failed to pull and unpack image "docker.io/library/model:1": not found`,
			strings.Replace(volume, reference, "model:1", 1),
		},
		"the container's":           {reference, `Back-off pulling image "registry.example.com/a:1"`, pull},
		"a part of the container's": {"a:1", `Back-off pulling image "registry.example.com/a:1"`, pull},
		"without words":             {reference, "", pull},
	} {
		pod := one(corev1.ContainerStatus{State: waits("ImagePullBackOff", tc.message)})
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "data"},
			{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: tc.reference}}},
		}
		want := False("ImagePull", tc.want)
		if diff := cmp.Diff(&want, PodTrouble(pod, nil, OfBackend)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A container that kubelet ends says its exit code alone.
func TestAProbeThatKillsIsNamed(t *testing.T) {
	started := noon.Add(-30 * time.Second)
	end := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode:  2,
		StartedAt: metav1.NewTime(started), FinishedAt: metav1.NewTime(noon),
	}}
	exits := `container "server" ends with exit code 2`
	killed := `container "server" is restarted by its livenessProbe: HTTP probe failed with statuscode: 404: correct spec.podTemplate.spec.containers[name=server].livenessProbe`
	liveness := complains("Unhealthy", "Liveness probe failed: HTTP probe failed with statuscode: 404").about("server")
	before := liveness
	before.First, before.Last = started.Add(-time.Hour), started.Add(-10*time.Minute)
	lately := liveness
	lately.First, lately.Last = started.Add(-time.Hour), started.Add(-time.Minute)
	for name, tc := range map[string]struct {
		said Complaint
		want string
	}{
		"it fails":                  {liveness, killed},
		"it failed once":            {liveness.once(), killed},
		"it failed in another run":  {before, exits},
		"it failed in those before": {lately, killed},
		"it failed once before":     {before.once(), exits},
		"another container's":       {complains("Unhealthy", "Liveness probe failed: no").about("sidecar"), exits},
		"readiness kills none":      {complains("Unhealthy", "Readiness probe failed: no").about("server"), exits},
		"it does not start": {
			complains("Unhealthy",
				`Startup probe failed: Get "http://10.244.0.5:8080/healthz": dial tcp 10.244.0.5:8080: connect: connection refused`).about("server"),
			`container "server" is restarted by its startupProbe: Get "http://:8080/healthz": dial tcp :8080: connect: connection refused: correct spec.podTemplate.spec.containers[name=server].startupProbe`,
		},
		"a hook that fails": {
			complains("FailedPostStartHook", "PostStartHook failed").about("server"),
			`container "server" is restarted because its postStart hook fails: correct spec.podTemplate.spec.containers[name=server].lifecycle.postStart`,
		},
		"a probe that cannot be made ends none": {
			complains("Unhealthy",
				`Liveness probe errored and resulted in unknown state: rpc error: code = Unknown desc = failed to exec in container: failed to start exec "`+strings.Repeat("0f", 32)+`": no`).about("server"),
			exits,
		},
	} {
		reason := "ProbeFailed"
		if tc.want == exits || name == "a hook that fails" {
			reason = "CrashLoop"
		}
		for _, status := range []corev1.ContainerStatus{
			{State: waits("CrashLoopBackOff", "back-off"), LastTerminationState: end}, {State: end},
		} {
			want := False(reason, tc.want)
			if diff := cmp.Diff(&want, PodTrouble(one(status), []Complaint{tc.said}, OfBackend)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
	proxys := one(corev1.ContainerStatus{State: end})
	proxys.Status.ContainerStatuses[0].Name = "proxy"
	if f := PodTrouble(proxys, []Complaint{liveness.about("proxy")}, OfProxy); f == nil ||
		f.Message != `container "proxy" is restarted by its livenessProbe: HTTP probe failed with statuscode: 404` {
		t.Errorf("of the proxy it says %v", f)
	}
}

// Why a pod that runs is not ready is known only where kubelet has said it for a while.
func TestWhatIsSaidOfReadiness(t *testing.T) {
	refused := complains("Unhealthy", "Readiness probe failed: dial tcp 10.244.0.5:8080: connect: connection refused").
		about("server")
	cures := OfBackend
	cures.Port = 8080
	for name, tc := range map[string]struct {
		status corev1.ContainerStatus
		said   Complaint
		want   string
	}{
		"it does not listen": {
			corev1.ContainerStatus{State: runs},
			refused,
			`container "server" takes no connection at port 8080 (connect: connection refused): a pod of the backend is ready once its image listens on spec.port, on all addresses`,
		},
		"another port of a probe": {
			corev1.ContainerStatus{State: runs},
			complains("Unhealthy", "Readiness probe failed: dial tcp 10.244.0.5:9000: connect: connection refused").
				about("server"),
			`container "server" takes no connection at port 9000 (connect: connection refused)`,
		},
		"a probe that cannot be made": {
			corev1.ContainerStatus{State: runs},
			complains("Unhealthy", "Startup probe errored and resulted in unknown state: rpc error: no such command").
				about("server"),
			`container "server" is not ready: Startup probe errored and resulted in unknown state: rpc error: no such command`,
		},
		"another probe": {
			corev1.ContainerStatus{State: runs},
			complains("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503").about("server"),
			`container "server" is not ready: Readiness probe failed: HTTP probe failed with statuscode: 503`,
		},
		"it starts":         {corev1.ContainerStatus{State: runs}, refused.once(), ""},
		"it is ready":       {corev1.ContainerStatus{State: runs, Ready: true}, refused, ""},
		"it waits":          {corev1.ContainerStatus{State: waits("ContainerCreating", "")}, refused, ""},
		"another container": {corev1.ContainerStatus{State: runs}, refused.about("sidecar"), ""},
		"it is not about readiness": {
			corev1.ContainerStatus{State: runs},
			complains("Unhealthy", "Liveness probe failed: no").about("server"), "",
		},
	} {
		if got := Unready(one(tc.status), []Complaint{tc.said}, cures); got != tc.want {
			t.Errorf("%s: it says %q, want %q", name, got, tc.want)
		}
	}
	proxys := one(corev1.ContainerStatus{State: runs})
	proxys.Status.ContainerStatuses[0].Name, cures = "proxy", OfProxy
	cures.Upstream = "the backend"
	said := complains("Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503").about("proxy")
	if got := Unready(proxys, []Complaint{said}, cures); got != "a pod of the proxy is ready once the backend has "+
		"answered" {
		t.Errorf("of the proxy it says %q", got)
	}
}

// The scheduler names the node that it has chosen before it binds volumes, and nothing else while one does not come.
func TestAPodThatIsNotBoundToItsNodeYet(t *testing.T) {
	waits := "the scheduler has chosen a node for a pod, and waits for what the pod needs there, such as the volume of " +
		"a PersistentVolumeClaim: kubectl describe persistentvolumeclaims says why one does not come; often the " +
		"provisioner of its StorageClass does not run"
	for name, tc := range map[string]struct {
		node      string
		scheduled []corev1.PodCondition
		want      string
	}{
		"no node is chosen yet": {},
		"one is chosen":         {node: "n", want: waits},
		"it is bound":           {node: "n", scheduled: scheduled(corev1.ConditionTrue, "", "").Status.Conditions},
		"others make room first": {
			node: "n", scheduled: scheduled(corev1.ConditionFalse, "Unschedulable", "none").Status.Conditions,
		},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{NominatedNodeName: tc.node, Conditions: tc.scheduled}}
		if got := Unready(pod, nil, OfBackend); got != tc.want {
			t.Errorf("%s: it says %q, want %q", name, got, tc.want)
		}
	}
}

func TestWhyKubeletEndsAPod(t *testing.T) {
	for name, tc := range map[string]struct{ reason, message, ours, want string }{
		"a volume that is full": {
			"Evicted", `Usage of EmptyDir volume "d" exceeds the limit "1Mi". `,
			"Evicted",
			`kubelet evicts the pod: Usage of EmptyDir volume "d" exceeds the limit "1Mi": write less to the volume, or raise its sizeLimit in spec.volumes`,
		},
		"a container's disk": {
			"Evicted", `Container server exceeded its local ephemeral storage limit "2Mi". `,
			"Evicted",
			`kubelet evicts the pod: Container server exceeded its local ephemeral storage limit "2Mi": write less to its disk, or raise spec.resources.limits.ephemeral-storage`,
		},
		"a sidecar's disk": {
			"Evicted", `Container side exceeded its local ephemeral storage limit "2Mi". `,
			"Evicted",
			`kubelet evicts the pod: Container side exceeded its local ephemeral storage limit "2Mi": write less to its disk, or raise spec.podTemplate.spec.containers[name=side].resources.limits.ephemeral-storage`,
		},
		"the pod's disk": {
			"Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. ",
			"Evicted", "kubelet evicts the pod: Pod ephemeral local storage usage exceeds the total limit of containers 2Mi: " +
				"write less to its disk, or raise limits.ephemeral-storage of its containers (spec.resources, " +
				"spec.podTemplate.spec.containers)",
		},
		"a node that is full": {
			"Evicted", "The node was low on resource: memory. Threshold quantity: 100Mi, available: 99Mi. Container server " +
				"was using 34Mi, request is 0, has larger consumption of memory. ",
			"Evicted", "kubelet evicts the pod: The node was low on resource: memory: a pod that takes more than it requests " +
				"goes first: raise spec.resources.requests, or add room to the node",
		},
		"a node that has a condition": {
			"Evicted", "The node had condition: [DiskPressure]. ", "Evicted",
			"kubelet evicts the pod: The node had condition: [DiskPressure].",
		},
		"a pod that is not taken": {
			"SysctlForbidden", `forbidden sysctl: "net.core.somaxconn" not allowlisted`,
			"PodNotStarted",
			`kubelet does not take the pod: SysctlForbidden: forbidden sysctl: "net.core.somaxconn" not allowlisted`,
		},
	} {
		c := complains(tc.reason, tc.message)
		if got := c.Ended(OfBackend); !c.Ends() || got != False(tc.ours, tc.want) {
			t.Errorf("%s: %t, %v; want %q", name, c.Ends(), got, tc.want)
		}
	}
	for _, reason := range []string{"FailedMount", "Unhealthy", "FailedCreatePodSandBox", ""} {
		if c := complains(reason, ""); c.Ends() {
			t.Errorf("%s ends a pod", reason)
		}
	}
}

func TestPlainWordsAreTheSameEachTime(t *testing.T) {
	for message, want := range map[string]string{
		"a\nb\t\x1b[2J":                     "a b [2J",
		"dial tcp [fd00::5]:8080: refused":  "dial tcp :8080: refused",
		"read tcp 10.0.0.1:5->10.0.0.2:80:": "read tcp :80:",
		"(combined from similar events): a": "a",
		`connect service "10.0.0.1:8080" x`: `connect service ":8080" x`,
		"mount 10.0.0.9:/data":              "mount 10.0.0.9:/data",
		strings.Repeat("x", 2000):           strings.Repeat("x", 1024),
	} {
		if got := Plain(message); got != want {
			t.Errorf("of %q is kept %q, want %q", message, got, want)
		}
	}
}

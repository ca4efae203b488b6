package conditions

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

type speaker int

const (
	// scheduler reports in the condition PodScheduled, kubelet in the condition Ready.
	scheduler speaker = iota
	kubelet
	// choosing is the scheduler on a pod whose node it has chosen, before it binds the pod.
	choosing
	// starting is kubelet on a waiting container, pulling on the image of a volume.
	starting
	pulling
	// These report in Events: mounting on a pod that does not start, probing on a failed probe, ending on a pod that
	// kubelet ends or rejects.
	mounting
	probing
	ending
	apiServer
)

// saying is one report about a pod.
type saying struct {
	by                       speaker
	reason, words            string
	container, image, volume string
	// lasts: the problem has lasted for Patience.
	lasts bool
}

// meaning explains a saying to whoever runs a server.
type meaning struct {
	by speaker
	// reasons are Kubernetes' reasons; nil for any.
	reasons *regexp.Regexp
	// words match the message, nil for any; container is its subject, empty for any.
	words     *regexp.Regexp
	container string
	// lasts: the problem may pass, and counts after Patience.
	lasts bool
	// reason and message are ours; an empty message means no problem. The message may contain {words}, {reason},
	// {container}, {image}, {volume}, {1} and {2} for groups of words, and the names of expand for fields.
	reason, message string
}

// Patience is the grace period for a problem that may pass.
const Patience = 10 * time.Second

// The first meaning that fits a saying counts, and of all sayings about a pod the one whose meaning is listed first.
// Copy the text of a new one from the source of Kubernetes into the test.
var meanings = []meaning{
	{
		by: scheduler, reasons: is("Unschedulable"), words: says(`persistentvolumeclaim "([^"]+)" not found`),
		reason:  v1alpha1.ReasonMissingReference,
		message: "no node takes the pod: the PersistentVolumeClaim {1q} does not exist: create it, or correct {volumes}",
	},
	{
		by: scheduler, reasons: is("Unschedulable"), words: says(`unbound immediate PersistentVolumeClaims`),
		reason: v1alpha1.ReasonUnschedulable,
		message: "no node takes the pod: a PersistentVolumeClaim of it has no volume: kubectl describe " +
			"persistentvolumeclaims says why; often its StorageClass does not exist, or the namespace has no default one",
	},
	{
		by: scheduler, reasons: is("Unschedulable"), reason: v1alpha1.ReasonUnschedulable,
		message: "no node takes the pod: {words}",
	},
	{
		by: scheduler, reasons: is("SchedulerError"), words: says(`plugin "VolumeBinding": (binding volumes: .*)$`),
		reason: v1alpha1.ReasonUnschedulable,
		message: "no node takes the pod: a PersistentVolumeClaim of it gets no volume ({1}): kubectl describe " +
			"persistentvolumeclaims says why; often the provisioner of its StorageClass does not run",
	},
	{
		by: scheduler, reasons: is("SchedulerError"), reason: v1alpha1.ReasonUnschedulable,
		message: "the scheduler cannot bind the pod to a node: {words}",
	},
	{
		by: scheduler, reasons: is("SchedulingGated"), reason: v1alpha1.ReasonSchedulingGated,
		message: "the pod is not scheduled while it has scheduling gates ({words}): whoever adds a gate removes it; see " +
			"{overlay}.schedulingGates, and what sets gates on pods of this namespace",
	},

	{
		by:      starting,
		reasons: is("ErrImagePull|ImagePullBackOff|ErrImageNeverPull|InvalidImageName|ImageInspectError|RegistryUnavailable"),
		reason:  v1alpha1.ReasonImagePull,
		// Without the runtime's words: they alternate with each attempt.
		message: "the image {image} of container {container} cannot be pulled: {pull}",
	},
	{
		by: pulling, reason: v1alpha1.ReasonImagePull,
		message: "the image {image} of volume {volume}, which container {container} mounts, cannot be pulled: check its " +
			"reference in {volumes}, and spec.imagePullSecrets if it is private",
	},
	{
		by: starting, reasons: notCreated, words: says("runAsNonRoot|non-root policy|non-numeric user"),
		reason: v1alpha1.ReasonMustRunAsRoot,
		message: "the image of container {container} runs as root or under a user that is not a number, and may not by " +
			"default: {user}",
	},
	{
		by: starting, reasons: notCreated, words: says("(?i)secret|configmap"), reason: v1alpha1.ReasonMissingReference,
		message: "container {container}: {words}: create it, or correct {env}",
	},
	{
		// containerd before 2.1 has no volumes of images, and does not say so.
		by: starting, reasons: notCreated, words: says(`failed to generate spec: failed to mkdir ""`),
		reason: v1alpha1.ReasonVolumeNotMounted,
		message: "container {container} cannot be created: the container runtime of the pod's node knows no volumes of " +
			"images: use another volume in {volumes}, or a newer runtime",
	},
	{
		by: starting, reasons: notCreated, reason: v1alpha1.ReasonCrashLoop,
		message: "container {container} cannot be created: {words}",
	},

	{
		by: probing, words: says(`^Liveness probe failed: (.*)$`), reason: v1alpha1.ReasonProbeFailed,
		message: "container {container} is restarted by its livenessProbe: {1}{liveness}",
	},
	{
		by: probing, words: says(`^Startup probe failed: (.*)$`), reason: v1alpha1.ReasonProbeFailed,
		message: "container {container} is restarted by its startupProbe: {1}{startup}",
	},
	{
		by: probing, reasons: is("FailedPostStartHook"), reason: v1alpha1.ReasonCrashLoop,
		message: "container {container} is restarted because its postStart hook fails{poststart}",
	},

	{
		by: mounting, words: says(`volume "([^"]+)" : .*driver name (\S+) not found in the list of registered CSI drivers`),
		reason: v1alpha1.ReasonVolumeNotMounted,
		message: "volume {1q}: the CSI driver {2} is not registered on the pod's node: install it there, or correct " +
			"{volumes}",
	},
	{
		by: mounting,
		words: says(
			`failed to sync (?:secret|configmap) cache|object "[^"]*"/"[^"]*" not registered|no relationship found between node`), lasts: true, reason: v1alpha1.ReasonVolumeNotMounted,
		message: "kubelet cannot mount a volume of the pod: {words}",
	},
	{
		by: mounting, words: says(`volume "([^"]+)" : (.*not found\]?|.*references non-existent .*)$`),
		reason:  v1alpha1.ReasonMissingReference,
		message: "volume {1q}: {2}: create it, or correct {volumes}",
	},
	{
		by: mounting, words: says(`^Multi-Attach error for volume "([^"]+)" (.*)$`), reason: v1alpha1.ReasonVolumeNotMounted,
		message: "volume {1q} is attached to another node, and can be to one at a time only: {2}: end the pod that uses it " +
			"there, or use a claim that several nodes may mount (ReadWriteMany)",
	},
	{
		by: mounting, reasons: is("FailedMount|FailedAttachVolume|FailedMapVolume"),
		words:   says(`^\S+(?: initialization)? failed for volume "([^"]+)" :? ?(.*)$`),
		reason:  v1alpha1.ReasonVolumeNotMounted,
		message: "volume {1q} cannot be mounted: {2}",
	},
	{
		by: mounting, reasons: is("FailedCreatePodSandBox"),
		words:  says(`no runtime for "([^"]+)" is configured|failed to find runtime handler (\S+)`),
		reason: v1alpha1.ReasonPodNotStarted,
		message: "the pod's node has no runtime for the handler {1}{2}, which the pod's RuntimeClass names: correct " +
			"{overlay}.runtimeClassName, or configure the runtime of the node",
	},
	{
		by: mounting, reasons: is("FailedMount|FailedAttachVolume|FailedMapVolume"), lasts: true,
		reason: v1alpha1.ReasonVolumeNotMounted, message: "kubelet cannot mount a volume of the pod: {words}",
	},
	// Reports about every pod of a node or namespace, or about a pod that ended, keep no pod from starting.
	{
		by: mounting,
		reasons: is(
			"DNSConfigForming|FailedToRetrieveImagePullSecret|PossibleMemoryBackedVolumesOnDisk|AlreadyMountedVolume|CgroupV1|FailedKillPod|FailedPreStopHook|ProbeWarning|Unhealthy"),
	},
	{
		by: mounting, lasts: true, reason: v1alpha1.ReasonPodNotStarted,
		message: "kubelet does not start the pod: {reason}: {words}",
	},

	{
		by: kubelet, reasons: is("ReadinessGatesNotReady"), reason: v1alpha1.ReasonReadinessGatesNotReady,
		message: "all containers of the pod are ready, and the pod is not: {words}: whoever sets that condition on pods " +
			"has not; see {overlay}.readinessGates",
	},
	// No reason of ours: such a pod may be on its way.
	{
		by: choosing,
		message: "the scheduler has chosen a node for a pod, and waits for what the pod needs there, such as the volume of " +
			"a PersistentVolumeClaim: kubectl describe persistentvolumeclaims says why one does not come; often the " +
			"provisioner of its StorageClass does not run",
	},
	{
		by: probing, container: serverContainer, words: says(`^Readiness probe failed: dial tcp :(\d+): (.*)$`), lasts: true,
		message: "container {container} takes no connection at port {1} ({2}){listens}",
	},
	{
		by: probing, container: proxyContainer,
		words: says(`^Readiness probe failed: HTTP probe failed with statuscode: 503$`), lasts: true,
		message: "a pod of the proxy is ready once {upstream} has answered",
	},
	// Kubelet skips a probe that it cannot make: the container never starts, and is not restarted.
	{
		by: probing, words: says(`^(?:Readiness|Startup) probe `), lasts: true,
		message: "container {container} is not ready: {words}",
	},

	{
		by: ending, reasons: is("Evicted"), words: says(`^(Usage of EmptyDir volume "([^"]+)" exceeds the limit .*?)\.?$`),
		reason:  v1alpha1.ReasonEvicted,
		message: "kubelet evicts the pod: {1}: write less to the volume, or raise its sizeLimit in {volume2}",
	},
	{
		by: ending, reasons: is("Evicted"),
		words: says(`^(Container (\S+) exceeded its local ephemeral storage limit .*?)\.?$`), reason: v1alpha1.ReasonEvicted,
		message: "kubelet evicts the pod: {1}: write less to its disk, or raise {resources2}.limits.ephemeral-storage",
	},
	{
		by: ending, reasons: is("Evicted"),
		words:  says(`^(Pod ephemeral local storage usage exceeds the total limit of containers .*?)\.?$`),
		reason: v1alpha1.ReasonEvicted,
		message: "kubelet evicts the pod: {1}: write less to its disk, or raise limits.ephemeral-storage of its containers " +
			"({resources}, {overlay}.containers)",
	},
	// Without the used quota, which differs each time.
	{
		by: ending, reasons: is("Evicted"), words: says(`^(The node was low on resource: (\S+?))\. `),
		reason: v1alpha1.ReasonEvicted,
		message: "kubelet evicts the pod: {1}: a pod that takes more than it requests goes first: raise " +
			"{resources}.requests, or add room to the node",
	},
	{by: ending, reasons: is("Evicted"), reason: v1alpha1.ReasonEvicted, message: "kubelet evicts the pod: {words}"},
	{by: ending, reason: v1alpha1.ReasonPodNotStarted, message: "kubelet does not take the pod: {reason}: {words}"},

	{
		by: apiServer, words: says(`failed quota: .*: must specify (.*)$`), reason: v1alpha1.ReasonPodRefused,
		message: "the API server refuses the pod: {words}: write {missing}, or let a LimitRange of the namespace set " +
			"defaults",
	},
	{
		by: apiServer, words: says(`^(?:failed to create PVC \S+: )?(persistentvolumeclaims "[^"]+" is forbidden: .*)$`),
		reason: v1alpha1.ReasonPodRefused,
		message: "the API server refuses a claim of the pod: {1}: raise that limit of the namespace; " +
			"spec.volumeClaimTemplates cannot be changed, only be written into a new server",
	},
	{
		by: apiServer, words: says(`exceeded quota: \S+, requested: (?:count/)?pods=\d+, limited: `),
		reason:  v1alpha1.ReasonPodRefused,
		message: "the API server refuses the pod: {words}: lower {replicas}, or raise the quota",
	},
	{
		by: apiServer, words: says(`exceeded quota: `), reason: v1alpha1.ReasonPodRefused,
		message: "the API server refuses the pod: {words}: lower {resources} or {replicas}, or raise the quota",
	},
	{
		by: apiServer, words: says(`(?:(?:maximum|minimum) \S+ usage|max limit to request ratio) per (?:Container|Pod) is`),
		reason: v1alpha1.ReasonPodRefused,
		message: "the API server refuses the pod: {words}: that is a LimitRange of the namespace: correct {resources}, or " +
			"the LimitRange",
	},
	{
		by: apiServer,
		words: says(
			`spec\.(?:initContainers|containers)\[name=([^\]]*)\]\.resources\.requests: Invalid value: "[^"]*": must be less than or equal to (\S+) limit`), reason: v1alpha1.ReasonPodRefused,
		message: "the API server refuses the pod: {words}: a LimitRange of the namespace sets that limit where none is " +
			"written: write {resources1}.limits.{2}, or correct the LimitRange",
	},
	{
		by: apiServer, words: says(`serviceaccount "[^"]*-runner" not found`), reason: v1alpha1.ReasonPodRefused,
		message: "the API server refuses the pod: {words}",
	},
	{
		by: apiServer, words: says(`serviceaccount "[^"]*" not found`), reason: v1alpha1.ReasonPodRefused,
		message: "the API server refuses the pod: {words}: create it, or correct spec.serviceAccountName",
	},
	{
		by: apiServer, words: says(`RuntimeClass "[^"]+" not found`), reason: v1alpha1.ReasonPodRefused,
		message: "the API server refuses the pod: {words}: create it, or correct {overlay}.runtimeClassName",
	},
	{
		by: apiServer, words: says(`no PriorityClass with name \S+ was found`), reason: v1alpha1.ReasonPodRefused,
		message: "the API server refuses the pod: {words}: create it, or correct {overlay}.priorityClassName",
	},
	{by: apiServer, reason: v1alpha1.ReasonPodRefused, message: "the API server refuses the pod: {words}"},
}

var notCreated = is("CreateContainerConfigError|CreateContainerError")

func is(reasons string) *regexp.Regexp { return regexp.MustCompile("^(?:" + reasons + ")$") }

func says(words string) *regexp.Regexp { return regexp.MustCompile(words) }

// explain returns the finding for a saying and the rank of its meaning; nil if it means no problem, or none yet.
func (c Cures) explain(s saying) (*Finding, int) {
	for rank, m := range meanings {
		if m.by != s.by || m.reasons != nil && !m.reasons.MatchString(s.reason) ||
			m.container != "" && m.container != s.container {
			continue
		}
		var groups []string
		if m.words != nil {
			if groups = m.words.FindStringSubmatch(s.words); groups == nil {
				continue
			}
		}
		if m.message == "" || m.lasts && !s.lasts {
			return nil, rank
		}
		return new(False(m.reason, c.expand(m.message, s, groups))), rank
	}
	return nil, len(meanings)
}

// expand fills in a message. What Kubernetes reported is not expanded in turn.
func (c Cures) expand(message string, s saying, groups []string) string {
	pull, volume, of := c.Pull, s.volume, cmp.Or(s.container, c.Main)
	if of == runconfig.BridgeContainer && c.Bridge != "" {
		pull = c.Bridge
	}
	pairs := []string{
		"{words}", s.words, "{reason}", s.reason, "{container}", strconv.Quote(s.container), "{image}",
		strconv.Quote(s.image), "{volume}", strconv.Quote(s.volume),
		"{pull}", pull, "{user}", c.User, "{env}", c.Env, "{overlay}", c.Overlay, "{replicas}", c.Replicas, "{upstream}",
		c.Upstream,
		"{resources}", c.resources(of), "{liveness}", c.correct(of, "livenessProbe"), "{startup}",
		c.correct(of, "startupProbe"), "{poststart}", c.correct(of, "lifecycle.postStart"),
	}
	for i := 1; i < len(groups); i++ {
		pairs = append(pairs,
			fmt.Sprintf("{%d}", i), groups[i], fmt.Sprintf("{%dq}", i), strconv.Quote(groups[i]),
			fmt.Sprintf("{volume%d}", i), c.volume(groups[i]), fmt.Sprintf("{resources%d}", i), c.resources(groups[i]))
	}
	if len(groups) > 1 {
		volume = cmp.Or(volume, groups[1])
		pairs = append(pairs, "{missing}", c.missing(groups[1]), "{listens}", c.listens(groups[1]))
	}
	pairs = append(pairs, "{volumes}", c.volume(volume))
	return strings.NewReplacer(pairs...).Replace(message)
}

package conditions

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// lastWords is how much of a container's last message is quoted, in bytes.
const lastWords = 512

// Cures are where whoever runs a pod changes what is wrong with it.
type Cures struct {
	// Pull is what to check of an image that cannot be pulled, User what to do
	// about one that is root, Env and Volumes are the fields of references.
	Pull, User, Env, Volumes string
	// Bridge is what to check of the image of the bridge in a backend's pod.
	Bridge string
	// Volume are the fields by the name of a volume that comes from others than
	// Volumes.
	Volume map[string]string
}

// Where the pods of backend and proxy come from.
var (
	OfBackend = Cures{
		Pull: "check its name, and spec.imagePullSecrets if it is private",
		User: "set spec.podTemplate.spec.securityContext.runAsUser to the number of another user, use an image that names one, or allow root with runAsNonRoot: false there",
		Env:  "spec.env or spec.envFrom", Volumes: "spec.volumes",
		Bridge: "it is the runner's: keep it in its registry, or change spec.restartedAt to take that of this release; check runner.image and runner.imagePullSecrets among the operator's chart values",
	}
	OfProxy = Cures{
		Pull: "check runner.image among the operator's chart values, and runner.imagePullSecrets if it is private; for a container of your own, spec.proxy.podTemplate",
		User: "set spec.proxy.podTemplate.spec.securityContext.runAsUser to the number of another user, or use an image that names one",
		Env:  "spec.proxy.podTemplate", Volumes: "spec.proxy.podTemplate",
		Volume: map[string]string{runconfig.LoginVolume: "spec.oidc of the MCPOIDCConfig", runconfig.RemoteVolume: "spec.caBundleRef or spec.headers"},
	}
)

// PodTrouble says why a pod does not come up, in words that stay the same
// while the cause does, because each change is a write. It returns nil for a
// pod that is fine or on its way.
func PodTrouble(pod *corev1.Pod, cures Cures) *Finding {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return new(False(v1alpha1.ReasonUnschedulable, "no node takes the pod: "+withoutCounts(c.Message)))
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		if f := waitTrouble(c, cures); f != nil {
			return f
		}
		if f := crash(pod, c); f != nil && !done(c) {
			return f
		}
	}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if f := waitTrouble(c, cures); f != nil {
			return f
		}
		if f := crash(pod, c); f != nil {
			return f
		}
	}
	return nil
}

// waitTrouble says why a container waits, where it is not its own end.
func waitTrouble(c *corev1.ContainerStatus, cures Cures) *Finding {
	if w := c.State.Waiting; w != nil {
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable":
			// Without the runtime's words: they alternate with each attempt.
			cure := cures.Pull
			if c.Name == runconfig.BridgeContainer && cures.Bridge != "" {
				cure = cures.Bridge
			}
			return new(False(v1alpha1.ReasonImagePull, fmt.Sprintf("the image %q of container %q cannot be pulled: %s", c.Image, c.Name, cure)))
		case "CreateContainerConfigError", "CreateContainerError":
			return configTrouble(c.Name, w.Message, cures)
		}
	}
	return nil
}

// configTrouble reads kubelet's words on a container that it cannot create.
func configTrouble(container, message string, cures Cures) *Finding {
	switch {
	case strings.Contains(message, "runAsNonRoot"), strings.Contains(message, "non-root policy"), strings.Contains(message, "non-numeric user"):
		return new(False(v1alpha1.ReasonMustRunAsRoot, fmt.Sprintf("the image of container %q runs as root or under a user that is not a number, and may not by default: %s", container, cures.User)))
	case strings.Contains(strings.ToLower(message), "secret") || strings.Contains(strings.ToLower(message), "configmap"):
		return new(False(v1alpha1.ReasonMissingReference, fmt.Sprintf("container %q: %s: create it, or correct %s", container, message, cures.Env)))
	}
	return new(False(v1alpha1.ReasonCrashLoop, fmt.Sprintf("container %q cannot be created: %s", container, message)))
}

// crash finds a container that has ended and is not ready again, also while it
// runs once more: the finding must not flicker with each attempt. Exit code 0
// is no exception, because nothing in a server's pod is to end.
func crash(pod *corev1.Pod, c *corev1.ContainerStatus) *Finding {
	end := lastEnd(c)
	if end == nil || c.Ready || wasReady(pod, c) {
		return nil
	}
	text := fmt.Sprintf("container %q ends with exit code %d", c.Name, end.ExitCode)
	if end.Reason == "OOMKilled" {
		text = fmt.Sprintf("container %q ran out of memory: raise its memory limit", c.Name)
	}
	if words := tail(end.Message); words != "" {
		text += ": " + words
	}
	return new(False(v1alpha1.ReasonCrashLoop, text))
}

// wasReady reports whether the pod was ready in the present run of a container, so that
// the container's last end, which its status keeps, is not why the pod is not ready now.
func wasReady(pod *corev1.Pod, c *corev1.ContainerStatus) bool {
	for _, p := range pod.Status.Conditions {
		if p.Type == corev1.PodReady && c.State.Running != nil {
			return p.Status == corev1.ConditionFalse && p.LastTransitionTime.After(c.State.Running.StartedAt.Time)
		}
	}
	return false
}

// done reports whether an init container has done its work. It does it again
// where kubelet makes the pod's sandbox anew.
func done(c *corev1.ContainerStatus) bool {
	end := lastEnd(c)
	return end != nil && end.ExitCode == 0
}

func lastEnd(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if c.State.Terminated != nil {
		return c.State.Terminated
	}
	return c.LastTerminationState.Terminated
}

// tail is the end of a message, from a line's beginning where it can be.
func tail(message string) string {
	message = strings.TrimSpace(message)
	if len(message) > lastWords {
		message = message[len(message)-lastWords:]
		if _, rest, ok := strings.Cut(message, "\n"); ok {
			message = rest
		}
	}
	return message
}

var missingVolume = regexp.MustCompile(`volume "([^"]+)" : (.*not found\]?|.*references non-existent .*)$`)

// MountTrouble reads an event with reason FailedMount: kubelet tells only there
// that a volume's Secret or ConfigMap is missing. It returns nil for others.
func MountTrouble(message string, cures Cures) *Finding {
	m := missingVolume.FindStringSubmatch(strings.TrimSpace(message))
	if m == nil {
		return nil
	}
	field := cmp.Or(cures.Volume[m[1]], cures.Volumes)
	return new(False(v1alpha1.ReasonMissingReference, fmt.Sprintf("volume %q: %s: create it, or correct %s", m[1], m[2], field)))
}

var (
	podName = regexp.MustCompile(`pods "[^"]*" is`)
	used    = regexp.MustCompile(`, used: .*, limited: `)
)

// Refusal words the API server's refusal to create a pod without the pod's
// name, which differs with each attempt, and without what is used of a quota, which
// differs with each other pod. message is that of a ReplicaSet's
// condition, or of a StatefulSet's Event, which says before it what was tried.
func Refusal(message string) Finding {
	if _, why, tried := strings.Cut(message, " failed error: "); tried {
		message = why
	}
	return False(v1alpha1.ReasonPodRefused, "the API server refuses the pod: "+used.ReplaceAllString(podName.ReplaceAllString(message, "it is"), ", limited: "))
}

var counts = regexp.MustCompile(`\b\d+(/\d+)? `)

// withoutCounts is the scheduler's message without its numbers of nodes, each
// of which changes when a node joins or leaves, and without what preemption, and
// in a list before it whatever else may make room, says.
func withoutCounts(message string) string {
	message, _, _ = strings.Cut(message, " preemption:")
	if end := strings.LastIndex(message, ". "); end >= 0 && strings.HasSuffix(message, ",") {
		message = message[:end+1]
	}
	if _, reasons, ok := strings.Cut(message, " nodes are available: "); ok {
		message = reasons
	}
	return counts.ReplaceAllString(message, "")
}

package conditions

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// lastWords is how much of a container's last message is quoted, in bytes.
const lastWords = 512

// PodTrouble says why a pod does not come up, in words that stay the same
// while the cause does, because each change is a write. complaints may be of other pods, too. It returns nil for a
// pod that is fine or on its way.
func PodTrouble(pod *corev1.Pod, complaints []Complaint, cures Cures) *Finding {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			words := withoutCounts(c.Message)
			if c.Reason == corev1.PodReasonSchedulingGated {
				words = gates(pod)
			}
			if f, _ := cures.explain(saying{by: scheduler, reason: c.Reason, words: words}); f != nil {
				return f
			}
		}
	}
	for i := range pod.Status.InitContainerStatuses {
		c := &pod.Status.InitContainerStatuses[i]
		if f := waitTrouble(pod, c, cures); f != nil {
			return f
		}
		if f := crash(pod, c, complaints, cures); f != nil && !done(c) {
			return f
		}
	}
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if f := waitTrouble(pod, c, cures); f != nil {
			return f
		}
		if f := crash(pod, c, complaints, cures); f != nil {
			return f
		}
	}
	if !started(pod) {
		return mountTrouble(pod, complaints, cures)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse {
			f, _ := cures.explain(saying{by: kubelet, reason: c.Reason, words: tail(c.Message)})
			return f
		}
	}
	return nil
}

// gates are the names of a pod's scheduling gates.
func gates(pod *corev1.Pod) string {
	names := make([]string, 0, len(pod.Spec.SchedulingGates))
	for _, g := range pod.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

// started reports whether a container of the pod has run, which none does before
// all volumes are mounted: kubelet's complaints about mounts outlive their cause.
func started(pod *corev1.Pod) bool {
	ran := func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, ran) ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, ran)
}

// recent is for how long before the last complaint about a pod others count as well. Kubelet
// tries to mount a volume again every two minutes at least.
const recent = 3 * time.Minute

// mountTrouble finds in complaints why a pod does not start, of several at a time always the same.
func mountTrouble(pod *corev1.Pod, complaints []Complaint, cures Cures) *Finding {
	var last time.Time
	for i := range complaints {
		if c := &complaints[i]; c.of(pod.Name, pod.UID) && c.Last.After(last) {
			last = c.Last
		}
	}
	var found *Finding
	best := len(meanings)
	for i := range complaints {
		c := &complaints[i]
		if !c.of(pod.Name, pod.UID) || c.Ends() || last.Sub(c.Last) > recent {
			continue
		}
		if f, rank := cures.explain(c.saying(mounting)); f != nil &&
			(rank < best || rank == best && f.Message < found.Message) {
			found, best = f, rank
		}
	}
	return found
}

// waitTrouble says why a container waits, where it is not its own end.
func waitTrouble(pod *corev1.Pod, c *corev1.ContainerStatus, cures Cures) *Finding {
	w := c.State.Waiting
	if w == nil {
		return nil
	}
	s := saying{by: starting, reason: w.Reason, words: Plain(w.Message), container: c.Name, image: c.Image}
	f, _ := cures.explain(s)
	if f == nil || f.Reason != v1alpha1.ReasonImagePull {
		return f
	}
	if v := imageVolume(pod, c.Image, w.Message); v != nil {
		s.by, s.image, s.volume = pulling, v.Image.Reference, v.Name
		f, _ = cures.explain(s)
	}
	return f
}

// imageVolume is the volume whose image kubelet cannot pull, nil where it is that of the
// container: it says so of the container, and only in words. A runtime may write the
// reference in full, with the host of its registry.
func imageVolume(pod *corev1.Pod, image, words string) (found *corev1.Volume) {
	if !strings.Contains(words, image) {
		image = ""
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Image != nil && len(v.Image.Reference) > len(image) && strings.Contains(words, v.Image.Reference) {
			found, image = v, v.Image.Reference
		}
	}
	return found
}

// crash finds a container that has ended and is not ready again, also while it
// runs once more: the finding must not flicker with each attempt. Exit code 0
// is no exception, because nothing in a server's pod is to end.
func crash(pod *corev1.Pod, c *corev1.ContainerStatus, complaints []Complaint, cures Cures) *Finding {
	end := lastEnd(c)
	if end == nil || c.Ready || wasReady(pod, c) {
		return nil
	}
	if f := killed(pod, c.Name, end, complaints, cures); f != nil && end.Reason != "OOMKilled" {
		return f
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

// spoken is for how long what kubelet said of an earlier run of a container counts: of one pod it says 25 Events, and
// then one in five minutes (client-go's EventSpamFilter).
const spoken = 6 * time.Minute

// killed finds that kubelet ended a container because a probe or hook of its run failed, or of runs shortly before.
func killed(
	pod *corev1.Pod, container string, end *corev1.ContainerStateTerminated, complaints []Complaint,
	cures Cures,
) *Finding {
	for i := range complaints {
		c := &complaints[i]
		if !c.of(pod.Name, pod.UID) || c.Container != container ||
			c.Last.Before(end.StartedAt.Time) && (!c.Lasts() || end.StartedAt.Sub(c.Last) > spoken) ||
			c.First.After(end.FinishedAt.Time) {
			continue
		}
		if f, _ := cures.explain(c.saying(probing)); f != nil && f.Reason != "" {
			return f
		}
	}
	return nil
}

// Unready is what kubelet says, for a while, of the readiness of a pod that runs; empty for nothing.
func Unready(pod *corev1.Pod, complaints []Complaint, cures Cures) (text string) {
	for _, status := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if status.Ready || status.State.Running == nil {
			continue
		}
		var last time.Time
		for j := range complaints {
			c := &complaints[j]
			if !c.of(pod.Name, pod.UID) || c.Container != status.Name || c.Last.Before(status.State.Running.StartedAt.Time) ||
				c.Last.Before(last) {
				continue
			}
			if f, _ := cures.explain(c.saying(probing)); f != nil && f.Reason == "" {
				last, text = c.Last, f.Message
			}
		}
		if text != "" {
			return text
		}
	}
	return ""
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

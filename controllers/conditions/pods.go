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

// lastWords bounds in bytes how much of a container's last message is quoted.
const lastWords = 512

// PodTrouble explains why a pod does not become ready, or returns nil. The text stays the same while the cause does,
// because each change is a write. complaints may include other pods.
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

func gates(pod *corev1.Pod) string {
	names := make([]string, 0, len(pod.Spec.SchedulingGates))
	for _, g := range pod.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	return strings.Join(names, ", ")
}

// started reports whether a container of the pod has run. All volumes were then mounted: kubelet's complaints about
// mounts outlive their cause.
func started(pod *corev1.Pod) bool {
	ran := func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, ran) ||
		slices.ContainsFunc(pod.Status.ContainerStatuses, ran)
}

// recent is how much older than the last complaint about a pod others may be. Kubelet retries a mount at least every
// two minutes.
const recent = 3 * time.Minute

// mountTrouble explains from complaints why a pod does not start; of several it always picks the same.
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

// waitTrouble explains why a container waits, unless it crashed.
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

// imageVolume is the volume whose image kubelet cannot pull, nil if it is the container's image: kubelet reports both
// for the container, and only the text differs. A runtime may add the registry's host to the reference.
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

// crash finds a container that ended and is not ready again, even while it runs once more: the finding must not
// flicker with each attempt. Exit code 0 counts, because no container of a server is meant to end.
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
		if c.Name == cures.Main && cures.Write != "" && unwritten(words) {
			text += "; " + cures.Write
		}
	}
	return new(False(v1alpha1.ReasonCrashLoop, text))
}

// refusedFile is what runtimes say of a file that they may not make, and refusedElse what they say in the same words of
// something else.
var (
	refusedFile = regexp.MustCompile(`(?i)\bEACCES\b|\bEROFS\b|read-only file ?system|permission denied.*/|/.*permission denied`)
	refusedElse = regexp.MustCompile(`(?i)\b(listen|bind|connect|exec|socket)\b`)
)

// unwritten reports whether a line of a container's last words says that it may not write a file.
func unwritten(words string) bool {
	return slices.ContainsFunc(strings.Split(words, "\n"), func(line string) bool {
		return refusedFile.MatchString(line) && !refusedElse.MatchString(line)
	})
}

// spoken is how long kubelet's complaint about an earlier run counts: after 25 Events about a pod it records one in
// five minutes (client-go's EventSpamFilter).
const spoken = 6 * time.Minute

// killed finds that kubelet ended this run of a container, or a recent one, because a probe or hook failed.
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

// Unready is what the scheduler, or kubelet lastingly, says of a pod that is on its way, or empty.
func Unready(pod *corev1.Pod, complaints []Complaint, cures Cures) (text string) {
	if chosen(pod) {
		f, _ := cures.explain(saying{by: choosing})
		return f.Message
	}
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

// chosen reports whether the scheduler has chosen a node for a pod, and neither bound the pod nor given up: from
// Kubernetes 1.35 on it names the node before it binds volumes.
func chosen(pod *corev1.Pod) bool {
	said := func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled }
	return pod.Status.NominatedNodeName != "" && !slices.ContainsFunc(pod.Status.Conditions, said)
}

// wasReady reports whether the pod was ready during the container's present run, so that the last end in its status
// does not explain why the pod is not ready now.
func wasReady(pod *corev1.Pod, c *corev1.ContainerStatus) bool {
	for _, p := range pod.Status.Conditions {
		if p.Type == corev1.PodReady && c.State.Running != nil {
			return p.Status == corev1.ConditionFalse && p.LastTransitionTime.After(c.State.Running.StartedAt.Time)
		}
	}
	return false
}

// done reports whether an init container has succeeded. It runs again in a new sandbox.
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

// tail is the end of a message, from the start of a line if possible.
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

// withoutCounts removes from the scheduler's message the numbers of nodes, which change as nodes join or leave, and
// what preemption and its list add.
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

// ImageDigest is what of a container's imageID names its image in each registry: "@" with the digest of its manifest,
// and empty where the node has none for it. What comes of it has it as it is.
func ImageDigest(imageID string) string {
	if at := strings.LastIndex(imageID, "@"); at >= 0 {
		return imageID[at:]
	}
	return ""
}

package kit

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fate is how a container of an image fares.
type Fate struct {
	// waiting is the container's state where it does not run.
	waiting *corev1.ContainerStateWaiting
	// unready containers run and never answer their readiness probe.
	unready bool
}

// Runs is the fate of every image without another: ready at once.
func Runs() Fate { return Fate{} }

// NeverReady runs and fails its readiness probe.
func NeverReady() Fate { return Fate{unready: true} }

// ImagePullBackOff cannot be pulled, for the reason in message.
func ImagePullBackOff(message string) Fate {
	return Fate{waiting: &corev1.ContainerStateWaiting{
		Reason:  "ImagePullBackOff",
		Message: "Back-off pulling image: " + message,
	}}
}

func configError(message string) Fate {
	return Fate{waiting: &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: message}}
}

// Creating is a container whose volumes cannot be mounted yet.
func Creating() Fate {
	return Fate{waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
}

// podStatus is what kubelet would write for a pod on a node whose containers have these fates, by name. It starts from
// the pod's own status, so that times and addresses stay.
func podStatus(pod *corev1.Pod, fates map[string]Fate, address string) corev1.PodStatus {
	next := *pod.Status.DeepCopy()
	next.ObservedGeneration = pod.Generation
	next.Phase = corev1.PodRunning
	next.PodIP, next.PodIPs = address, []corev1.PodIP{{IP: address}}
	next.HostIP, next.HostIPs = nodeAddress, []corev1.HostIP{{IP: nodeAddress}}
	next.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		s := containerStatus(pod, c, fates[c.Name])
		if s.State.Waiting != nil {
			next.Phase = corev1.PodPending
		}
		next.ContainerStatuses = append(next.ContainerStatuses, s)
	}
	next.InitContainerStatuses = nil
	for _, c := range pod.Spec.InitContainers {
		next.InitContainerStatuses = append(next.InitContainerStatuses, initStatus(pod, c))
	}
	unready := slices.ContainsFunc(next.ContainerStatuses, func(s corev1.ContainerStatus) bool { return !s.Ready })
	for _, t := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized} {
		setCondition(&next, t, corev1.ConditionTrue, "", "")
	}
	for _, t := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		if unready {
			setCondition(&next, t, corev1.ConditionFalse, "ContainersNotReady", "containers with unready status")
		} else {
			setCondition(&next, t, corev1.ConditionTrue, "", "")
		}
	}
	return next
}

func containerStatus(pod *corev1.Pod, c corev1.Container, fate Fate) corev1.ContainerStatus {
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: imageID(c.Image)}
	started := fate.waiting == nil
	s.Started, s.Ready = &started, started && !fate.unready
	if fate.waiting != nil {
		s.State.Waiting = fate.waiting.DeepCopy()
	} else {
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: pod.CreationTimestamp}
	}
	return s
}

// imageID is an image with its digest, as of a registry in which no tag moves.
func imageID(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	if digest == "" {
		digest = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(image)))
	}
	return name + "@" + digest
}

func initStatus(pod *corev1.Pod, c corev1.Container) corev1.ContainerStatus {
	started := false
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, ImageID: imageID(c.Image), Ready: true, Started: &started}
	if c.RestartPolicy != nil { // a sidecar in the form of an init container keeps running
		started = true
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: pod.CreationTimestamp}
		return s
	}
	s.State.Terminated = &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: pod.CreationTimestamp, FinishedAt: pod.CreationTimestamp,
	}
	return s
}

func setCondition(s *corev1.PodStatus, t corev1.PodConditionType, is corev1.ConditionStatus, reason, message string) {
	next := corev1.PodCondition{
		Type: t, Status: is, Reason: reason, Message: message,
		ObservedGeneration: s.ObservedGeneration,
	}
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
	if i < 0 {
		next.LastTransitionTime = now()
		s.Conditions = append(s.Conditions, next)
		return
	}
	next.LastTransitionTime = s.Conditions[i].LastTransitionTime
	if s.Conditions[i].Status != is {
		next.LastTransitionTime = now()
	}
	s.Conditions[i] = next
}

func podAddress(n int64) string { return fmt.Sprintf("10.244.%d.%d", n/250%250, n%250+1) }

// now has the precision that the API server keeps, so that what was written compares equal to what is read back.
func now() metav1.Time { return metav1.Now().Rfc3339Copy() }

package controllers

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/store"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Anyone who can create an object in a namespace can give it our label and make it large, so what is kept of foreign
// objects is bounded: maxPodItems gates, or volumes with an image, of a pod, each with a name of at most maxNameLength.
const (
	maxPodItems   = 3
	maxNameLength = 253
)

// trimForCache keeps of an object what a pass reads, with these labels if it is of our kinds. It does not change an
// object that it has trimmed before.
func trimForCache(obj any, labels []string) any {
	switch o := obj.(type) {
	case *corev1.Pod:
		return trimPod(o)
	case client.Object:
		switch o.(type) {
		case *v1alpha1.MCPServer, *v1alpha1.MCPRemoteProxy, frame.Object:
			return trimOwn(o, labels)
		}
		switch {
		case !workload.IsChildName(o.GetLabels()[workload.LabelServer], o.GetName()):
			return metadataOnly(o)
		case workload.IsContentName(o.GetLabels()[workload.LabelServer], o.GetName()):
			return trimContent(o)
		case tooLarge(trimChild(o)):
			small := metadataOnly(o)
			reconcile.Cut(small, "")
			return small
		}
	}
	return obj
}

// tooLarge compares the size as protobuf, or as JSON of what has none.
func tooLarge(obj client.Object) bool {
	if of, is := obj.(*unstructured.Unstructured); is {
		data, err := of.MarshalJSON()
		return err != nil || len(data) > reconcile.LargeObject
	}
	sized, ok := obj.(interface{ Size() int })
	return ok && sized.Size() > reconcile.LargeObject
}

// metadataOnly keeps only that the object exists. A pass reads it live if it has a child's name.
func metadataOnly(obj client.Object) client.Object {
	small, ok := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	if !ok {
		return obj
	}
	small.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	small.SetNamespace(obj.GetNamespace())
	small.SetName(obj.GetName())
	small.SetUID(obj.GetUID())
	small.SetResourceVersion(obj.GetResourceVersion())
	small.SetLabels(withKeys(obj.GetLabels(), workload.LabelServer))
	return small
}

// trimContent keeps of content in a server's history whose it is, and its number.
func trimContent(obj client.Object) client.Object {
	small := metadataOnly(obj)
	small.SetAnnotations(withKeys(obj.GetAnnotations(), revision.AnnotationGeneration, revision.AnnotationHash))
	small.SetOwnerReferences(obj.GetOwnerReferences())
	return small
}

// trimOwn keeps of an object of our kinds what passes read, without kubectl apply's copy of it. Of a large one it
// keeps what passes over other objects read.
func trimOwn(object client.Object, labels []string) client.Object {
	if reconcile.IsCut(object) {
		return object
	}
	object.SetLabels(withKeys(object.GetLabels(), labels...))
	object.SetAnnotations(withKeys(object.GetAnnotations(), contract.AdoptAnnotation))
	if data, err := json.Marshal(object); err == nil && len(data) <= reconcile.LargeObject {
		return object
	}
	digest, small := digestOf(object), metadataOnly(object)
	small.SetGeneration(object.GetGeneration())
	small.SetDeletionTimestamp(object.GetDeletionTimestamp())
	small.SetFinalizers(filtered(object.GetFinalizers(),
		func(name string) bool { return slices.Contains(finalizers, name) }))
	copyShared(object, small)
	reconcile.Cut(small, digest)
	return small
}

// digestOf identifies what a configuration says; empty for other objects.
func digestOf(object client.Object) string {
	config, ok := object.(frame.Object)
	if !ok {
		return ""
	}
	digest, _ := store.Digest(config)
	return digest
}

var finalizers = func() (names []string) {
	for _, w := range contract.Workloads() {
		names = append(names, w.Finalizer)
	}
	for _, c := range contract.Configs() {
		names = append(names, c.Finalizer)
	}
	return names
}()

// copyShared copies the references and status of a large object, which passes over others read.
func copyShared(from, to client.Object) {
	switch from := from.(type) {
	case *v1alpha1.MCPServer:
		to := to.(*v1alpha1.MCPServer)
		to.Spec, to.Status = from.Spec.OnlyConfigRefs(), from.Status
		to.Spec.Suspend, to.Spec.ProgressDeadlineSeconds = from.Spec.Suspend, from.Spec.ProgressDeadlineSeconds
		to.Spec.Replicas = from.Spec.Replicas
	case *v1alpha1.MCPRemoteProxy:
		to := to.(*v1alpha1.MCPRemoteProxy)
		to.Spec.ProxyWorkloadSpec, to.Status = from.Spec.OnlyConfigRefs(), from.Status
		to.Spec.Suspend, to.Spec.ProgressDeadlineSeconds = from.Spec.Suspend, from.Spec.ProgressDeadlineSeconds
	case frame.Object:
		*to.(frame.Object).GetConfigStatus() = *from.GetConfigStatus()
	}
}

// trimChild drops from a child, in place, what no pass reads: nearly all that the runner writes, such as the
// containers' commands.
func trimChild(child client.Object) client.Object {
	switch o := child.(type) {
	case *appsv1.Deployment:
		o.Status.Conditions = filtered(o.Status.Conditions,
			func(c appsv1.DeploymentCondition) bool { return c.Type == appsv1.DeploymentReplicaFailure })
	case *appsv1.StatefulSet:
		pod, meta := o.Spec.Template.Spec, o.Spec.Template.Annotations
		o.Spec = appsv1.StatefulSetSpec{Replicas: o.Spec.Replicas, UpdateStrategy: o.Spec.UpdateStrategy}
		o.Spec.Template.Annotations = withKeys(meta, workload.AnnotationBackendHash, podtemplate.AnnotationRestartedAt)
		o.Spec.Template.Spec = corev1.PodSpec{
			InitContainers: containerNames(pod.InitContainers), Containers: containerNames(pod.Containers),
			Volumes: volumeNames(pod.Volumes),
		}
	case *corev1.Service:
		if workload.IsBackendName(o.Labels[workload.LabelServer], o.Name) {
			o.Spec, o.Status, o.ManagedFields = corev1.ServiceSpec{}, corev1.ServiceStatus{}, nil
		}
	}
	return child
}

func containerNames(containers []corev1.Container) []corev1.Container {
	small := make([]corev1.Container, len(containers))
	for i := range containers {
		small[i].Name = containers[i].Name
	}
	return small
}

func volumeNames(of []corev1.Volume) []corev1.Volume {
	small := make([]corev1.Volume, len(of))
	for i := range of {
		small[i].Name = of[i].Name
	}
	return small
}

// controlled is what trimPod keeps of the owners of a pod.
var controlled = []metav1.OwnerReference{{Controller: new(true)}}

// trimPod keeps a pod's server, whether something controls it, its content, grace period, and what is read of its
// status. Pods are never written, so their managedFields go too. What it drops wakes nobody
// (mcpserver.Reconciler.Register): kubelet reports each step of a start.
func trimPod(pod *corev1.Pod) *corev1.Pod {
	var owners []metav1.OwnerReference
	if metav1.GetControllerOfNoCopy(pod) != nil {
		owners = controlled
	}
	pod.ObjectMeta = metav1.ObjectMeta{
		OwnerReferences: owners,
		Namespace:       pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		Labels: withKeys(pod.Labels, workload.LabelServer, workload.LabelComponent),
		Annotations: withKeys(pod.Annotations, revision.AnnotationGeneration, revision.AnnotationHash,
			workload.AnnotationBackendHash, podtemplate.AnnotationGuards),
	}
	pod.Spec = corev1.PodSpec{
		TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds,
		SchedulingGates:               schedulingGates(pod.Spec.SchedulingGates), Volumes: imageVolumes(pod.Spec.Volumes),
	}
	pod.Status = trimPodStatus(&pod.Status, pod.DeletionTimestamp != nil)
	return pod
}

// trimPodStatus keeps the phase, of a pod that is not ending what keeps it from being ready, and of one that has failed
// why, which kubelet may say nowhere else (controllers/complaints).
func trimPodStatus(status *corev1.PodStatus, ending bool) corev1.PodStatus {
	small := corev1.PodStatus{Phase: status.Phase}
	switch {
	case status.Phase == corev1.PodFailed:
		small.Reason, small.Message = truncated(status.Reason), conditions.Plain(status.Message)
	case ending:
		return small
	}
	small.InitContainerStatuses = containerStates(status.InitContainerStatuses)
	small.ContainerStatuses = containerStates(status.ContainerStatuses)
	silent := len(small.InitContainerStatuses)+len(small.ContainerStatuses) == 0
	small.NominatedNodeName = truncated(status.NominatedNodeName)
	for _, c := range status.Conditions {
		switch {
		case c.Type == corev1.PodScheduled:
			small.NominatedNodeName = "" // it is read before the scheduler has said more
			if c.Status != corev1.ConditionTrue {
				small.Conditions = append(small.Conditions, c)
			}
		case c.Type == corev1.PodReady && (c.Status == corev1.ConditionTrue || !silent):
			small.Conditions = append(small.Conditions, c)
		}
	}
	return small
}

func schedulingGates(of []corev1.PodSchedulingGate) (small []corev1.PodSchedulingGate) {
	for _, g := range of[:min(len(of), maxPodItems)] {
		small = append(small, corev1.PodSchedulingGate{Name: truncated(g.Name)})
	}
	return small
}

func imageVolumes(of []corev1.Volume) (small []corev1.Volume) {
	for i := range of {
		if of[i].Image != nil && len(small) < maxPodItems {
			small = append(small, corev1.Volume{
				Name:         truncated(of[i].Name),
				VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: truncated(of[i].Image.Reference)}},
			})
		}
	}
	return small
}

// truncated copies, because a substring keeps the whole text in memory.
func truncated(text string) string {
	return strings.ToValidUTF8(strings.Clone(text[:min(len(text), maxNameLength)]), "")
}

// containerStates are those of containers that have run, or that wait for more than their turn.
func containerStates(of []corev1.ContainerStatus) (small []corev1.ContainerStatus) {
	for i := range of {
		c := &of[i]
		waits := c.State.Waiting
		created := waits == nil || waits.Reason == "ContainerCreating" || waits.Reason == "PodInitializing"
		if created && c.State.Running == nil && c.State.Terminated == nil && c.LastTerminationState.Terminated == nil {
			continue
		}
		small = append(small, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: truncated(conditions.ImageDigest(c.ImageID)), Ready: c.Ready,
			State: c.State, LastTerminationState: c.LastTerminationState,
		})
	}
	return small
}

// filtered returns a new slice, because a shortened one keeps its memory.
func filtered[T any](from []T, keep func(T) bool) []T {
	var to []T
	for _, item := range from {
		if keep(item) {
			to = append(to, item)
		}
	}
	return to
}

// withKeys returns a new map, because one that loses keys keeps its memory.
func withKeys(from map[string]string, keys ...string) map[string]string {
	to := make(map[string]string, len(keys))
	for _, key := range keys {
		if value, ok := from[key]; ok {
			to[key] = value
		}
	}
	return to
}

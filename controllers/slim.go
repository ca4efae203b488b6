package controllers

import (
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Whoever may create an object in a namespace can give it our label, and make it
// large: what the cache keeps of an object that is not ours is bounded.
const (
	// childLimit is the size, as protobuf, of the largest object that is kept whole
	// though a user's server does not say what it holds. Ours have some kilobytes.
	childLimit = 32 << 10
	// messageLimit is how much is kept of what an Event says. The API bounds it
	// for new Events only.
	messageLimit = 1 << 10
)

// slim keeps of an object what a pass reads, before the cache stores it. It
// changes nothing of an object that it has slimmed already.
func slim(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return slimPod(o), nil
	case *corev1.Event:
		return slimEvent(o), nil
	case *v1alpha1.MCPOIDCConfig:
		return slimConfig(o), nil
	case *v1alpha1.MCPAuthzConfig:
		return slimConfig(o), nil
	case client.Object:
		if backend, ok := o.(*appsv1.StatefulSet); ok {
			forgetTexts(&backend.Spec.Template.Spec)
		}
		switch {
		case !workload.IsChildName(o.GetLabels()[workload.LabelServer], o.GetName()):
			return stub(o), nil
		case tooLarge(o):
			small := stub(o)
			small.SetAnnotations(map[string]string{workload.AnnotationCut: "true"})
			return small, nil
		}
	}
	return obj, nil
}

// tooLarge reports whether obj is larger than what Freehold makes. What a user
// writes in a server makes some kinds larger: those stay whole that the object with
// a proxy of the label's key controls. The garbage collector deletes the object if there
// is no such server.
func tooLarge(obj client.Object) bool {
	switch obj.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *corev1.Service:
		owner := metav1.GetControllerOfNoCopy(obj)
		if owner != nil && owner.APIVersion == v1alpha1.SchemeGroupVersion.String() && owns(owner, obj.GetLabels()[workload.LabelServer]) {
			return false
		}
	}
	sized, ok := obj.(interface{ Size() int })
	return ok && sized.Size() > childLimit
}

// owns reports whether the owner is an object with a proxy that has this key.
func owns(owner *metav1.OwnerReference, key string) bool {
	kind, ok := kinds.Named(owner.Kind)
	return ok && kind.Key(owner.Name) == key
}

// stub is an object of which no more is known than that it is there. A pass reads
// it live if it has a child's name.
func stub(obj client.Object) client.Object {
	small, ok := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
	if !ok {
		return obj
	}
	small.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	small.SetNamespace(obj.GetNamespace())
	small.SetName(obj.GetName())
	small.SetUID(obj.GetUID())
	small.SetResourceVersion(obj.GetResourceVersion())
	small.SetLabels(picked(obj.GetLabels(), workload.LabelServer))
	return small
}

// slimConfig keeps what a pass over a configuration reads: not the copy of it that
// kubectl apply keeps.
func slimConfig(config client.Object) client.Object {
	config.SetLabels(nil)
	config.SetAnnotations(picked(config.GetAnnotations(), contract.AdoptAnnotation))
	return config
}

// forgetTexts drops what the user's containers are started with, which can be a
// megabyte. The runner writes it; the operator looks at names only.
func forgetTexts(pod *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			c := &containers[i]
			c.Command, c.Args, c.Env, c.EnvFrom = nil, nil, nil, nil
		}
	}
}

// slimPod keeps what a pass reads of a pod: whose it is, which content it runs,
// how it fares and how long it may take to end. Pods are never written, so their managedFields may go too.
func slimPod(pod *corev1.Pod) *corev1.Pod {
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
		Labels:      picked(pod.Labels, workload.LabelServer, workload.LabelComponent),
		Annotations: picked(pod.Annotations, revision.AnnotationGeneration, revision.AnnotationHash, workload.AnnotationBackendHash, podtemplate.AnnotationGuards),
	}
	pod.Spec = corev1.PodSpec{TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds}
	pod.Status = corev1.PodStatus{
		Phase:                 pod.Status.Phase,
		Conditions:            pod.Status.Conditions,
		InitContainerStatuses: pod.Status.InitContainerStatuses,
		ContainerStatuses:     pod.Status.ContainerStatuses,
	}
	return pod
}

// slimEvent keeps which pod an Event is about, and what it says.
func slimEvent(e *corev1.Event) *corev1.Event {
	return &corev1.Event{
		TypeMeta: e.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: e.Namespace, Name: e.Name, UID: e.UID, ResourceVersion: e.ResourceVersion,
		},
		InvolvedObject: corev1.ObjectReference{Kind: cut(e.InvolvedObject.Kind), Name: cut(e.InvolvedObject.Name)},
		Reason:         e.Reason, // what the cache selects by
		Message:        cut(e.Message),
		LastTimestamp:  e.LastTimestamp,
	}
}

// cut is a copy, since a part of a text keeps the whole.
func cut(text string) string {
	return strings.ToValidUTF8(strings.Clone(text[:min(len(text), messageLimit)]), "")
}

// picked is a new map, since one that grew stays as large when keys go.
func picked(from map[string]string, keys ...string) map[string]string {
	to := make(map[string]string, len(keys))
	for _, key := range keys {
		if value, ok := from[key]; ok {
			to[key] = value
		}
	}
	return to
}

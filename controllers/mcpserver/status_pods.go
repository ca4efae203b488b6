package mcpserver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// trouble is the first thing that keeps a pod from running, or from being made:
// one of the proxy that carries rev, or one of the backend that runs what has
// hash.
func trouble(w world, rev revision.Revision, hash string) *conditions.Finding {
	mounting := map[string]conditions.Cures{}
	for i := range w.pods {
		pod := &w.pods[i]
		cures, wanted := conditions.OfBackend, pod.Annotations[workload.AnnotationBackendHash] == hash
		if pod.Labels[workload.LabelComponent] == workload.ComponentProxy {
			m, err := revision.Of(pod.Annotations)
			cures, wanted = conditions.OfProxy, err == nil && m == rev
		}
		if !wanted || pod.DeletionTimestamp != nil || hasEnded(pod) {
			continue
		}
		if !started(pod) {
			mounting[pod.Name] = cures
		}
		if f := conditions.PodTrouble(pod, cures); f != nil {
			return f
		}
	}
	for i := range w.mounts {
		cures, waits := mounting[w.mounts[i].InvolvedObject.Name]
		if !waits {
			continue
		}
		if f := conditions.MountTrouble(w.mounts[i].Message, cures); f != nil {
			return f
		}
	}
	if w.refusal != "" && backendHash(w.backend) == hash {
		return new(conditions.Refusal(w.refusal))
	}
	if f := paused(w, rev, hash); f != nil {
		return f
	}
	if w.proxy == nil || revisionOf(w.proxy) != rev {
		return nil
	}
	for _, c := range w.proxy.Status.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
			return new(conditions.Refusal(c.Message))
		}
	}
	return nil
}

// paused says that somebody holds the rollout of what is wanted: by spec.paused of the
// Deployment, or by a partition of the StatefulSet. Neither is a field of Freehold.
func paused(w world, rev revision.Revision, hash string) *conditions.Finding {
	d, s := w.proxy, w.backend
	if d != nil && d.Spec.Paused && revisionOf(d) == rev && (d.Status.Replicas == 0 || !w.proxyRolledOut(rev, false)) {
		return new(conditions.False(v1alpha1.ReasonPaused, fmt.Sprintf(
			"somebody has paused Deployment %[1]s, so that its pods are not replaced: kubectl rollout resume deployment/%[1]s", d.Name)))
	}
	if s == nil || backendHash(s) != hash || s.Spec.UpdateStrategy.RollingUpdate == nil || w.backendRolledOut(rev, hash, false) {
		return nil
	}
	if partition := ptr.Deref(s.Spec.UpdateStrategy.RollingUpdate.Partition, 0); partition > 0 {
		return new(conditions.False(v1alpha1.ReasonPaused, fmt.Sprintf(
			"somebody has set spec.updateStrategy.rollingUpdate.partition of StatefulSet %s to %d, so that pods below that number are not replaced: set it to 0",
			s.Name, partition)))
	}
	return nil
}

// started reports whether a container of the pod has run, which none does before
// all volumes are mounted: kubelet's complaints about mounts outlive their cause.
func started(pod *corev1.Pod) bool {
	ran := func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, ran) || slices.ContainsFunc(pod.Status.ContainerStatuses, ran)
}

// foreignPodContent names what our pod templates have that none of our managers states;
// nil for nothing.
func foreignPodContent(server *v1alpha1.MCPServer, w world) *conditions.Finding {
	var found []conditions.Foreign
	if w.proxy != nil {
		found = append(found, conditions.ForeignContent("proxy", w.proxy.ManagedFields, kinds.Of(server).ChildrenManager, w.proxy.Spec.Template.Spec))
	}
	if w.backend != nil {
		found = append(found, conditions.ForeignContent("backend", w.backend.ManagedFields, contract.RunnerBackend, w.backend.Spec.Template.Spec))
	}
	return conditions.ForeignPodContent(found...)
}

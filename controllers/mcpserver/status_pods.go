package mcpserver

import (
	"fmt"

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
	for i := range w.pods {
		if cures, wanted := wantedPod(&w.pods[i], rev, hash); wanted {
			if f := conditions.PodTrouble(&w.pods[i], w.complaints, cures); f != nil {
				return f
			}
		}
	}
	if f := w.ends(rev, hash); f != nil {
		return f
	}
	if w.refusal != "" && backendHash(w.backend) == hash {
		return new(refusedPod(w))
	}
	if f := paused(w, rev, hash); f != nil {
		return f
	}
	if w.proxy == nil || revisionOf(w.proxy) != rev {
		return nil
	}
	for _, c := range w.proxy.Status.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
			return new(conditions.Refusal(c.Message, conditions.OfProxy, w.proxy.Spec.Template.Spec))
		}
	}
	return nil
}

// refusedPod words what refuses a pod of the backend.
func refusedPod(w world) conditions.Finding {
	return conditions.Refusal(w.refusal, conditions.OfBackend, w.backend.Spec.Template.Spec)
}

// wantedPod reports whether a pod is to run what is wanted, and where what is wrong with it is
// mended.
func wantedPod(pod *corev1.Pod, rev revision.Revision, hash string) (conditions.Cures, bool) {
	here := pod.DeletionTimestamp == nil && !hasEnded(pod)
	if pod.Labels[workload.LabelComponent] == workload.ComponentProxy {
		m, err := revision.Of(pod.Annotations)
		return conditions.OfProxy, here && err == nil && m == rev
	}
	return conditions.OfBackend, here && pod.Annotations[workload.AnnotationBackendHash] == hash
}

// readiness is what is known of pods that run and are not ready, to be added to what is said of
// them all.
func readiness(server *v1alpha1.MCPServer, w world, want wanted) string {
	for i := range w.pods {
		cures, wanted := wantedPod(&w.pods[i], want.revision, want.backendHash())
		if !wanted {
			continue
		}
		cures.Upstream = "the server at spec.url"
		if kinds.Of(server).Backend {
			cures.Upstream = "the backend"
		}
		if server.Spec.Transport != v1alpha1.TransportStdio { // there our bridge listens
			cures.Port = server.Spec.Port
		}
		if text := conditions.Unready(&w.pods[i], w.complaints, cures); text != "" {
			return "; " + text
		}
	}
	return ""
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

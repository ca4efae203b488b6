package mcpserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// report says what is so: conditions with the generation they speak of in one
// apply, because readers of kstatus believe an old Ready under a new
// generation; then address and scale.
func (r *Reconciler) report(ctx context.Context, server *v1alpha1.MCPServer, w world, want wanted, applied error) error {
	if apply.Only(applied, apply.WithWatch) != nil {
		return nil //nolint:nilerr // the next pass knows more, and what wakes it is on its way
	}
	w.contests, _ = r.contests(server)
	answer := r.steady(server, v1alpha1.ConditionReady, ready(server, w, want, applied))
	found := findings(server, w, want, answer, r.Now())
	if f, missing := found[v1alpha1.ConditionFinalizerMissing]; missing {
		found[v1alpha1.ConditionFinalizerMissing] = r.steady(server, v1alpha1.ConditionFinalizerMissing, f)
	}
	said, err := r.put(ctx, server, contract.MCPServerConditions, server, r.stamp(server, found))
	if err == nil && said.Result == apply.Written {
		r.announce(server, found)
		r.announceContest(server, found)
	}
	scalars := scalarStatus(server, w, want, answer)
	if scalars == nil {
		return err
	}
	_, scaled := r.put(ctx, server, contract.MCPServerStatus, server, scalars)
	return errors.Join(err, scaled)
}

// findings are the answers to all questions, by condition type. answer is that
// of ready. What the spec asks for is reached also by a server that has stopped:
// then Ready is absent, as are Reconciling and Stalled.
func findings(server *v1alpha1.MCPServer, w world, want wanted, answer conditions.Finding, now time.Time) map[string]conditions.Finding {
	found := map[string]conditions.Finding{
		v1alpha1.ConditionReady:    answer,
		v1alpha1.ConditionAccepted: accepted(server, want),
	}
	if names := foreignPodContent(w); len(names) > 0 {
		found[v1alpha1.ConditionForeignPodContent] = conditions.True(v1alpha1.ReasonForeignContent,
			"pods of this server run content that is not Freehold's: "+strings.Join(names, ", "))
	}
	if f := contended(server, w); f != nil {
		found[v1alpha1.ConditionFieldsContended] = *f
	}
	if f := unprotected(server, w.unheld); f != nil {
		found[v1alpha1.ConditionFinalizerMissing] = *f
	}
	switch {
	case answer.Status == metav1.ConditionTrue:
	case halts(answer.Reason) && want.claimed(server) && w.stopped(server):
		delete(found, v1alpha1.ConditionReady)
		found[v1alpha1.ConditionSuspended] = conditions.True(answer.Reason, answer.Message)
	default:
		condition, f := movement(server, w, answer, now)
		found[condition] = f
	}
	return found
}

// ready answers whether calls reach the content of the spec, and nothing older.
func ready(server *v1alpha1.MCPServer, w world, want wanted, applied error) conditions.Finding {
	applied = unfought(applied)
	was := lastReason(server) == v1alpha1.ReasonReady
	halted := notServed(server, want)
	switch {
	case applied != nil && (!was || halted != nil || apply.Refused(applied) != nil):
		return refused(applied)
	// A server that is to stop, and whose spec is wrong, has not got what it asks for.
	case halted != nil && (want.renderable() || !halts(halted.Reason)):
		return *halted
	}
	if f := accepted(server, want); f.Status != metav1.ConditionTrue {
		return f
	}
	if len(want.unclaimed) > 0 {
		return unclaimedNumbers(want)
	}
	runtime := server.Status.Runtime
	if !want.claimed(server) || !w.proxyRolledOut(want.revision, was) || !w.backendRolledOut(want.revision, want.backendHash(), was) ||
		runtime == nil || runtime.ServerUID != string(server.UID) || runtime.Generation < want.revision.Generation {
		return moving(server, w, want)
	}
	if f := backendRefused(server, want); f != nil {
		return *f
	}
	if w.proxy.Status.AvailableReplicas == 0 || w.backend.Status.ReadyReplicas == 0 {
		if reason := lastReason(server); reason != v1alpha1.ReasonReady && reason != v1alpha1.ReasonUnavailable {
			return moving(server, w, want) // its pods are not up yet
		}
		if f := trouble(w, want.revision, want.backendHash()); f != nil {
			return *f
		}
		return conditions.False(v1alpha1.ReasonUnavailable, "what has rolled out is not ready: waiting for a pod of the proxy and one of the backend")
	}
	if ok, _ := answers(server, want); !ok {
		return moving(server, w, want)
	}
	return conditions.True(v1alpha1.ReasonReady, "")
}

// refused words a write that the API server refused.
func refused(err error) conditions.Finding {
	var unadoptable *apply.Unadoptable
	switch {
	case errors.As(err, &unadoptable):
		return conditions.NotAdoptable(err)
	case errors.Is(err, apply.ErrForeign):
		return conditions.NameTaken(err)
	}
	return conditions.False(v1alpha1.ReasonApplyFailed, err.Error())
}

// moving says why content has not rolled out yet. One message for the whole
// way where nothing is wrong: each step of it would be a write.
func moving(server *v1alpha1.MCPServer, w world, want wanted) conditions.Finding {
	if f := trouble(w, want.revision, want.backendHash()); f != nil {
		return *f
	}
	if f := backendRefused(server, want); f != nil {
		return *f
	}
	if _, f := answers(server, want); f != nil {
		return *f
	}
	// The first content is starting until it is ready, whatever of it is there.
	if server.Status.URL == "" || lastReason(server) == v1alpha1.ReasonStarting {
		return conditions.False(v1alpha1.ReasonStarting, "waiting for the proxy and its backend to become ready")
	}
	return conditions.False(v1alpha1.ReasonUpdating, "waiting for the new content to replace the old in proxy and backend")
}

// backendRefused says what keeps the runner from applying the backend, in the
// runner's words. That it stands back for another runner is none of it.
func backendRefused(server *v1alpha1.MCPServer, want wanted) *conditions.Finding {
	c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionBackendApplied)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason == v1alpha1.ReasonStandingBack || !want.claimed(server) {
		return nil
	}
	f := conditions.False(c.Reason, c.Message)
	return &f
}

// lastReason is the reason of Ready as it was reported last.
func lastReason(server *v1alpha1.MCPServer) string {
	if c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// trouble is the first thing that keeps a pod from running, or from being made: one
// of the proxy that carries rev, or one of the backend that runs what has hash.
func trouble(w world, rev revision.Revision, hash string) *conditions.Finding {
	mounting := map[string]conditions.Cures{}
	for i := range w.pods {
		pod := &w.pods[i]
		cures, wanted := conditions.OfBackend, pod.Annotations[workload.AnnotationBackendHash] == hash
		if pod.Labels[workload.LabelComponent] == workload.ComponentProxy {
			m, err := revision.Of(pod.Annotations)
			cures, wanted = conditions.OfProxy, err == nil && m == rev
		}
		if !wanted || pod.DeletionTimestamp != nil {
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
		f := conditions.Refusal(w.refusal)
		return &f
	}
	if w.proxy == nil || revisionOf(w.proxy) != rev {
		return nil
	}
	for _, c := range w.proxy.Status.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == corev1.ConditionTrue {
			f := conditions.Refusal(c.Message)
			return &f
		}
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

// stamp states every condition that was found, and those that cannot go, in a
// fixed order. Reconciling begins anew with each wait.
func (r *Reconciler) stamp(server *v1alpha1.MCPServer, found map[string]conditions.Finding) *v1alpha1ac.MCPServerApplyConfiguration {
	status := v1alpha1ac.MCPServerStatus().WithObservedGeneration(server.Generation)
	for _, t := range []string{
		v1alpha1.ConditionReady, v1alpha1.ConditionSuspended, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled,
		v1alpha1.ConditionAccepted, v1alpha1.ConditionForeignPodContent, v1alpha1.ConditionFieldsContended, v1alpha1.ConditionFinalizerMissing,
	} {
		live := server.Status.Conditions
		f, ok := found[t]
		if ok && t == v1alpha1.ConditionReconciling && standing(server, t, patience(server, f.Reason)) == nil {
			live = nil
		}
		if !ok {
			f, ok = held(server, t)
		}
		if ok {
			status.WithConditions(conditions.Stamp(live, t, f, server.Generation, r.Now()))
		}
	}
	return v1alpha1ac.MCPServer(server.Name, server.Namespace).WithStatus(status)
}

// scalarStatus reports address and scale. They are first stated once the
// backend has a ready pod, and while pods come up or go down one by one they
// wait until all have, since each step would be a write; not for one that is
// in trouble, which may never come. What falls is reported at once. A backend
// that an earlier server of the name left is not reported.
func scalarStatus(server *v1alpha1.MCPServer, w world, want wanted, ready conditions.Finding) *v1alpha1ac.MCPServerApplyConfiguration {
	s := server.Status
	if !w.ownBackend || (s.URL == "" && w.backend.Status.ReadyReplicas == 0) {
		return nil
	}
	replicas, up, all := w.backend.Status.Replicas, w.backend.Status.ReadyReplicas, backendReplicas(server)
	well := ready.Status == metav1.ConditionTrue || ready.Reason == v1alpha1.ReasonUpdating
	if well && trouble(w, backendRevision(w.backend), backendHash(w.backend)) == nil && s.Replicas != nil && s.ReadyReplicas != nil && (up > all || up < all && up >= *s.ReadyReplicas) {
		replicas, up = *s.Replicas, *s.ReadyReplicas
	}
	url := workload.URL(workload.OwnerOf(server), server.Spec.Proxy, server.Spec.Path)
	if s.URL != "" && !want.renderable() {
		url = s.URL // that of the content that runs
	}
	return v1alpha1ac.MCPServer(server.Name, server.Namespace).WithStatus(v1alpha1ac.MCPServerStatus().
		WithURL(url).
		WithReplicas(replicas).
		WithReadyReplicas(up).
		WithSelector(labels.SelectorFromSet(workload.Selector(server.Name, workload.ComponentBackend)).String()))
}

func isReady(server *v1alpha1.MCPServer) bool {
	return meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionReady)
}

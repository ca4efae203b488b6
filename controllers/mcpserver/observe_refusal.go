package mcpserver

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// A StatefulSet has no condition that says why its pods are not made, only Events.
// They are not watched, because there is no telling them from everybody else's:
// a server whose backend lacks pods for longer than patientFor is asked about,
// and again after each askAgain.
const (
	patientFor = 10 * time.Second
	askAgain   = 30 * time.Second
	// mostRefusals is how many Events are read at once: anybody in the namespace may
	// write more about the backend than the operator has memory for.
	mostRefusals = 200
)

// lacking returns since when a server has not been ready with a backend that
// lacks pods, and whether it does.
func (w *world) lacking(server *v1alpha1.MCPServer) (since time.Time, lacks bool) {
	ready := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionFalse || !w.ownBackend {
		return time.Time{}, false
	}
	s := w.backend
	return ready.LastTransitionTime.Time, s.Spec.Replicas != nil && s.Status.ObservedGeneration >= s.Generation && s.Status.Replicas < *s.Spec.Replicas
}

// refusal is what refused a backend's pods when it was last asked about, empty if
// nothing did.
type refusal struct {
	at    time.Time
	words string
}

// ask looks, where pods have been lacking for a while, for what refuses them, and
// returns when to look the next time, 0 for never. It looks at most once in
// askAgain, whatever wakes the pass meanwhile. That it could not look ends no
// pass: what it knew stands, and it looks again.
func (r *Reconciler) ask(ctx context.Context, server *v1alpha1.MCPServer, w *world) time.Duration {
	now := r.Now()
	since, lacks := w.lacking(server)
	if !lacks {
		r.refusals.Remove(server.UID)
		return 0
	}
	if left := since.Add(patientFor).Sub(now); left > 0 {
		return left
	}
	known, _ := r.refusals.Get(server.UID)
	last, asked := known.(refusal)
	if !asked || now.Sub(last.at) >= askAgain {
		last.at = now
		words, err := refusedPods(ctx, r.live, w.backend, since)
		if err != nil {
			logf.FromContext(ctx).Error(err, "why pods are lacking is not known", "again", askAgain.String())
		} else {
			last.words = words
		}
		r.refusals.Add(server.UID, last)
	}
	w.refusal = last.words
	return last.at.Add(askAgain).Sub(now)
}

// refusedPods is what the API server said last to whoever tried to make a pod of
// the backend, empty if that was before since.
func refusedPods(ctx context.Context, live client.Reader, backend *appsv1.StatefulSet, since time.Time) (refusal string, err error) {
	events := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.uid": string(backend.UID), "reason": "FailedCreate"}
	if err := live.List(ctx, events, client.InNamespace(backend.Namespace), about, client.Limit(mostRefusals)); err != nil {
		return "", fmt.Errorf("listing events: %w", err)
	}
	for i := range events.Items {
		if e := &events.Items[i]; !e.LastTimestamp.Time.Before(since) {
			since, refusal = e.LastTimestamp.Time, e.Message
		}
	}
	return refusal, nil
}

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
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// A StatefulSet has no condition that says why its pods are not made, only Events.
// They are not watched, because there is no telling them from everybody else's:
// a server whose backend lacks pods for longer than patientFor is asked about,
// again after askAgain, and as long as the answer is the same, or none comes, after
// twice as long each time, but no later than after askAtLeast. After a change it is
// asked about at once.
const (
	patientFor = 10 * time.Second
	askAgain   = 30 * time.Second
	askAtLeast = 8 * time.Minute
	// mostRefusals is how many Events are read at once: anybody in the namespace may
	// write more about the backend than the operator has memory for.
	mostRefusals = 200
)

// lacks reports whether the backend of a server of which ready was said lacks pods.
func (w *world) lacks(ready *metav1.Condition) bool {
	if ready == nil || ready.Status == metav1.ConditionUnknown || !w.ownBackend {
		return false
	}
	s := w.backend
	return s.Spec.Replicas != nil && s.Status.ObservedGeneration >= s.Generation && s.Status.Replicas < *s.Spec.Replicas
}

// refusal is what refused a backend's pods when it was last asked about, empty if
// nothing did, and since when this process sees that pods are lacking.
type refusal struct {
	since, at time.Time
	words     string
	// generation is that of the backend which words are about.
	generation int64
	// wait is how long it is not asked about after at.
	wait time.Duration
}

// ask looks, where pods have been lacking for a while, for what refuses them, and
// returns when to look the next time, 0 for never. It looks no earlier, whatever
// wakes the pass meanwhile. That it could not look ends no
// pass: what it knew stands, and it looks again. Ready says what is refused, or an
// Event where the server is ready with the pods that it has.
func (r *Reconciler) ask(ctx context.Context, p *pass, w *world) time.Duration {
	now, server := r.Now(), p.server
	ready := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady)
	if !w.lacks(ready) {
		r.refusals.Remove(server.UID)
		return 0
	}
	known, _ := r.refusals.Get(server.UID)
	last, seen := known.(refusal)
	if !seen {
		last.since = now
		r.refusals.Add(server.UID, last)
	}
	wording := func(words string) string {
		return conditions.Refusal(words, conditions.OfBackend, w.backend.Spec.Template.Spec).Message
	}
	since := last.since
	if ready.Status == metav1.ConditionFalse {
		since = ready.LastTransitionTime.Time
	}
	if left := since.Add(patientFor).Sub(now); left > 0 {
		return left
	}
	if last.generation != w.backend.Generation {
		last = refusal{since: last.since, generation: w.backend.Generation}
	}
	if now.Sub(last.at) >= last.wait {
		last.at, last.wait = now, min(max(askAgain, 2*last.wait), askAtLeast)
		words, err := refusedPods(ctx, r.live, w.backend, since)
		if err != nil {
			logf.FromContext(ctx).Error(err, "cannot read why pods are missing", "again", last.wait.String())
		} else if told := wording(words); told != wording(last.words) {
			if words != "" && ready.Status == metav1.ConditionTrue {
				p.Event(corev1.EventTypeWarning, v1alpha1.ReasonPodRefused, "Scale", told)
			}
			last.words, last.wait = words, askAgain
		}
		r.refusals.Add(server.UID, last)
	}
	w.refusal = last.words
	return last.at.Add(last.wait).Sub(now)
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

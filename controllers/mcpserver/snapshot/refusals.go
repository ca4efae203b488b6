package snapshot

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
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

// Refused is what refuses pods of the backend.
type Refused struct {
	// Words are those of the API server, empty if nothing is known.
	Words string
	// News says that they are others than those of the pass before.
	News bool
	// Again is when to look the next time, 0 for never.
	Again time.Duration
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

// refused looks, where pods have been lacking for a while, for what refuses them. It looks no earlier than it is
// due, whatever wakes the pass meanwhile. That it could not look ends no pass: what it knew stands, and it looks
// again.
func (r *Reader) refused(ctx context.Context, s *Snapshot) Refused {
	ready, backend := s.Last.Ready, s.Backend()
	if ready == nil || ready.Status == metav1.ConditionUnknown || !backend.Ours() || !backend.LacksPods {
		r.refusals.Remove(s.Object.GetUID())
		return Refused{}
	}
	known, _ := r.refusals.Get(s.Object.GetUID())
	last, seen := known.(refusal)
	if !seen {
		last.since = s.Now
		r.refusals.Add(s.Object.GetUID(), last)
	}
	since := last.since
	if ready.Status == metav1.ConditionFalse {
		since = ready.LastTransitionTime.Time
	}
	if left := since.Add(patientFor).Sub(s.Now); left > 0 {
		return Refused{Again: left}
	}
	if last.generation != backend.Live.Generation {
		last = refusal{since: last.since, generation: backend.Live.Generation}
	}
	news := false
	if s.Now.Sub(last.at) >= last.wait {
		last.at, last.wait = s.Now, min(max(askAgain, 2*last.wait), askAtLeast)
		words, err := refusedPods(ctx, r.Live, backend.Live, since)
		if err != nil {
			logf.FromContext(ctx).Error(err, "cannot read why pods are missing", "again", last.wait.String())
		} else if refusedPod(words, backend) != refusedPod(last.words, backend) {
			news, last.words, last.wait = true, words, askAgain
		}
		r.refusals.Add(s.Object.GetUID(), last)
	}
	return Refused{Words: last.words, News: news, Again: last.at.Add(last.wait).Sub(s.Now)}
}

// refusedPods is what the API server said last to whoever tried to make a pod of
// the backend, empty if that was before since.
func refusedPods(
	ctx context.Context, live client.Reader, backend *appsv1.StatefulSet, since time.Time,
) (refusal string, err error) {
	events := &corev1.EventList{}
	about := client.MatchingFields{"involvedObject.uid": string(backend.UID), "reason": "FailedCreate"}
	if err := live.List(ctx, events, client.InNamespace(backend.Namespace), about,
		client.Limit(mostRefusals)); err != nil {
		return "", fmt.Errorf("listing events: %w", err)
	}
	for i := range events.Items {
		if e := &events.Items[i]; !e.LastTimestamp.Time.Before(since) {
			since, refusal = e.LastTimestamp.Time, e.Message
		}
	}
	return refusal, nil
}

package snapshot

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// What a process remembers, since nothing that it can read says so. Forgetting it costs time or a claim, never a
// wrong write.

// LeftTo is how long a process leaves a server to another operator that renders its spec otherwise. Then it claims the
// server once more, so that a server is not left alone where the other is gone. A timer, because the end of another
// process is no event.
const LeftTo = 10 * time.Minute

// Held is what a process has claimed: the revision that it claimed last
// or found claimed as it would have, and since when another's stands instead.
type Held struct {
	Revision revision.Revision
	Lost     time.Time
}

// Claims are those of this process, by uid of the server.
type Claims struct{ held *lru.Cache }

// Held is the claim of a server, zero for none.
func (c Claims) Held(server types.UID) Held {
	remembered, _ := c.held.Get(server)
	held, _ := remembered.(Held)
	return held
}

// Hold notes that the process claims rev, or found that claimed.
func (c Claims) Hold(server types.UID, rev revision.Revision) {
	c.held.Add(server, Held{Revision: rev})
}

// Lose notes that another's claim stands, and reports whether that is news.
func (c Claims) Lose(server types.UID, now time.Time) (news bool) {
	held := c.Held(server)
	if news = held.Lost.IsZero(); news {
		held.Lost = now
		c.held.Add(server, held)
	}
	return news
}

// Stops are since when this process sees that a server stops, because it is deleted or wants no backend, and that
// the backend of a deleted one is gone. It is not deletionTimestamp, which is by the API server's clock.
type Stops struct{ Server, Backend time.Time }

// What is waited for. The deletion of a server that is suspended is waited for anew.
type (
	suspension struct{ server types.UID }
	deletion   struct{ server types.UID }
	itsBackend struct{ server types.UID }
)

func (r *Reader) stopsOf(s *Snapshot) (stops Stops) {
	uid := s.Object.GetUID()
	switch {
	case s.Object.GetDeletionTimestamp() != nil:
		stops.Server = r.since(deletion{uid}, s.Now)
		if !s.HasBackend() {
			stops.Backend = r.since(itsBackend{uid}, s.Now)
		}
	case kinds.BackendReplicas(s.Object) == 0:
		stops.Server = r.since(suspension{uid}, s.Now)
	default:
		r.stopping.Remove(suspension{uid})
	}
	return stops
}

// since is when this process first saw something.
func (r *Reader) since(what any, now time.Time) time.Time {
	seen, _ := r.stopping.Get(what)
	if since, ok := seen.(time.Time); ok {
		return since
	}
	r.stopping.Add(what, now)
	return now
}

// A StatefulSet has no condition that says why its pods are not made, only Events. They are not watched, because there
// is no telling them from everybody else's: a server whose backend lacks pods for longer than conditions.Patience is
// asked about, again after askAgain, and as long as the answer is the same, or none comes, after twice as long each
// time, but no later than after askAtLeast. After a change it is asked about at once.
const (
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

type refusalKey struct {
	server types.UID
	slot   workload.Slot
}

// refused looks, where pods have been lacking for a while, for what refuses them. It looks no earlier than it is due,
// whatever wakes the pass meanwhile. That it could not look ends no pass: what it knew stands, and it looks again.
func (r *Reader) refused(ctx context.Context, s *Snapshot, slot workload.Slot) Refused {
	ready, backend, key := s.Last.Ready, &s.Slots[slot].Backend, refusalKey{s.Object.GetUID(), slot}
	if ready == nil || ready.Status == metav1.ConditionUnknown || !backend.Ours() || !backend.LacksPods {
		r.refusals.Remove(key)
		return Refused{}
	}
	known, _ := r.refusals.Get(key)
	last, seen := known.(refusal)
	if !seen {
		last.since = s.Now
		r.refusals.Add(key, last)
	}
	since := last.since
	if ready.Status == metav1.ConditionFalse {
		since = ready.LastTransitionTime.Time
	}
	if left := since.Add(conditions.Patience).Sub(s.Now); left > 0 {
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
		r.refusals.Add(key, last)
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

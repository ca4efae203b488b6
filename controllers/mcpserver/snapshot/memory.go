package snapshot

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// What a process remembers, since nothing that it can read says so. Forgetting it costs time or a claim, never a
// wrong write.

// LeftTo is how long a process leaves a server to another operator that
// renders its spec otherwise. Then it claims the server once more, so that a
// server is not left alone where the other is gone. A timer, because the end of
// another process is no event.
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
	uid, backend := s.Object.GetUID(), s.Backend()
	switch {
	case s.Object.GetDeletionTimestamp() != nil:
		stops.Server = r.since(deletion{uid}, s.Now)
		if !backend.Exists() || backend.Live.DeletionTimestamp != nil {
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

package apply

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Fields of an exclusive grant that somebody changed are taken back: at once the
// first times, and then once a minute, for whoever changes them again and again
// will not stop because of us, and each write wakes everybody who watches.
const (
	takeBacks     = 3
	takeBackEvery = time.Minute
)

// Contest is what is known of fields that somebody changed after this manager
// had written them.
type Contest struct {
	Manager ownership.Manager
	Object  ownership.Object
	Key     types.NamespacedName
	// Fields are those that others hold now, in the notation of the API server's
	// conflict messages, sorted; none if what changed is held by nobody.
	Fields []string
	// By are the managers that hold them, sorted.
	By []string
	// Since is when the first of them was seen.
	Since time.Time
}

// String says what is changed, by whom and since when. It stays the same while a
// contest does.
func (c Contest) String() string {
	fields, by := "fields of "+string(c.Manager), "somebody who removes them"
	if len(c.Fields) > 0 {
		fields = someOf(c.Fields)
	}
	if len(c.By) > 0 {
		by = strings.Join(c.By, ", ")
	}
	return fmt.Sprintf("%s %s: %s, by %s, since %s", c.Object, c.Key.Name, fields, by, c.Since.UTC().Format(time.RFC3339))
}

// Fought says that fields were taken back so often that they are left as they
// are for a while. Nothing was written.
type Fought struct {
	Contest
	// Again is when the next Put would write.
	Again time.Duration
}

func (e *Fought) Error() string {
	return fmt.Sprintf("fields are changed again and again, next taken back in %s: %s", e.Again.Round(time.Second), e.Contest)
}

// contests remembers who took fields, and how often they were taken back. It
// forgets a contest that has been calm for as long as its tokens take to return.
type contests struct {
	mu   sync.Mutex
	open map[memoryKey]*contest
}

type contest struct {
	Contest
	limit *rate.Limiter
	// seen is when fields were found changed last.
	seen time.Time
}

func newContests() *contests { return &contests{open: map[memoryKey]*contest{}} }

// RetryAfter is when the next Put would write.
func (e *Fought) RetryAfter() time.Duration { return e.Again }

// lost notes that fields were found changed, and returns how long they have to
// stay so, 0 if they may be taken back now.
func (c *contests) lost(k memoryKey, found Contest, now time.Time) (Contest, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(now)
	known := c.open[k]
	if known == nil {
		found.Since = now
		known = &contest{Contest: found, limit: rate.NewLimiter(rate.Every(takeBackEvery), takeBacks)}
		c.open[k] = known
	}
	found.Since = known.Since
	known.Contest, known.seen = found, now
	if tokens := known.limit.TokensAt(now); tokens < 1 {
		return found, time.Duration((1 - tokens) * float64(takeBackEvery))
	}
	return found, 0
}

// tookBack notes that fields were taken back.
func (c *contests) tookBack(k memoryKey, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[k]; known != nil {
		known.limit.AllowN(now, 1)
	}
}

// none drops a contest that was none.
func (c *contests) none(k memoryKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, k)
}

// forget drops what is over.
func (c *contests) forget(now time.Time) {
	maps.DeleteFunc(c.open, func(_ memoryKey, known *contest) bool {
		return now.Sub(known.seen) >= takeBackEvery && known.limit.TokensAt(now) >= takeBacks
	})
}

// Contests are those over objects of a namespace in which fields were taken back
// more than once lately, ordered by object. ends is how long the last of them
// goes on if nothing more happens, 0 where there is none.
func (a *Applier) Contests(namespace string, of func(Contest) bool) (going []Contest, ends time.Duration) {
	c := a.contests
	c.mu.Lock()
	defer c.mu.Unlock()
	now := a.Now()
	c.forget(now)
	for _, known := range c.open {
		tokens := known.limit.TokensAt(now)
		if known.Key.Namespace != namespace || tokens >= takeBacks-1 || !of(known.Contest) {
			continue
		}
		going = append(going, known.Contest)
		ends = max(ends, time.Duration((takeBacks-1-tokens)*float64(takeBackEvery)))
	}
	slices.SortFunc(going, func(a, b Contest) int { return strings.Compare(a.String(), b.String()) })
	return going, ends
}

// taken returns which fields of the intent its manager lost to others in live,
// and to whom.
func (w *Writer) taken(live client.Object, in intent, subresource string) (fields, by []string, err error) {
	own, err := ownership.Applied(live.GetManagedFields(), w.manager, subresource)
	if err != nil {
		return nil, nil, err
	}
	gone := in.fields.Leaves().Difference(own)
	if gone.Empty() {
		return nil, nil, nil
	}
	lost := fieldpath.NewSet()
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == string(w.manager) && entry.Operation == metav1.ManagedFieldsOperationApply {
			continue
		}
		theirs, err := ownership.Fields(entry)
		if err != nil {
			return nil, nil, err
		}
		if both := gone.Intersection(theirs); !both.Empty() {
			lost = lost.Union(both)
			by = append(by, entry.Manager)
		}
	}
	lost.Iterate(func(p fieldpath.Path) { fields = append(fields, p.String()) })
	slices.Sort(fields)
	slices.Sort(by)
	return fields, slices.Compact(by), nil
}

// contested looks, before a write, whether it takes fields back, and returns the
// contest if so. The error is *Fought if it is too early.
func (w *Writer) contested(live client.Object, in intent, grant ownership.Grant, k memoryKey) (*Contest, error) {
	if grant.Mode != ownership.Exclusive {
		return nil, nil
	}
	last, known := w.applier.memory.get(k)
	known = known && last.uid == live.GetUID()
	same := false
	if known {
		hash, err := in.hash()
		if err != nil {
			return nil, err
		}
		if same = last.intent == hash; !same {
			return nil, nil // it has something new to say
		}
	}
	fields, by, err := w.taken(live, in, grant.Object.Subresource)
	if err != nil || (!same && len(by) == 0) {
		return nil, err
	}
	found, wait := w.applier.contests.lost(k, Contest{
		Manager: w.manager, Object: grant.Object, Key: in.key, Fields: fields, By: by,
	}, w.applier.Now())
	if wait > 0 {
		return nil, &Fought{Contest: found, Again: wait}
	}
	return &found, nil
}

// change applies an intent that live is not like, unless that is fought for. Where
// the server made of it what was there before, admission did, and nobody else.
func (w *Writer) change(ctx context.Context, live client.Object, in intent, grant ownership.Grant, k memoryKey, pre preconditions) (Outcome, error) {
	contest, err := w.contested(live, in, grant, k)
	if err != nil {
		return Outcome{}, err
	}
	outcome, err := w.send(ctx, in, grant, k, pre)
	if err != nil || contest == nil {
		return outcome, err
	}
	last, _ := w.applier.memory.get(k)
	if same, err := last.made.is(w, live, in, grant.Object.Subresource); err == nil && same {
		w.applier.contests.none(k)
		return outcome, nil
	}
	outcome.TakenBack = contest
	w.applier.contests.tookBack(k, w.applier.Now())
	return outcome, nil
}

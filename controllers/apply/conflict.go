package apply

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Fields of an exclusive grant that another writer changed are repaired at once a few times, then once a minute: a
// writer that persists does not stop because of us, and each write wakes all watchers.
const (
	repairsAtOnce = 3
	repairEvery   = time.Minute
)

// Conflict lists fields of a grant that another writer changed. Returned as an error, it means that nothing was
// written: the grant is shared and the fields belong to the other manager, or it is exclusive and the next repair
// waits.
type Conflict struct {
	// Manager holds the grant.
	Manager ownership.Manager
	Object  ownership.Object
	Key     types.NamespacedName
	// Fields were removed or have another owner, in the notation of the API server's conflict messages, sorted.
	Fields []string
	// Others are the managers that hold Fields now, sorted; empty if the fields were removed.
	Others []string
	// RequeueAfter is the time until the next repair, 0 if there is none.
	RequeueAfter time.Duration
}

// String stays the same while the conflict does.
func (c *Conflict) String() string {
	who, what := "another writer removes", someOf(c.Fields)
	switch {
	case len(c.Others) > 0:
		who = "field manager " + quoteAll(c.Others) + " overwrites"
	case what == "":
		who, what = "another writer changes", "fields of "+string(c.Manager)
	}
	return fmt.Sprintf("%s %s of %s %s", who, what, c.Object, c.Key.Name)
}

func (c *Conflict) Error() string {
	if c.RequeueAfter == 0 {
		return fmt.Sprintf("field conflict: field manager %s holds %s", quoteAll(c.Others), someOf(c.Fields))
	}
	return fmt.Sprintf("field conflict: %s again and again; the next repair is in %s", c.String(),
		c.RequeueAfter.Round(time.Second))
}

// RetryAfter is the pause before the next attempt.
func (c *Conflict) RetryAfter() time.Duration { return ShortestWait(c.RequeueAfter, MaxRetryDelay) }

func quoteAll(managers []string) string {
	var texts []string
	for _, m := range managers {
		texts = append(texts, strconv.Quote(m))
	}
	return strings.Join(texts, ", ")
}

// conflictFromCauses reads the API server's answer to an unforced apply, which names each manager in quotes.
func conflictFromCauses(causes []metav1.StatusCause) *Conflict {
	c := &Conflict{}
	for _, cause := range causes {
		c.Fields = append(c.Fields, cause.Field)
		_, manager, _ := strings.Cut(cause.Message, `"`)
		manager, _, _ = strings.Cut(manager, `"`)
		c.Others = append(c.Others, manager)
	}
	c.Fields, c.Others = merged(c.Fields, nil), merged(c.Others, nil)
	return c
}

// detectConflict returns the changes of other writers to what this manager wrote, plus what t removes. It returns nil
// for a new intent, which never waits.
func (w *Writer) detectConflict(
	live client.Object, in intent, grant ownership.Grant, k memoryKey, t *transfer,
) (*Conflict, error) {
	if grant.Mode != ownership.Exclusive {
		return nil, nil
	}
	last, known := w.applier.memory.get(k)
	known = known && last.uid == live.GetUID()
	if known {
		if hash, err := in.hash(); err != nil || last.intent != hash {
			return nil, err
		}
	}
	c, err := w.lostFields(live, in, grant)
	if err == nil && t != nil && !t.reset {
		c.Fields, c.Others = merged(c.Fields, t.fields), merged(c.Others, t.from)
	}
	if err != nil || !known && len(c.Others) == 0 {
		return nil, err // who has just started does not know what was removed
	}
	return c, nil
}

func merged(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// lostFields returns the fields of the intent that the manager does not own in live, and who does.
func (w *Writer) lostFields(live client.Object, in intent, grant ownership.Grant) (*Conflict, error) {
	c := &Conflict{Manager: w.manager, Object: grant.Object, Key: in.key}
	own, err := ownership.Applied(live.GetManagedFields(), w.manager, grant.Object.Subresource)
	if err != nil {
		return nil, err
	}
	removed := in.fields.Leaves().Difference(own)
	taken := fieldpath.NewSet()
	for _, entry := range live.GetManagedFields() {
		if entry.Manager == string(w.manager) && entry.Operation == metav1.ManagedFieldsOperationApply {
			continue
		}
		theirs, err := ownership.Fields(entry)
		if err != nil {
			return nil, err
		}
		if both := removed.Intersection(theirs); !both.Empty() {
			taken = taken.Union(both)
			c.Others = append(c.Others, entry.Manager)
		}
	}
	if taken.Empty() {
		taken = removed
	}
	taken.Iterate(func(p fieldpath.Path) { c.Fields = append(c.Fields, p.String()) })
	c.Fields, c.Others = merged(c.Fields, nil), merged(c.Others, nil)
	return c, nil
}

// repair calls write, or returns the conflict if the next repair is not yet due. A write after which the stored
// values are as before was undone by admission: that is no conflict, unless t removed something.
func (w *Writer) repair(
	live client.Object, in intent, grant ownership.Grant, k memoryKey, t *transfer,
	write func() (Outcome, error),
) (Outcome, error) {
	c, err := w.detectConflict(live, in, grant, k, t)
	if err != nil {
		return Outcome{}, err
	}
	if c == nil {
		return write()
	}
	last, _ := w.applier.memory.get(k)
	repairs := last.repairs
	if repairs == nil {
		repairs = rate.NewLimiter(rate.Every(repairEvery), repairsAtOnce)
	}
	if tokens := repairs.TokensAt(w.applier.Now()); tokens < 1 {
		c.RequeueAfter = time.Duration((1 - tokens) * float64(repairEvery))
		return Outcome{}, c
	}
	outcome, err := write()
	if err != nil {
		return Outcome{}, err
	}
	last, _ = w.applier.memory.get(k)
	if same, err := last.stored.matches(w, live, in, grant.Object.Subresource); err == nil && same && t == nil {
		return outcome, nil
	}
	repairs.AllowN(w.applier.Now(), 1)
	last.repairs = repairs
	w.applier.memory.put(k, last)
	outcome.Repaired = c
	return outcome, nil
}

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

// Fields of an exclusive grant that another writer changed are repaired: at once
// the first times, and then once a minute, for whoever changes them repeatedly
// will not stop because of us, and each write wakes everybody who watches.
const (
	repairsAtOnce = 3
	repairEvery   = time.Minute
)

// Conflict says that another writer changed fields of a grant. As an error it says
// that nothing was written: the fields of a shared grant are the other manager's,
// and those of an exclusive one were repaired so often that the next repair waits.
type Conflict struct {
	// Manager is the one whose grant it is.
	Manager ownership.Manager
	Object  ownership.Object
	Key     types.NamespacedName
	// Fields are those that others hold now or that were removed, in the notation of
	// the API server's conflict messages, sorted.
	Fields []string
	// Others are the managers that hold them, sorted; none if they were removed.
	Others []string
	// Again is when the next Apply repairs them, 0 where none will.
	Again time.Duration
}

// String says who changes what. It stays the same while the conflict does.
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
	if c.Again == 0 {
		return fmt.Sprintf("field conflict: field manager %s holds %s", quoteAll(c.Others), someOf(c.Fields))
	}
	return fmt.Sprintf("field conflict: %s again and again; the next repair is in %s", c.String(),
		c.Again.Round(time.Second))
}

// RetryAfter is when to try again.
func (c *Conflict) RetryAfter() time.Duration { return Soonest(c.Again, LaterAfter) }

func quoteAll(managers []string) string {
	var texts []string
	for _, m := range managers {
		texts = append(texts, strconv.Quote(m))
	}
	return strings.Join(texts, ", ")
}

// held is the conflict that the API server answers to an apply that is not forced.
// It names each manager in quotes.
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

// conflict looks, before a write, whether another writer changed what this manager
// had written, or wrote beside it what t takes off, and is nil if not: what has something
// new to say never waits.
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

// merged are the texts of two lists, sorted, each once.
func merged(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// lost finds which fields of the intent its manager does not own in live, and who
// does.
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

// repair writes, unless that repairs a conflict again too early: then it returns
// the conflict. Where the server made of the intent what was there before, and nothing
// was taken off, admission did, and no other writer.
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
		c.Again = time.Duration((1 - tokens) * float64(repairEvery))
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

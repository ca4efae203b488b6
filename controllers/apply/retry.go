package apply

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Retry is when a failed call is tried again.
type Retry int

// The values of Retry, from the weakest to the strongest.
const (
	// Done is for no error.
	Done Retry = iota
	// Never is for a defect that no retry cures: *NotGranted and ErrStripped.
	Never
	// WithWatch is for an object that changed or went after it was read: ErrStale, ErrExists, ErrGone, ErrReincarnated,
	// ErrOwnerGone, ErrNamespaceTerminating. The event of that change wakes the next pass.
	WithWatch
	// Later is for what only another party can change, without an event here: ErrForeign, *Unadoptable, *BadIntent, a
	// 403 or another refusal, and each error that has a RetryAfter, as *Conflict has.
	Later
	// Now is for what may pass by itself: the API server or the network did not answer, the API server was busy (5xx,
	// 408, 409, 429), or it did not know the caller (401), as while it starts. A queue retries with a growing pause.
	Now
)

// LaterAfter is the longest pause of Later, for errors without a RetryAfter.
const LaterAfter = time.Minute

type timed interface {
	error
	RetryAfter() time.Duration
}

// When returns when to try again after err; of joined errors the strongest answer counts.
func When(err error) Retry {
	if err == nil {
		return Done
	}
	when := Done
	for _, part := range Parts(err) {
		when = max(when, retryOf(part))
	}
	return when
}

func retryOf(err error) Retry {
	is := func(targets ...error) bool {
		return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
	}
	var (
		outside *NotGranted
		bad     *BadIntent
		pause   timed
		status  apierrors.APIStatus
	)
	switch {
	case errors.As(err, &pause):
		return Later
	case errors.As(err, &outside), is(ErrStripped):
		return Never
	case is(ErrForeign), errors.As(err, &bad):
		return Later
	case is(ErrStale, ErrExists, ErrGone, ErrReincarnated, ErrOwnerGone, ErrNamespaceTerminating):
		return WithWatch
	case is(context.Canceled, context.DeadlineExceeded) || !errors.As(err, &status):
		return Now
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return Now
	default:
		if code >= http.StatusBadRequest && code < http.StatusInternalServerError {
			return Later
		}
		return Now
	}
}

// Parts are the errors that errors.Join put into err.
func Parts(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, Parts(e)...)
	}
	return all
}

// Only joins the parts of err whose Retry is one of at, nil if none is.
func Only(err error, at ...Retry) error {
	return errors.Join(slices.DeleteFunc(Parts(err), func(e error) bool { return !slices.Contains(at, retryOf(e)) })...)
}

// Refused joins the parts of err that refuse a write, nil if none does: those of Later without a RetryAfter, and
// those of Never.
func Refused(err error) error {
	return errors.Join(slices.DeleteFunc(Parts(Only(err, Later, Never)), func(e error) bool {
		var own timed
		return errors.As(e, &own)
	})...)
}

// Conflicts are the field conflicts in err.
func Conflicts(err error) (conflicts []*Conflict) {
	for _, part := range Parts(err) {
		var c *Conflict
		if errors.As(part, &c) {
			conflicts = append(conflicts, c)
		}
	}
	return conflicts
}

// WithoutConflicts is err without its field conflicts, which refuse nothing: all other fields of the intent are
// applied.
func WithoutConflicts(err error) error {
	return errors.Join(slices.DeleteFunc(Parts(err), func(e error) bool { return Conflicts(e) != nil })...)
}

// After is the shortest pause before a part of err is tried again Later, 0 if there is none.
func After(err error) time.Duration {
	var after time.Duration
	for _, part := range Parts(Only(err, Later)) {
		pause := LaterAfter
		var own timed
		if errors.As(part, &own) {
			pause = own.RetryAfter()
		}
		after = Soonest(after, pause)
	}
	return after
}

// Soonest is the shortest of the waits above 0, which means never.
func Soonest(waits ...time.Duration) (first time.Duration) {
	for _, wait := range waits {
		if wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	return first
}

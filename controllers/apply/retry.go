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
	// NoRetry is for no error.
	NoRetry Retry = iota
	// Terminal is for a defect that no retry cures: *NotGranted and ErrStripped.
	Terminal
	// OnEvent is for an object that changed or went after it was read: ErrStale, ErrExists, ErrGone, ErrReincarnated,
	// ErrOwnerGone, ErrNamespaceTerminating. The event of that change wakes the next pass.
	OnEvent
	// RetryLater is for what only another party can change, without an event here: ErrForeign, *Unadoptable, *BadIntent, a
	// 403 or another refusal, and each error that has a RetryAfter, as *Conflict has.
	RetryLater
	// RetryNow is for what may pass by itself: the API server or the network did not answer, the API server was busy (5xx,
	// 408, 409, 429), or it did not know the caller (401), as while it starts. A queue retries with a growing pause.
	RetryNow
)

// MaxRetryDelay is the longest pause of RetryLater, for errors without a RetryAfter.
const MaxRetryDelay = time.Minute

type timed interface {
	error
	RetryAfter() time.Duration
}

// RetryOf returns when to try again after err; of joined errors the strongest answer counts.
func RetryOf(err error) Retry {
	if err == nil {
		return NoRetry
	}
	when := NoRetry
	for _, part := range Parts(err) {
		when = max(when, classifyRetry(part))
	}
	return when
}

func classifyRetry(err error) Retry {
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
		return RetryLater
	case errors.As(err, &outside), is(ErrStripped):
		return Terminal
	case is(ErrForeign), errors.As(err, &bad):
		return RetryLater
	case is(ErrStale, ErrExists, ErrGone, ErrReincarnated, ErrOwnerGone, ErrNamespaceTerminating):
		return OnEvent
	case is(context.Canceled, context.DeadlineExceeded) || !errors.As(err, &status):
		return RetryNow
	}
	switch code := status.Status().Code; code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return RetryNow
	default:
		if code >= http.StatusBadRequest && code < http.StatusInternalServerError {
			return RetryLater
		}
		return RetryNow
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

// OnlyRetried joins the parts of err whose Retry is one of at, nil if none is.
func OnlyRetried(err error, at ...Retry) error {
	return errors.Join(slices.DeleteFunc(Parts(err),
		func(e error) bool { return !slices.Contains(at, classifyRetry(e)) })...)
}

// Refused joins the parts of err that refuse a write, nil if none does: those of RetryLater without a
// RetryAfter, and those of Terminal.
func Refused(err error) error {
	return errors.Join(slices.DeleteFunc(Parts(OnlyRetried(err, RetryLater, Terminal)), func(e error) bool {
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

// RetryDelay is the shortest pause before a part of err is tried again by RetryLater, 0 if there is none.
func RetryDelay(err error) time.Duration {
	var after time.Duration
	for _, part := range Parts(OnlyRetried(err, RetryLater)) {
		pause := MaxRetryDelay
		var own timed
		if errors.As(part, &own) {
			pause = own.RetryAfter()
		}
		after = ShortestWait(after, pause)
	}
	return after
}

// ShortestWait is the shortest of the waits above 0, which means never.
func ShortestWait(waits ...time.Duration) (first time.Duration) {
	for _, wait := range waits {
		if wait > 0 && (first == 0 || wait < first) {
			first = wait
		}
	}
	return first
}

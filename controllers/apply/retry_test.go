package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The table is the specification: every error of an Apply, and every answer of the
// API server, has one time at which it is tried again.
func TestWhenSaysWhenAnErrorIsTriedAgain(t *testing.T) {
	at := preconditions{uid: "u"}
	for name, tc := range map[string]struct {
		err  error
		want Retry
	}{
		"an intent outside the contract": {&NotGranted{Manager: "m"}, Terminal},
		"a cache that strips":            {ErrStripped, Terminal},

		"another version":     {classify(changed, preconditions{uid: "u", resourceVersion: "7"}), OnEvent},
		"an object appeared":  {classify(changed, preconditions{create: true}), OnEvent},
		"an object is gone":   {classify(missing, at), OnEvent},
		"another incarnation": {classify(otherUID, at), OnEvent},
		"a namespace goes":    {classify(terminating, preconditions{create: true}), OnEvent},

		"a foreign object":               {ErrForeign, RetryLater},
		"one that cannot be taken":       {&Unadoptable{Err: invalid}, RetryLater},
		"a field conflict":               {&Conflict{RequeueAfter: time.Second}, RetryLater},
		"fields that others hold":        {&Conflict{}, RetryLater},
		"an intent that does not fit":    {&BadIntent{Err: errors.New("no kind")}, RetryLater},
		"a validation error":             {classify(invalid, at), RetryLater},
		"a schema error":                 {classify(schemaError, at), RetryLater},
		"no right, or a policy":          {apierrors.NewForbidden(statefulSets, "a", errors.New("no")), RetryLater},
		"an apply that is too large":     {refusal(http.StatusRequestEntityTooLarge, "", "limit is 3145728"), RetryLater},
		"a kind that the server lacks":   {apierrors.NewMethodNotSupported(statefulSets, "patch"), RetryLater},
		"the end of a caller's patience": {patience{}, RetryLater},

		"a conflict that nobody asked for": {classify(changed, at), RetryNow},
		"an unknown caller":                {apierrors.NewUnauthorized("not yet"), RetryNow},
		"a busy server":                    {apierrors.NewTooManyRequests("later", 1), RetryNow},
		"a request that took too long":     {refusal(http.StatusRequestTimeout, "", "timeout"), RetryNow},
		"a broken server": {
			refusal(http.StatusInternalServerError, "", "etcdserver: request timed out"),
			RetryNow,
		},
		"a server that starts":          {apierrors.NewServiceUnavailable("starting"), RetryNow},
		"a server that does not answer": {apierrors.NewTimeoutError("timeout", 1), RetryNow},
		"an unreachable webhook":        {apierrors.NewInternalError(errors.New("failed calling webhook")), RetryNow},
		"the network":                   {&url.Error{Op: "Patch", Err: errors.New("connection refused")}, RetryNow},
		"the end of the pass":           {context.Canceled, RetryNow},
		"a deadline":                    {context.DeadlineExceeded, RetryNow},
		"anything else":                 {errors.New("x"), RetryNow},
	} {
		t.Run(name, func(t *testing.T) {
			put := fmt.Errorf("applying Role ns/a as m: %w", tc.err)
			for _, err := range []error{tc.err, put, errors.Join(nil, errors.Join(put, nil))} {
				if got := RetryOf(err); got != tc.want {
					t.Errorf("%v is tried again %d, want %d", err, got, tc.want)
				}
			}
			if got := RetryDelay(put); (got > 0) != (tc.want == RetryLater) {
				t.Errorf("after %s", got)
			}
		})
	}
}

type patience struct{}

func (patience) Error() string             { return "another one does it" }
func (patience) RetryAfter() time.Duration { return 10 * time.Minute }

// Of several things that went wrong each counts by itself, and the strongest decides about all.
func TestEachJoinedErrorCountsByItself(t *testing.T) {
	put := func(err error) error { return fmt.Errorf("applying Role ns/a as m: %w", err) }
	var (
		never, broken  = put(&NotGranted{Manager: "m"}), put(errors.New("timeout"))
		stale          = put(fmt.Errorf("%w: %w", ErrStale, changed))
		bad, foreign   = put(&BadIntent{Err: invalid}), put(ErrForeign)
		fought, sooner = put(&Conflict{RequeueAfter: 40 * time.Second}), put(&Conflict{RequeueAfter: 5 * time.Second})
	)
	for name, tc := range map[string]struct {
		errs    []error
		when    Retry
		after   time.Duration
		refused error
	}{
		"none":                       {nil, NoRetry, 0, nil},
		"moved, and outside":         {[]error{never, stale}, OnEvent, 0, never},
		"refused, and moved":         {[]error{stale, bad}, RetryLater, time.Minute, bad},
		"refused, and outside":       {[]error{bad, never}, RetryLater, time.Minute, errors.Join(bad, never)},
		"refused, and a taken name":  {[]error{foreign, bad}, RetryLater, time.Minute, errors.Join(foreign, bad)},
		"a conflict":                 {[]error{fought}, RetryLater, 40 * time.Second, nil},
		"two conflicts":              {[]error{fought, sooner}, RetryLater, 5 * time.Second, nil},
		"a conflict, and refused":    {[]error{fought, bad}, RetryLater, 40 * time.Second, bad},
		"patience":                   {[]error{patience{}}, RetryLater, 10 * time.Minute, nil},
		"patience, and a taken name": {[]error{patience{}, foreign}, RetryLater, time.Minute, foreign},
		"broken":                     {[]error{broken}, RetryNow, 0, nil},
		"broken, and all others": {
			[]error{nil, never, stale, bad, errors.Join(fought, broken)},
			RetryNow, 40 * time.Second,
			errors.Join(never, bad),
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := errors.Join(tc.errs...)
			if got := RetryOf(err); got != tc.when {
				t.Errorf("it is tried again %d, want %d", got, tc.when)
			}
			if got := RetryDelay(err); got != tc.after {
				t.Errorf("it is tried again after %s, want %s", got, tc.after)
			}
			if got := Refused(err); fmt.Sprint(got) != fmt.Sprint(tc.refused) {
				t.Errorf("refused is %v, want %v", got, tc.refused)
			}
			if got := OnlyRetried(err, NoRetry, Terminal, OnEvent, RetryLater, RetryNow); fmt.Sprint(got) != fmt.Sprint(err) {
				t.Errorf("all of it is %v, want %v", got, err)
			}
		})
	}
}

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
		"an intent outside the contract": {&NotGranted{Manager: "m"}, Never},
		"a cache that strips":            {ErrStripped, Never},

		"another version":     {classify(changed, preconditions{uid: "u", resourceVersion: "7"}), WithWatch},
		"an object appeared":  {classify(changed, preconditions{create: true}), WithWatch},
		"an object is gone":   {classify(missing, at), WithWatch},
		"another incarnation": {classify(otherUID, at), WithWatch},
		"a namespace goes":    {classify(terminating, preconditions{create: true}), WithWatch},

		"a foreign object":               {ErrForeign, Later},
		"one that cannot be taken":       {&Unadoptable{Err: invalid}, Later},
		"a field conflict":               {&Conflict{Again: time.Second}, Later},
		"fields that others hold":        {&Conflict{}, Later},
		"an intent that does not fit":    {&BadIntent{Err: errors.New("no kind")}, Later},
		"a validation error":             {classify(invalid, at), Later},
		"a schema error":                 {classify(schemaError, at), Later},
		"no right, or a policy":          {apierrors.NewForbidden(statefulSets, "a", errors.New("no")), Later},
		"an apply that is too large":     {refusal(http.StatusRequestEntityTooLarge, "", "limit is 3145728"), Later},
		"a kind that the server lacks":   {apierrors.NewMethodNotSupported(statefulSets, "patch"), Later},
		"the end of a caller's patience": {patience{}, Later},

		"a conflict that nobody asked for": {classify(changed, at), Now},
		"an unknown caller":                {apierrors.NewUnauthorized("not yet"), Now},
		"a busy server":                    {apierrors.NewTooManyRequests("later", 1), Now},
		"a request that took too long":     {refusal(http.StatusRequestTimeout, "", "timeout"), Now},
		"a broken server": {
			refusal(http.StatusInternalServerError, "", "etcdserver: request timed out"),
			Now,
		},
		"a server that starts":          {apierrors.NewServiceUnavailable("starting"), Now},
		"a server that does not answer": {apierrors.NewTimeoutError("timeout", 1), Now},
		"an unreachable webhook":        {apierrors.NewInternalError(errors.New("failed calling webhook")), Now},
		"the network":                   {&url.Error{Op: "Patch", Err: errors.New("connection refused")}, Now},
		"the end of the pass":           {context.Canceled, Now},
		"a deadline":                    {context.DeadlineExceeded, Now},
		"anything else":                 {errors.New("x"), Now},
	} {
		t.Run(name, func(t *testing.T) {
			put := fmt.Errorf("applying Role ns/a as m: %w", tc.err)
			for _, err := range []error{tc.err, put, errors.Join(nil, errors.Join(put, nil))} {
				if got := When(err); got != tc.want {
					t.Errorf("%v is tried again %d, want %d", err, got, tc.want)
				}
			}
			if got := After(put); (got > 0) != (tc.want == Later) {
				t.Errorf("after %s", got)
			}
		})
	}
}

type patience struct{}

func (patience) Error() string             { return "another one does it" }
func (patience) RetryAfter() time.Duration { return 10 * time.Minute }

// Of several things that went wrong each counts by itself, and the strongest
// decides about all.
func TestEachJoinedErrorCountsByItself(t *testing.T) {
	put := func(err error) error { return fmt.Errorf("applying Role ns/a as m: %w", err) }
	var (
		never, broken  = put(&NotGranted{Manager: "m"}), put(errors.New("timeout"))
		stale          = put(fmt.Errorf("%w: %w", ErrStale, changed))
		bad, foreign   = put(&BadIntent{Err: invalid}), put(ErrForeign)
		fought, sooner = put(&Conflict{Again: 40 * time.Second}), put(&Conflict{Again: 5 * time.Second})
	)
	for name, tc := range map[string]struct {
		errs    []error
		when    Retry
		after   time.Duration
		refused error
	}{
		"none":                       {nil, Done, 0, nil},
		"moved, and outside":         {[]error{never, stale}, WithWatch, 0, never},
		"refused, and moved":         {[]error{stale, bad}, Later, time.Minute, bad},
		"refused, and outside":       {[]error{bad, never}, Later, time.Minute, errors.Join(bad, never)},
		"refused, and a taken name":  {[]error{foreign, bad}, Later, time.Minute, errors.Join(foreign, bad)},
		"a conflict":                 {[]error{fought}, Later, 40 * time.Second, nil},
		"two conflicts":              {[]error{fought, sooner}, Later, 5 * time.Second, nil},
		"a conflict, and refused":    {[]error{fought, bad}, Later, 40 * time.Second, bad},
		"patience":                   {[]error{patience{}}, Later, 10 * time.Minute, nil},
		"patience, and a taken name": {[]error{patience{}, foreign}, Later, time.Minute, foreign},
		"broken":                     {[]error{broken}, Now, 0, nil},
		"broken, and all others": {
			[]error{nil, never, stale, bad, errors.Join(fought, broken)},
			Now, 40 * time.Second,
			errors.Join(never, bad),
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := errors.Join(tc.errs...)
			if got := When(err); got != tc.when {
				t.Errorf("it is tried again %d, want %d", got, tc.when)
			}
			if got := After(err); got != tc.after {
				t.Errorf("it is tried again after %s, want %s", got, tc.after)
			}
			if got := Refused(err); fmt.Sprint(got) != fmt.Sprint(tc.refused) {
				t.Errorf("refused is %v, want %v", got, tc.refused)
			}
			if got := Only(err, Done, Never, WithWatch, Later, Now); fmt.Sprint(got) != fmt.Sprint(err) {
				t.Errorf("all of it is %v, want %v", got, err)
			}
		})
	}
}

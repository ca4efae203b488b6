package reconcile

import (
	"errors"
	"testing"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/controllers/apply"
)

// What is tried again and when is apply.When's to say: its table is in
// controllers/apply.
func TestTheEndOfAPassTellsTheQueueWhatToDo(t *testing.T) {
	broken, bad, outside := errors.New("timeout"), &apply.BadIntent{Err: errors.New("422")}, &apply.NotGranted{Manager: "m"}
	for name, tc := range map[string]struct {
		err      error
		after    time.Duration
		retried  bool
		terminal bool
	}{
		"no error":                           {nil, 0, false, false},
		"an object that moved":               {apply.ErrStale, 0, false, false},
		"a refused intent":                   {bad, time.Minute, false, false},
		"a field conflict":                   {&apply.Conflict{Again: 40 * time.Second}, 40 * time.Second, false, false},
		"an intent outside the contract":     {outside, 0, false, true},
		"a refused intent and one outside":   {errors.Join(outside, bad), time.Minute, false, false},
		"a broken server":                    {broken, 0, true, false},
		"a broken server and a refused one":  {errors.Join(bad, broken), 0, true, false},
		"a broken server and a moved object": {errors.Join(apply.ErrStale, broken), 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := (&Pass{}).End(t.Context(), tc.err)
			if result != (ctrl.Result{RequeueAfter: tc.after}) {
				t.Errorf("the result is %+v", result)
			}
			terminal := errors.Is(err, reconcile.TerminalError(nil))
			if terminal != tc.terminal || (err != nil && !terminal) != tc.retried {
				t.Errorf("the error is %v, terminal %t", err, terminal)
			}
			// A time beside an error would be dropped by the queue.
			if waits, err := (&Pass{due: 3 * time.Second}).End(t.Context(), tc.err); (err != nil && waits != ctrl.Result{}) || (err == nil && waits.RequeueAfter != 3*time.Second) {
				t.Errorf("with a wait the result is %+v beside %v", waits, err)
			}
			if tc.retried && errors.Is(err, apply.ErrStale) {
				t.Errorf("a wait is told as an error: %v", err)
			}
		})
	}
}

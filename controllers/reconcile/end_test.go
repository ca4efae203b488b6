package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

func pass(due time.Duration) *Pass {
	return &Pass{
		core:   &Core{lastRefused: lru.New(1), contended: &contended{fields: map[types.NamespacedName]int{}}},
		object: &v1alpha1.MCPServer{}, due: due,
	}
}

// What is tried again and when is apply.RetryOf's to say: its table is in controllers/apply.
func TestTheEndOfAPassTellsTheQueueWhatToDo(t *testing.T) {
	broken, bad, outside := errors.New("timeout"), &apply.BadIntent{Err: errors.New("422")},
		&apply.NotGranted{Manager: "m"}
	for name, tc := range map[string]struct {
		err      error
		after    time.Duration
		retried  bool
		terminal bool
	}{
		"no error":             {nil, 0, false, false},
		"an object that moved": {apply.ErrStale, 0, false, false},
		"a refused intent":     {bad, time.Second, false, false},
		"a field conflict": {
			&apply.Conflict{RequeueAfter: 40 * time.Second}, 40 * time.Second, false,
			false,
		},
		"an intent outside the contract":     {outside, 0, false, true},
		"a refused intent and one outside":   {errors.Join(outside, bad), time.Second, false, false},
		"a broken server":                    {broken, 0, true, false},
		"a broken server and a refused one":  {errors.Join(bad, broken), 0, true, false},
		"a broken server and a moved object": {errors.Join(apply.ErrStale, broken), 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := pass(0).End(t.Context(), tc.err)
			if result != (ctrl.Result{RequeueAfter: tc.after}) {
				t.Errorf("the result is %+v", result)
			}
			terminal := errors.Is(err, reconcile.TerminalError(nil))
			if terminal != tc.terminal || (err != nil && !terminal) != tc.retried {
				t.Errorf("the error is %v, terminal %t", err, terminal)
			}
			// A time beside an error would be dropped by the queue.
			if waits, err := pass(3*time.Second).End(t.Context(), tc.err); (err != nil && waits != ctrl.Result{}) ||
				(err == nil && waits.RequeueAfter != apply.ShortestWait(3*time.Second, tc.after)) {
				t.Errorf("with a wait the result is %+v beside %v", waits, err)
			}
			if tc.retried && errors.Is(err, apply.ErrStale) {
				t.Errorf("a wait is told as an error: %v", err)
			}
		})
	}
}

// What refuses may be about to learn of a right; but it may also be somebody
// who never ends, and whom a line a minute would tell nothing new.
func TestARefusalIsLoggedOnceAndTriedMoreAndMoreSlowly(t *testing.T) {
	var lines []string
	ctx := logf.IntoContext(context.Background(),
		funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	webhook := &apply.BadIntent{Err: errors.New("a webhook")}
	p := pass(0)
	for i, step := range []struct {
		err   error
		again time.Duration
		log   string
	}{
		{apply.ErrForeign, time.Second, "not controlled"},
		{apply.ErrForeign, 2 * time.Second, ""},
		{webhook, 4 * time.Second, "a webhook"},
		{webhook, 8 * time.Second, ""},
		{errors.New("timeout"), 0, ""},
		{webhook, 16 * time.Second, ""},
		{webhook, 32 * time.Second, ""},
		{webhook, time.Minute, ""},
		{webhook, time.Minute, ""},
		{nil, 0, ""},
		{webhook, time.Second, "a webhook"},
	} {
		lines, p.due = nil, 0
		result, _ := p.End(ctx, step.err)
		if said := strings.Join(lines, ""); result.RequeueAfter != step.again || (said == "") != (step.log == "") ||
			!strings.Contains(said, step.log) {
			t.Errorf("%d: again after %s, saying %q; want %s and %q", i, result.RequeueAfter, said, step.again, step.log)
		}
	}
}

// What others write is reported in new words once in a while: a Gateway's controller may count in them.
func TestWordsOfGatewaysStay(t *testing.T) {
	p := pass(0)
	p.core.Now, p.core.messageChanged = time.Now, lru.New(1)
	said := metav1.Condition{Type: v1alpha1.ConditionPublished, Status: metav1.ConditionFalse}
	said.Reason, said.Message = v1alpha1.ReasonRouteRefused, "try 1"
	p.conditions = []metav1.Condition{said}
	for _, words := range []string{"try 2", "try 3"} {
		f := p.stabilizeMessage(v1alpha1.ConditionPublished, conditions.False(v1alpha1.ReasonRouteRefused, words))
		p.conditions[0].Message = f.Message
	}
	if said := p.conditions[0].Message; said != "try 2" {
		t.Errorf("it is said: %q", said)
	}
}

// The error of what nothing rests on is logged once until it changes or ends, and ends no pass.
func TestAnErrorAsideIsLoggedOnce(t *testing.T) {
	var lines []string
	ctx := logf.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	p := pass(0)
	for _, err := range []error{errors.New("a"), errors.New("a"), errors.New("b"), nil, errors.New("b")} {
		p.logAside(ctx, "HTTPRoute", err)
	}
	if len(lines) != 3 || !strings.Contains(lines[0], `"object"="HTTPRoute"`) {
		t.Errorf("logged: %q", lines)
	}
}

package mcpserver

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// What is tried again and when is apply.When's to say: its table is in
// controllers/apply.
func TestSettleTellsTheQueueWhatToDo(t *testing.T) {
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
		"another operator":                   {rival{}, 10 * time.Minute, false, false},
		"an intent outside the contract":     {outside, 0, false, true},
		"a refused intent and one outside":   {errors.Join(outside, bad), time.Minute, false, false},
		"a broken server":                    {broken, 0, true, false},
		"a broken server and a refused one":  {errors.Join(bad, broken), 0, true, false},
		"a broken server and a moved object": {errors.Join(apply.ErrStale, broken), 0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := settle(t.Context(), tc.err)
			if result != (ctrl.Result{RequeueAfter: tc.after}) {
				t.Errorf("the result is %+v", result)
			}
			terminal := errors.Is(err, reconcile.TerminalError(nil))
			if terminal != tc.terminal || (err != nil && !terminal) != tc.retried {
				t.Errorf("the error is %v, terminal %t", err, terminal)
			}
			// A time beside an error would be dropped by the queue.
			if waits, err := settle(t.Context(), tc.err, 0, 3*time.Second); (err != nil && waits != ctrl.Result{}) || (err == nil && waits.RequeueAfter != 3*time.Second) {
				t.Errorf("with a wait the result is %+v beside %v", waits, err)
			}
			if tc.retried && errors.Is(err, apply.ErrStale) {
				t.Errorf("a wait is told as an error: %v", err)
			}
		})
	}
}

// Whoever watches events hears each new reason once, as a warning only if
// somebody has to act.
func TestAnnounceTellsWhatIsNew(t *testing.T) {
	for name, tc := range map[string]struct {
		before  edit
		of      string
		finding conditions.Finding
		want    string
	}{
		"stopped":                {said("Suspended"), "Suspended", conditions.True("Suspended", "x"), "Normal Suspended x"},
		"still stopped":          {condition("Suspended", "True", "Suspended", "x"), "Suspended", conditions.True("Suspended", "x"), ""},
		"ready":                  {said("Updating"), "Ready", conditions.True("Ready", ""), "Normal Ready calls reach the content of the spec"},
		"moving":                 {said("Ready"), "Ready", updating, "Normal Updating " + updating.Message},
		"in trouble":             {said("Updating"), "Ready", cannotPull, "Warning ImagePull " + cannotPull.Message},
		"in other trouble":       {condition("Ready", "False", "ImagePull", "another image"), "Ready", cannotPull, "Warning ImagePull " + cannotPull.Message},
		"nothing new":            {said("Ready"), "Ready", conditions.True("Ready", ""), ""},
		"the first word":         {first, "Ready", starting, "Normal Starting " + starting.Message},
		"nothing new in trouble": {condition("Ready", "False", "CrashLoop", "x"), "Ready", conditions.False("CrashLoop", "x"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := echo()
			tc.before(&scene{server: server})
			if got := heard(func(r *Reconciler) { r.announce(server, map[string]conditions.Finding{tc.of: tc.finding}) }); got != tc.want {
				t.Errorf("heard %q, want %q", got, tc.want)
			}
		})
	}
}

// The API refuses notes of more than 1 kB, and text that is none.
func TestAnEventIsShortAndText(t *testing.T) {
	for _, note := range []string{strings.Repeat("a", 5000), strings.Repeat("é", 5000), "a" + strings.Repeat("é", 5000), strings.Repeat("\xffa", 2500)} {
		got := heard(func(r *Reconciler) { r.event(echo(), "Normal", "R", "A", note) })
		if text := strings.TrimPrefix(got, "Normal R "); len(text) > 1024 || len(text) < 990 || strings.ToValidUTF8(text, "") != text {
			t.Errorf("the note has %d bytes and begins with %q", len(text), text[:8])
		}
	}
}

// heard is the one event that a call records, empty if there is none.
func heard(call func(*Reconciler)) string {
	recorder := events.NewFakeRecorder(2)
	call(&Reconciler{events: recorder})
	close(recorder.Events)
	var all []string
	for e := range recorder.Events {
		all = append(all, e)
	}
	return strings.Join(all, "; ")
}

// A Deployment of another hand is left alone also where the server is suspended:
// the pass looks again after a while, and does not fail.
func TestAnotherHandsDeploymentIsNotStopped(t *testing.T) {
	r, s := settled(t)
	server := read(s)
	server.Spec.Suspend = true
	s.put(server)
	s.put(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: workload.ProxyName("echo"), UID: "another", ResourceVersion: "5000",
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: "helm", Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`),
		}},
	}})
	result, err := r.Reconcile(t.Context(), theServer)
	if err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("got %v and %v, want another look in %s", result, err, time.Minute)
	}
}

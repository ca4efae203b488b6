package reconcile

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// heard is the one event that a call records about an object with these
// conditions, which was in a phase before, empty if there is none.
func heard(live []metav1.Condition, before v1alpha1.WorkloadPhase, call func(*Pass)) string {
	recorder := events.NewFakeRecorder(2)
	call(&Pass{
		core: &Core{
			Events: recorder,
			Kind: Kind{
				NormalReasons: []string{"Starting"}, SilentReasons: []string{"Waiting"},
				SilentRecoveries: []v1alpha1.WorkloadPhase{v1alpha1.PhasePending},
			},
		},
		object: &v1alpha1.MCPServer{}, conditions: live, Before: before,
	})
	close(recorder.Events)
	var all []string
	for e := range recorder.Events {
		all = append(all, e)
	}
	return strings.Join(all, "; ")
}

// Whoever watches events hears each new reason once, as a warning only if somebody has to act.
func TestAnnounceTellsWhatIsNew(t *testing.T) {
	stands := func(reason, message string) []metav1.Condition {
		status := metav1.ConditionFalse
		if reason == "Ready" {
			status = metav1.ConditionTrue
		}
		return []metav1.Condition{{Type: "Ready", Status: status, Reason: reason, Message: message}}
	}
	conflict := metav1.Condition{Type: v1alpha1.ConditionFieldConflict, Status: metav1.ConditionTrue}
	for name, tc := range map[string]struct {
		before  []metav1.Condition
		of      string
		finding conditions.Finding
		want    string
	}{
		"the first word":          {nil, "Ready", conditions.False("Starting", "x"), "Normal Starting x"},
		"moving":                  {stands("Ready", "x"), "Ready", conditions.False("Starting", "y"), "Normal Starting y"},
		"waiting":                 {stands("Starting", "x"), "Ready", conditions.False("Waiting", "y"), ""},
		"after it waited":         {stands("Waiting", "x"), "Ready", conditions.True("Ready", "y"), ""},
		"stopped while it waited": {stands("Waiting", "x"), "Ready", conditions.False("Deleting", "y"), "Normal Deleting y"},
		"in trouble": {
			stands("Starting", ""), "Ready", conditions.False("ImagePull", "x"),
			"Warning ImagePull x",
		},
		"in other trouble": {
			stands("ImagePull", "another image"), "Ready", conditions.False("ImagePull", "x"),
			"Warning ImagePull x",
		},
		"nothing new":            {stands("Starting", "x"), "Ready", conditions.False("Starting", "x"), ""},
		"nothing new in trouble": {stands("CrashLoop", "x"), "Ready", conditions.False("CrashLoop", "x"), ""},
		"going":                  {stands("Ready", "x"), "Ready", conditions.False("Deleting", "y"), "Normal Deleting y"},
		"stopped": {
			stands("Ready", "x"), "Suspended", conditions.True("Suspended", "x"),
			"Warning Suspended x",
		},
		"another condition": {nil, "Accepted", conditions.True("Accepted", "x"), ""},
		"a conflict":        {nil, conflict.Type, conditions.True("FieldConflict", "x"), "Warning FieldConflict x"},
		"that goes on":      {[]metav1.Condition{conflict}, conflict.Type, conditions.True("FieldConflict", "x"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			phase := v1alpha1.PhaseFailing
			if len(tc.before) > 0 && tc.before[0].Reason == "Waiting" {
				phase = v1alpha1.PhasePending
			}
			if got := heard(tc.before, phase, func(p *Pass) {
				p.announce(map[string]conditions.Finding{tc.of: tc.finding})
			}); got != tc.want {
				t.Errorf("heard %q, want %q", got, tc.want)
			}
		})
	}
}

// The API refuses notes of more than 1 kB, and text that is none.
func TestAnEventIsShortAndText(t *testing.T) {
	for _, note := range []string{
		strings.Repeat("a", 5000), strings.Repeat("é", 5000), "a" + strings.Repeat("é", 5000),
		strings.Repeat("\xffa", 2500),
	} {
		got := heard(nil, "", func(p *Pass) { p.Event("Normal", "R", "A", note) })
		if text := strings.TrimPrefix(got, "Normal R "); len(text) > 1024 || len(text) < 990 ||
			strings.ToValidUTF8(text, "") != text {
			t.Errorf("the note has %d bytes and begins with %q", len(text), text[:8])
		}
	}
}

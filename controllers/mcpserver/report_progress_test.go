package mcpserver

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// What waiting may mend is Reconciling for as long as the user says.
func TestHowLongAReasonMayLast(t *testing.T) {
	for reason, want := range map[string]time.Duration{
		"SpecInvalid": 0, "NameTaken": 0, "ImagePull": 2 * time.Minute, "NotMCP": 2 * time.Minute,
		"CrashLoop": 10 * time.Minute, "MissingReference": 10 * time.Minute, "Updating": 10 * time.Minute,
	} {
		if got := plan.Limit(echo(), waitFor(reason).Phase); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
	}
}

// Pods that become ready again and again hold the servers that come after for three
// times the patience, not for ever; a change of its own holds nobody.
func TestATurnHasAnEnd(t *testing.T) {
	for rolls, want := range map[bool]string{true: v1alpha1.ConditionStalled, false: v1alpha1.ConditionReconciling} {
		s := up(said(v1alpha1.ReasonUpdating),
			condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonUpdating, ""))
		moving := &s.server.Status.Conditions[1]
		moving.ObservedGeneration, moving.LastTransitionTime = s.server.Generation, metav1.NewTime(noon)
		s.server.Status.Workload.ConfigRollout = rolls
		for _, at := range []time.Duration{20 * time.Minute, 29 * time.Minute, 31 * time.Minute} {
			now := noon.Add(at)
			s.world.Pods[0].Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
			}}
			got := moves(s.at(now), updating.Reason)
			due := waitFor(updating.Reason).Deadline(s.at(now))
			if at < 30*time.Minute && (got != v1alpha1.ConditionReconciling || due <= 0) {
				t.Errorf("for a configuration %t: after %s it is %s, and looked at again after %s", rolls, at, got, due)
			}
			if at > 30*time.Minute && got != want {
				t.Errorf("for a configuration %t: after %s it is %s, want %s", rolls, at, got, want)
			}
		}
	}
}

// A wrong spec changes nothing of what has served: what runs is compared with itself, and not
// with what the spec would render.
func TestContentThatServesIsCompleteBesideAWrongSpec(t *testing.T) {
	otherSpec := func(s *scene) { s.digest.Backend = "other" }
	kept := func(s *scene) { s.digest.Problems = podtemplate.Problems{{Field: "spec", Message: "no"}} }
	for name, tc := range map[string]struct {
		edits []edit
		want  bool
	}{
		"what the spec says":        {nil, true},
		"not yet what it says":      {[]edit{otherSpec}, false},
		"beside a wrong one":        {[]edit{otherSpec, kept}, true},
		"beside a wrong one, ended": {[]edit{otherSpec, kept, noBackend}, false},
	} {
		if up(tc.edits...).plan().Verdict.Complete != tc.want {
			t.Errorf("%s: complete is %t", name, !tc.want)
		}
	}
}

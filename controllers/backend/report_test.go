package backend

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// The words of a refusal that stands change once a minute, whatever differs. Those
// of another reason or another workload generation are said at once.
func TestARefusalIsRewordedOnceAMinute(t *testing.T) {
	r := runner(t)
	now := r.Now()
	r.Now = func() time.Time { return now }
	for _, step := range []struct {
		after           time.Duration
		stands, refusal string
		reason          string
		generation      int64
		want            string
	}{
		{0, "by images", "by quota 1", v1alpha1.ReasonApplyFailed, 3, "by quota 1"},
		{time.Second, "by quota 1", "by images", v1alpha1.ReasonApplyFailed, 3, "by quota 1"},
		{time.Second, "by quota 1", "by quota 2", v1alpha1.ReasonApplyFailed, 3, "by quota 1"},
		{time.Second, "by quota 1", "by images", v1alpha1.ReasonApplyFailed, 2, "by images"},
		{time.Second, "by quota 1", "by images", v1alpha1.ReasonNameTaken, 3, "by images"},
		{time.Minute, "by quota 1", "by quota 2", v1alpha1.ReasonApplyFailed, 3, "by quota 2"},
		{time.Second, "by quota 2", "by quota 1", v1alpha1.ReasonApplyFailed, 3, "by quota 2"},
	} {
		now = now.Add(step.after)
		s := server(r, func(s *v1alpha1.MCPServer) {
			s.Status.Runtime = &v1alpha1.RuntimeStatus{Generation: step.generation, ServerUID: "u1"}
			s.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionBackendApplied, Status: metav1.ConditionFalse, Reason: step.reason, Message: step.stands,
			}}
		})
		if got, err := r.finding(s, &apply.BadIntent{Err: errors.New(step.refusal)}); got.Message != step.want || err == nil {
			t.Errorf("%+v: it says %q (%v)", step, got.Message, err)
		}
	}
}

// A writer that takes the generation out of a condition of ours does not make us
// state 0, which no stored condition has: we would state it again and again.
func TestAConditionSpeaksOfAGenerationThatWas(t *testing.T) {
	said := conditions.True("Answers", "m")
	for name, tc := range map[string]struct {
		stands metav1.Condition
		want   int64
	}{
		"none": {metav1.Condition{}, 7},
		"the same": {metav1.Condition{
			Type: "BackendAnswers", Status: "True", Reason: "Answers", Message: "m",
			ObservedGeneration: 3,
		}, 3},
		"another": {metav1.Condition{
			Type: "BackendAnswers", Status: "False", Reason: "Answers", Message: "m",
			ObservedGeneration: 3,
		}, 7},
		"of no generation": {metav1.Condition{Type: "BackendAnswers", Status: "True", Reason: "Answers", Message: "m"}, 7},
	} {
		server := &v1alpha1.MCPServer{
			ObjectMeta: metav1.ObjectMeta{Generation: 7},
			Status: v1alpha1.MCPServerStatus{
				ProxyWorkloadStatus: v1alpha1.ProxyWorkloadStatus{Conditions: []metav1.Condition{tc.stands}},
			},
		}
		if got := observedGeneration(server, "BackendAnswers", said); got != tc.want {
			t.Errorf("%s: it speaks of %d, want %d", name, got, tc.want)
		}
	}
}

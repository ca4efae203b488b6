package conditions

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/printable"
)

// maxMessage is the longest message of metav1.Condition. Its schema counts
// characters; counting bytes is never longer.
const maxMessage = 32768

// unspecified stands where a finding has no reason: the schema wants one.
const unspecified = "Unspecified"

// Stamp is the condition that states a finding. All of its leaves are stated,
// also an empty message, which the schema requires.
//
// lastTransitionTime is now, to the second and in UTC, or that of the live
// condition of this type while its status is the same. So live must be the
// conditions that the object has: with older ones the time flips back.
//
// The message is made printable, and cut to 32768 bytes.
func Stamp(
	live []metav1.Condition, conditionType string, f Finding, observedGeneration int64,
	now time.Time,
) *metav1ac.ConditionApplyConfiguration {
	status := cmp.Or(f.Status, metav1.ConditionUnknown)
	return metav1ac.Condition().
		WithType(conditionType).
		WithStatus(status).
		WithReason(cmp.Or(f.Reason, unspecified)).
		WithMessage(message(f.Message)).
		WithObservedGeneration(observedGeneration).
		WithLastTransitionTime(since(live, conditionType, status, now))
}

// since is the moment from which the status holds.
func since(live []metav1.Condition, conditionType string, status metav1.ConditionStatus, now time.Time) metav1.Time {
	last := meta.FindStatusCondition(live, conditionType)
	if last != nil && last.Status == status && !last.LastTransitionTime.IsZero() {
		now = last.LastTransitionTime.Time
	}
	return metav1.NewTime(now.UTC().Truncate(time.Second))
}

func message(text string) string {
	text = printable.Text(text)
	return strings.ToValidUTF8(text[:min(len(text), maxMessage)], "") // without half a character
}

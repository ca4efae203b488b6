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

// maxMessage is the limit of metav1.Condition in characters; counting bytes is never longer.
const maxMessage = 32768

// unspecified replaces an empty reason, which the schema refuses.
const unspecified = "Unspecified"

// Stamp is the condition for a finding. It states all leaves, also an empty message, which the schema requires.
//
// lastTransitionTime is now, to the second and in UTC, or that of the live condition with the same type and status.
// So live must be current: older conditions would set the time back.
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

// Package clock is bad input: conditions that read the clock.
package clock

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

func built() any {
	now := time.Now()
	rounded := metav1.NewTime(now.UTC().Truncate(time.Second))
	return []any{
		// want `a condition reads the clock here`
		metav1ac.Condition().WithType("Ready").WithLastTransitionTime(metav1.Now()),
		metav1ac.Condition().WithLastTransitionTime(metav1.NewTime(time.Now())).WithStatus("True"), // want `reads the clock`
		metav1ac.Condition().WithLastTransitionTime(rounded),                                       // want `reads the clock`
		metav1ac.Condition().WithMessage(fmt.Sprintf("since %s", now)),                             // want `reads the clock`
		appsv1ac.DeploymentCondition().WithLastUpdateTime(metav1.Time{Time: now}),                  // want `reads the clock`
	}
}

func written(condition *metav1.Condition) []any {
	condition.LastTransitionTime = metav1.Now() // want `reads the clock`
	t := metav1.Now()
	return []any{
		metav1.Condition{Type: "Ready", LastTransitionTime: metav1.Now()},   // want `reads the clock`
		&appsv1.DeploymentCondition{LastUpdateTime: t},                      // want `reads the clock`
		metav1ac.ConditionApplyConfiguration{LastTransitionTime: &t},        // want `reads the clock`
		metav1ac.ConditionApplyConfiguration{LastTransitionTime: new(t)},    // want `reads the clock`
		corev1.PodCondition{LastProbeTime: metav1.Time{Time: t.Time.UTC()}}, // want `reads the clock`
	}
}

func set(conditions *[]metav1.Condition, at metav1.Time) {
	// want `SetStatusCondition reads the clock`
	meta.SetStatusCondition(conditions, metav1.Condition{Type: "Ready", LastTransitionTime: at})
}

// told is how it is done: the time is an argument, and that of the live condition is kept.
func told(live []metav1.Condition, now time.Time) any {
	if last := meta.FindStatusCondition(live, "Ready"); last != nil {
		now = last.LastTransitionTime.Time
	}
	return metav1ac.Condition().WithLastTransitionTime(metav1.NewTime(now)).WithMessage(fmt.Sprint(len(live)))
}

type moments struct{ seen, last metav1.Time }

func since(now metav1.Time) metav1.Time { return metav1.Time{Time: now.Truncate(time.Hour)} }

// elsewhere the clock may be read.
func elsewhere(live []metav1.Condition) any {
	began := time.Now()
	stood := moments{seen: metav1.Now()}
	metav1ac.Condition().WithLastTransitionTime(stood.last).WithLastTransitionTime(since(metav1.Now()))
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Now()}}
	return []any{told(live, began), pod, time.Since(began)}
}

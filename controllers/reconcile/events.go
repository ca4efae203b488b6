package reconcile

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/printable"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/metrics"
)

// The API refuses notes of more than 1 kB.
const noteLimit = 1000

// Event records an Event about the pass's object.
func (p *Pass) Event(kind, reason, action, note string) {
	note = printable.Text(note)
	if len(note) > noteLimit {
		note = strings.ToValidUTF8(note[:noteLimit], "") // without half a character
	}
	p.core.Events.Eventf(p.object, nil, kind, reason, action, "%s", note)
}

// Claimed counts a claimed workload generation and records what it changes. The first one gets no Event: the author
// of the object knows of it, and Ready reports it.
func (p *Pass) Claimed(generation int64, changes string) {
	metrics.Claims.WithLabelValues(p.core.Kind.Kind).Inc()
	if generation > 1 {
		p.Event(corev1.EventTypeNormal, "WorkloadClaimed", "Claim",
			fmt.Sprintf("workload generation %d: %s", generation, changes))
	}
}

// announce records an Event if Ready (or Suspended, where Ready is absent) changed, unless the reason is silent, and
// if a field conflict begins. found has the messages as stated.
func (p *Pass) announce(found map[string]conditions.Finding) {
	conditionType := v1alpha1.ConditionReady
	if _, runs := found[conditionType]; !runs {
		conditionType = v1alpha1.ConditionSuspended
	}
	c := meta.FindStatusCondition(p.conditions, conditionType)
	f, ok := found[conditionType]
	silent := slices.Contains(p.core.Kind.SilentReasons, f.Reason) ||
		f.Status == metav1.ConditionTrue && slices.Contains(p.core.Kind.SilentRecoveries, p.Before)
	if ok && !silent && !f.SaidBy(c) {
		kind := corev1.EventTypeWarning
		if f.Reason == v1alpha1.ReasonDeleting || slices.Contains(p.core.Kind.NormalReasons, f.Reason) {
			kind = corev1.EventTypeNormal
		}
		p.Event(kind, f.Reason, "Reconcile", f.Message)
	}
	f, ok = found[v1alpha1.ConditionFieldConflict]
	if ok && !meta.IsStatusConditionTrue(p.conditions, v1alpha1.ConditionFieldConflict) {
		p.Event(corev1.EventTypeWarning, "FieldConflict", "Repair", f.Message)
	}
}

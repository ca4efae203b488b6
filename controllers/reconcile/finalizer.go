package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// AddFinalizer adds the finalizer, and returns false if it was just added or the object changed: that event wakes the
// next pass. If the API server refuses the write, the pass continues without a finalizer, and Report says so.
func (p *Pass) AddFinalizer(ctx context.Context) (on bool, err error) {
	intent := p.intent()
	intent.WithFinalizers(p.core.Kind.Finalizer)
	applied, err := p.Apply(ctx, p.core.Kind.FinalizerManager, p.object, intent)
	p.finalizerErr = err
	p.warnOfSharedFinalizer(applied)
	return apply.RetryOf(err) != apply.OnEvent && (err != nil || applied.Result == apply.Unchanged), err
}

// HasFinalizer reports whether the object has the finalizer.
func (p *Pass) HasFinalizer() bool {
	return slices.Contains(p.object.GetFinalizers(), p.core.Kind.Finalizer)
}

// SyncFinalizer is AddFinalizer while needed. Else it gives up the finalizer, which stays if another manager owns it
// too.
func (p *Pass) SyncFinalizer(ctx context.Context, needed bool) (on bool, err error) {
	if needed {
		return p.AddFinalizer(ctx)
	}
	p.unneeded = true
	if !p.HasFinalizer() {
		return true, nil
	}
	err = p.core.Applier.As(p.core.Kind.FinalizerManager).Release(ctx, p.object)
	return apply.RetryOf(err) != apply.OnEvent, err
}

// RemoveFinalizer removes the finalizer also where other managers own it: the object would otherwise stay for ever.
func (p *Pass) RemoveFinalizer(ctx context.Context) error {
	if !p.HasFinalizer() {
		return nil
	}
	from, err := p.core.Applier.As(p.core.Kind.FinalizerManager).RemoveFinalizer(ctx, p.object, p.core.Kind.Finalizer)
	if err == nil && len(from) > 0 {
		p.Event(corev1.EventTypeNormal, "FinalizerRemoved", "Delete", fmt.Sprintf(
			"removed the finalizer %s, which %s owned too", p.core.Kind.Finalizer, strings.Join(from, ", ")))
	}
	return p.ReportRefusal(ctx, err)
}

// warnOfSharedFinalizer records once that other managers state the finalizer too: their manifest brings it back, to
// this object or to another one made of it.
func (p *Pass) warnOfSharedFinalizer(applied apply.Outcome) {
	if applied.Result != apply.Configured {
		return
	}
	path := ownership.MustPath(`metadata.finalizers[="` + p.core.Kind.Finalizer + `"]`)
	holders, err := ownership.Owners(p.object.GetManagedFields(), path)
	if err != nil {
		return // what cannot be read is nobody's
	}
	var others []string
	for _, h := range holders {
		if h.Manager != string(p.core.Kind.FinalizerManager) || h.Operation != metav1.ManagedFieldsOperationApply {
			others = append(others, h.Manager)
		}
	}
	if len(others) > 0 {
		p.Event(corev1.EventTypeWarning, "FinalizerShared", "Hold", fmt.Sprintf(
			"%s states the finalizer %s too, as an export of another object does: take it out of the manifest; Freehold "+
				"removes it when the object is deleted",
			strings.Join(others, ", "), p.core.Kind.Finalizer))
	}
}

// ReportDeleting reports the progress of the deletion once, under condition: Reconciling, or Stalled if a person must
// act.
func (p *Pass) ReportDeleting(ctx context.Context, condition, message string) error {
	return p.Report(ctx, map[string]conditions.Finding{
		v1alpha1.ConditionReady: conditions.False(v1alpha1.ReasonDeleting, message),
		condition:               conditions.True(v1alpha1.ReasonDeleting, message),
	})
}

// ReportRefusal reports the refusals in err, which keep the object from going, and returns err. The object is
// Reconciling, because the cause may pass, and Stalled once it was refused for RefusalTimeout: until then Stalled is
// False, which records since when. Stalled that was True of this deletion stays so, whatever else is refused.
func (p *Pass) ReportRefusal(ctx context.Context, err error) error {
	refused := apply.Refused(err)
	if refused == nil {
		return err
	}
	const reason = v1alpha1.ReasonApplyFailed
	found := map[string]conditions.Finding{v1alpha1.ConditionReady: conditions.False(reason, refused.Error())}
	stalled := meta.FindStatusCondition(p.conditions, v1alpha1.ConditionStalled)
	begins := stalled == nil || stalled.ObservedGeneration != p.object.GetGeneration()
	switch {
	case begins:
		p.RestartTransition(v1alpha1.ConditionReconciling)
		p.RestartTransition(v1alpha1.ConditionStalled)
	case stalled.Status == metav1.ConditionTrue,
		p.core.Now().Sub(stalled.LastTransitionTime.Time) >= p.RefusalTimeout:
		found[v1alpha1.ConditionStalled] = conditions.True(reason, refused.Error())
		return errors.Join(err, p.Report(ctx, found))
	}
	found[v1alpha1.ConditionReconciling] = conditions.True(reason, refused.Error())
	found[v1alpha1.ConditionStalled] = conditions.False(reason, fmt.Sprintf(
		"the deletion is tried again; it is stalled once it was refused for %s", p.RefusalTimeout))
	return errors.Join(err, p.Report(ctx, found))
}

// finalizerMissing is the finding that the object lacks the finalizer, and why.
func (p *Pass) finalizerMissing() (conditions.Finding, bool) {
	if p.core.Kind.Finalizer == "" || p.unneeded || p.HasFinalizer() || p.object.GetDeletionTimestamp() != nil {
		return conditions.Finding{}, false
	}
	reason, why := v1alpha1.ReasonFieldConflict, "it is removed again and again: take it out of what removes it"
	if refused := apply.WithoutConflicts(p.finalizerErr); refused != nil {
		reason, why = v1alpha1.ReasonApplyFailed, refused.Error()
	}
	return conditions.True(reason,
		fmt.Sprintf("the object lacks the finalizer %s, without which its deletion is not done in order: %s",
			p.core.Kind.Finalizer, why)), true
}

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// intent states metadata and status of the pass's object, whatever its kind is.
type intent struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`
	Status                                 *statusIntent `json:"status,omitempty"`
}

type statusIntent struct {
	ObservedGeneration *int64                                  `json:"observedGeneration,omitempty"`
	Phase              v1alpha1.WorkloadPhase                  `json:"phase,omitempty"`
	ServedGeneration   int64                                   `json:"servedGeneration,omitempty"`
	Conditions         []*metav1ac.ConditionApplyConfiguration `json:"conditions,omitempty"`
}

// IsApplyConfiguration marks intent for the client.
func (*intent) IsApplyConfiguration() {}

func (p *Pass) intent() *intent {
	in := &intent{ObjectMetaApplyConfiguration: metav1ac.ObjectMeta().WithName(p.object.GetName()).
		WithNamespace(p.object.GetNamespace())}
	in.WithAPIVersion(p.core.Kind.GroupVersion().String()).WithKind(p.core.Kind.Kind)
	return in
}

// Report states the conditions with their generation in one apply: readers of kstatus would believe an old Ready
// under a new generation. It adds FinalizerMissing, UnknownFields, and conditions that other managers hold; all
// others go. Changes are also recorded as Events.
func (p *Pass) Report(ctx context.Context, found map[string]conditions.Finding) error {
	status := &statusIntent{ObservedGeneration: new(p.object.GetGeneration()), Phase: p.Phase, ServedGeneration: p.Served}
	stated := map[string]conditions.Finding{} // what was found, in the words that are stated
	for _, t := range p.core.Kind.Conditions {
		f, ok := found[t]
		if ok {
			f = p.stabilizeMessage(t, f)
			stated[t] = f
		}
		if !ok && t == v1alpha1.ConditionFinalizerMissing {
			f, ok = p.finalizerMissing()
			f = p.stabilizeMessage(t, f)
		}
		if !ok && t == v1alpha1.ConditionUnknownFields {
			f, ok = p.unknownFields()
		}
		if !ok {
			f, ok = p.heldByOthers(t)
		}
		if ok {
			status.Conditions = append(status.Conditions,
				conditions.Stamp(p.conditions, t, f, p.object.GetGeneration(), p.core.Now()))
		}
	}
	intent := p.intent()
	intent.Status = status
	written, err := p.Apply(ctx, p.core.Kind.ConditionsManager, p.object, intent)
	if err == nil && written.Result == apply.Configured {
		p.announce(stated)
	}
	return err
}

// RestartTransition makes the transition time of a condition start now, though its status stays.
func (p *Pass) RestartTransition(conditionType string) {
	p.conditions = slices.DeleteFunc(slices.Clone(p.conditions),
		func(c metav1.Condition) bool { return c.Type == conditionType })
}

type conditionKey struct {
	object    types.UID
	condition string
}

var unstableReasons = []string{
	v1alpha1.ReasonApplyFailed, v1alpha1.ReasonNotAdoptable, v1alpha1.ReasonCrashLoop, v1alpha1.ReasonPodRefused,
	v1alpha1.ReasonMissingReference,
	v1alpha1.ReasonVolumeNotMounted, v1alpha1.ReasonPodNotStarted, v1alpha1.ReasonProbeFailed, v1alpha1.ReasonEvicted,
	v1alpha1.ReasonStarting, v1alpha1.ReasonUpdating, v1alpha1.ReasonUnavailable, v1alpha1.ReasonRouteRefused,
}

// stabilizeMessage keeps the reported message of an unstable reason and the same generation for a while.
func (p *Pass) stabilizeMessage(conditionType string, f conditions.Finding) conditions.Finding {
	reported := meta.FindStatusCondition(p.conditions, conditionType)
	if !slices.Contains(unstableReasons, f.Reason) || !f.RewordedBy(reported) ||
		reported.ObservedGeneration != p.object.GetGeneration() {
		return f
	}
	key := conditionKey{p.object.GetUID(), conditionType}
	remembered, _ := p.core.messageChanged.Get(key)
	changed, _ := remembered.(time.Time)
	stable := f.Stabilized(reported, changed, p.core.Now())
	if stable == f {
		p.core.messageChanged.Add(key, p.core.Now())
	}
	return stable
}

// unknownFields finds fields of the spec that this program's schema lacks. A spec without any is checked once.
func (p *Pass) unknownFields() (conditions.Finding, bool) {
	if known, ok := p.core.schemaChecked.Get(p.object.GetUID()); ok && known == p.object.GetGeneration() {
		return conditions.Finding{}, false
	}
	f := conditions.UnknownFields(p.object, p.core.Kind.GroupVersion().String(), p.object.GetManagedFields())
	if f == nil {
		p.core.schemaChecked.Add(p.object.GetUID(), p.object.GetGeneration())
		return conditions.Finding{}, false
	}
	return *f, true
}

// heldByOthers is the finding for a condition that was not found, but that another manager states as well. Without
// our part it would be incomplete, and the API server would refuse the whole report. So it stays, as False.
func (p *Pass) heldByOthers(conditionType string) (conditions.Finding, bool) {
	if meta.FindStatusCondition(p.conditions, conditionType) == nil {
		return conditions.Finding{}, false
	}
	item := ownership.MustPath("status.conditions[type=" + conditionType + "].type")
	owners, err := ownership.Owners(p.object.GetManagedFields(), item)
	if err != nil {
		return conditions.Finding{}, false
	}
	var others []string
	for _, o := range owners {
		if o.Manager != string(p.core.Kind.ConditionsManager) || o.Operation != metav1.ManagedFieldsOperationApply {
			others = append(others, o.Manager)
		}
	}
	if len(others) == 0 {
		return conditions.Finding{}, false
	}
	slices.Sort(others)
	return conditions.False(v1alpha1.ReasonHeldByOthers, fmt.Sprintf(
		"this is no longer true; the condition stays because %s owns it too: remove it from what that manager writes",
		strings.Join(slices.Compact(others), ", "))), true
}

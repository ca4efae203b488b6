package conditions

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// phases are those of a workload by the reason of its condition Ready; Failing for any other.
var phases = map[string]v1alpha1.WorkloadPhase{
	v1alpha1.ReasonStarting:            v1alpha1.PhaseStarting,
	v1alpha1.ReasonUpdating:            v1alpha1.PhaseUpdating,
	v1alpha1.ReasonRolloutPending:      v1alpha1.PhasePending,
	v1alpha1.ReasonUnavailable:         v1alpha1.PhaseUnavailable,
	v1alpha1.ReasonImagePull:           v1alpha1.PhaseFaulty,
	v1alpha1.ReasonNotMCP:              v1alpha1.PhaseFaulty,
	v1alpha1.ReasonBackendBlocked:      v1alpha1.PhaseFaulty,
	v1alpha1.ReasonPaused:              v1alpha1.PhaseFaulty,
	v1alpha1.ReasonAddressNotAllowed:   v1alpha1.PhaseFaulty,
	v1alpha1.ReasonNotTrusted:          v1alpha1.PhaseFaulty,
	v1alpha1.ReasonCredentialsRefused:  v1alpha1.PhaseFaulty,
	v1alpha1.ReasonMustRunAsRoot:       v1alpha1.PhaseFaulty,
	v1alpha1.ReasonApplyFailed:         v1alpha1.PhaseRefused,
	v1alpha1.ReasonSpecInvalid:         v1alpha1.PhaseBlocked,
	v1alpha1.ReasonNameTaken:           v1alpha1.PhaseBlocked,
	v1alpha1.ReasonNotAdoptable:        v1alpha1.PhaseBlocked,
	v1alpha1.ReasonNotEnforced:         v1alpha1.PhaseBlocked,
	v1alpha1.ReasonUnclaimedGeneration: v1alpha1.PhaseBlocked,
	v1alpha1.ReasonRolloutHeld:         v1alpha1.PhaseBlocked,
	v1alpha1.ReasonRolloutFailed:       v1alpha1.PhaseBlocked,
	v1alpha1.ReasonConfigNotFound:      v1alpha1.PhaseUnresolved,
	v1alpha1.ReasonConfigDeleting:      v1alpha1.PhaseUnresolved,
	v1alpha1.ReasonConfigInvalid:       v1alpha1.PhaseUnresolved,
	v1alpha1.ReasonSuspended:           v1alpha1.PhaseStopping,
	v1alpha1.ReasonScaledToZero:        v1alpha1.PhaseStopping,
	// Earlier releases named the kind of a configuration.
	"OIDCConfigNotFound":  v1alpha1.PhaseUnresolved,
	"OIDCConfigDeleting":  v1alpha1.PhaseUnresolved,
	"AuthzConfigNotFound": v1alpha1.PhaseUnresolved,
	"AuthzConfigDeleting": v1alpha1.PhaseUnresolved,
	"AuthzConfigInvalid":  v1alpha1.PhaseUnresolved,
}

// PhaseOf is the phase of a workload of which this is said by Ready.
func PhaseOf(ready Finding) v1alpha1.WorkloadPhase {
	if ready.Status == metav1.ConditionTrue {
		return v1alpha1.PhaseServing
	}
	if phase, known := phases[ready.Reason]; known {
		return phase
	}
	return v1alpha1.PhaseFailing
}

// Phase is the phase that a status states. Earlier releases stated none: then it is read, here alone, from what the
// conditions say. It is empty where nothing was said.
func Phase(stated v1alpha1.WorkloadPhase, said []metav1.Condition) v1alpha1.WorkloadPhase {
	ready := meta.FindStatusCondition(said, v1alpha1.ConditionReady)
	switch {
	case stated != "":
		return stated
	case ready != nil:
		return PhaseOf(Restate(ready))
	case meta.IsStatusConditionTrue(said, v1alpha1.ConditionSuspended):
		return v1alpha1.PhaseStopped
	}
	return ""
}

// RunnerPhaseOf is the phase of a workload as its runner sees it, of which these are the findings; applied is zero
// where there is no backend. A runner that stands back leaves the backend to one of newer content.
func RunnerPhaseOf(applied, answers Finding) v1alpha1.WorkloadPhase {
	switch {
	case applied.Reason == v1alpha1.ReasonStandingBack:
		return v1alpha1.PhaseUpdating
	case applied.Status == metav1.ConditionFalse:
		return PhaseOf(applied)
	case answers.Status == metav1.ConditionFalse:
		return PhaseOf(answers)
	case answers.Status == metav1.ConditionTrue:
		return v1alpha1.PhaseServing
	}
	return v1alpha1.PhaseStarting
}

// RunnerPhase is the phase that a runner states. Runners of earlier releases stated none: then it is read, here alone,
// from what the conditions say.
func RunnerPhase(stated v1alpha1.WorkloadPhase, said []metav1.Condition) v1alpha1.WorkloadPhase {
	if stated != "" {
		return stated
	}
	var applied, answers Finding
	if c := meta.FindStatusCondition(said, v1alpha1.ConditionBackendApplied); c != nil {
		applied = Restate(c)
	}
	if c := meta.FindStatusCondition(said, v1alpha1.ConditionBackendAnswers); c != nil {
		answers = Restate(c)
	}
	return RunnerPhaseOf(applied, answers)
}

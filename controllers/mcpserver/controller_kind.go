package mcpserver

import (
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// framed is what the frame of a pass is told of a kind.
func framed(kind kinds.Kind) reconcile.Kind {
	return reconcile.Kind{
		GroupVersionKind:  kind.Object.GroupVersionKind,
		Finalizer:         kind.Finalizer,
		FinalizerManager:  kind.FinalizerManager,
		ConditionsManager: kind.ConditionsManager,
		Conditions:        kind.Conditions,
		NormalReasons: []string{
			v1alpha1.ReasonReady, v1alpha1.ReasonUpdating, v1alpha1.ReasonRolloutPending,
			v1alpha1.ReasonSuspended, v1alpha1.ReasonScaledToZero,
		},
		// That it starts is no news, the Event of the claim tells that it is updated; a turn, RolledOut of the configuration.
		SilentReasons: []string{v1alpha1.ReasonStarting, v1alpha1.ReasonUpdating, v1alpha1.ReasonRolloutPending},
		// One Event tells a change of what serves, one the creation, and trouble has its own.
		SilentRecoveries: []v1alpha1.WorkloadPhase{v1alpha1.PhaseUpdating, v1alpha1.PhasePending},
		Managers: []ownership.Manager{
			kind.FinalizerManager, kind.WorkloadManager, kind.ConditionsManager,
			kind.StatusManager,
		},
	}
}

package configs

import (
	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// framed is what controllers/reconcile is told of a kind.
func framed(k contract.Config) reconcile.Kind {
	return reconcile.Kind{
		GroupVersionKind: k.Object.GroupVersionKind,
		Finalizer:        k.Finalizer, FinalizerManager: k.FinalizerManager,
		ConditionsManager: k.ConditionsManager, Conditions: k.Conditions,
		NormalReasons: []string{v1alpha1.ReasonValid},
		Managers:      []ownership.Manager{k.FinalizerManager, k.ConditionsManager, k.StatusManager},
	}
}

package config

import (
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	v1alpha1ac "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/policystore"
	"github.com/freehold-dev/freehold/controllers/reconcile"
)

// Kind is a kind of configuration, as data.
type Kind struct {
	contract.Config
	empty func() config
	// intent states the status of the configuration of a name.
	intent func(name, namespace string, status *v1alpha1ac.ConfigStatusApplyConfiguration) runtime.ApplyConfiguration
	// judge finds what the schema cannot see in a spec, and hash names what it contributes
	// to the content of servers, false if that is not known.
	judge func(config, *policystore.Store) judgement
	hash  func(config, *policystore.Store) (string, bool)
}

// config is an object of one of the kinds.
type config interface {
	client.Object
	GetConfigStatus() *v1alpha1.ConfigStatus
}

// Kinds are all kinds of configurations.
func Kinds() []Kind {
	return []Kind{{
		Config: contract.OIDCConfigs(),
		empty:  func() config { return &v1alpha1.MCPOIDCConfig{} },
		intent: func(name, namespace string, status *v1alpha1ac.ConfigStatusApplyConfiguration) runtime.ApplyConfiguration {
			return v1alpha1ac.MCPOIDCConfig(name, namespace).WithStatus(status)
		},
		judge: judgeLogin, hash: loginHash,
	}, {
		Config: contract.AuthzConfigs(),
		empty:  func() config { return &v1alpha1.MCPAuthzConfig{} },
		intent: func(name, namespace string, status *v1alpha1ac.ConfigStatusApplyConfiguration) runtime.ApplyConfiguration {
			return v1alpha1ac.MCPAuthzConfig(name, namespace).WithStatus(status)
		},
		judge: judgePolicies, hash: policiesHash,
	}}
}

// frame is what controllers/reconcile is told of the kind.
func (k Kind) frame() reconcile.Kind {
	return reconcile.Kind{
		GroupVersionKind: k.Object.GroupVersionKind,
		Finalizer:        k.Finalizer, FinalizerManager: k.FinalizerManager,
		ConditionsManager: k.ConditionsManager, Conditions: k.Conditions,
		Expected: []string{v1alpha1.ReasonValid},
		Managers: []ownership.Manager{k.FinalizerManager, k.ConditionsManager, k.StatusManager},
	}
}

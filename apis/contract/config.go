package contract

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// The managers of the controllers of shared configurations, three for each kind.
const (
	// OIDCConfigFinalizer and AuthzConfigFinalizer hold the finalizer, and nothing else.
	OIDCConfigFinalizer  ownership.Manager = "mcpoidcconfig.freehold.dev/finalizer"
	AuthzConfigFinalizer ownership.Manager = "mcpauthzconfig.freehold.dev/finalizer"
	// OIDCConfigConditions and AuthzConfigConditions state conditions and the
	// generation they speak of.
	OIDCConfigConditions  ownership.Manager = "mcpoidcconfig.freehold.dev/conditions"
	AuthzConfigConditions ownership.Manager = "mcpauthzconfig.freehold.dev/conditions"
	// OIDCConfigStatus and AuthzConfigStatus state who refers to the configuration.
	OIDCConfigStatus  ownership.Manager = "mcpoidcconfig.freehold.dev/status"
	AuthzConfigStatus ownership.Manager = "mcpauthzconfig.freehold.dev/status"
)

// IdentityOIDCConfig and IdentityAuthzConfig are the controllers of the two kinds.
const (
	IdentityOIDCConfig  = "freehold-mcpoidcconfig"
	IdentityAuthzConfig = "freehold-mcpauthzconfig"
)

// Config is a kind of shared configuration, and who writes its status.
type Config struct {
	Object   ownership.Object
	Identity string
	// Finalizer holds an object while workloads refer to it.
	Finalizer        string
	FinalizerManager ownership.Manager
	// ConditionsManager states conditions of the types of Conditions.
	ConditionsManager ownership.Manager
	Conditions        []string
	// StatusManager states who refers to it.
	StatusManager ownership.Manager
}

// configConditions are those of both kinds, in the order of a status.
var configConditions = []string{
	"Ready", "Reconciling", "Stalled", "RolledOut", "FieldConflict", "FinalizerMissing",
	"UnknownFields",
}

// OIDCConfigs is the kind MCPOIDCConfig.
func OIDCConfigs() Config {
	return Config{
		Object: MCPOIDCConfig, Identity: IdentityOIDCConfig, Finalizer: "freehold.dev/mcpoidcconfig",
		FinalizerManager: OIDCConfigFinalizer, ConditionsManager: OIDCConfigConditions, StatusManager: OIDCConfigStatus,
		Conditions: configConditions,
	}
}

// AuthzConfigs is the kind MCPAuthzConfig.
func AuthzConfigs() Config {
	return Config{
		Object: MCPAuthzConfig, Identity: IdentityAuthzConfig, Finalizer: "freehold.dev/mcpauthzconfig",
		FinalizerManager: AuthzConfigFinalizer, ConditionsManager: AuthzConfigConditions, StatusManager: AuthzConfigStatus,
		Conditions: slices.Concat(configConditions, []string{"PolicyUnmatched"}),
	}
}

// Configs are the kinds of shared configurations.
func Configs() []Config { return []Config{OIDCConfigs(), AuthzConfigs()} }

// grants are those of a kind's controller, which writes nothing else.
func (c Config) grants() []ownership.Grant {
	own := func(manager ownership.Manager, subresource, why string, paths ...string) ownership.Grant {
		object := c.Object
		object.Subresource = subresource
		return ownership.Grant{
			Manager: manager, Identity: c.Identity, Object: object,
			Mode: ownership.Exclusive, Why: why, Fields: ownership.Paths(paths...),
		}
	}
	reported := []string{"status.observedGeneration"}
	for _, t := range c.Conditions {
		reported = append(reported, "status.conditions[type="+t+"]")
	}
	return []ownership.Grant{
		own(c.FinalizerManager, "", "holds the configuration while workloads refer to it", `metadata.finalizers[="`+
			c.Finalizer+`"]`),
		own(c.ConditionsManager, "status", "reports the state, and of which generation", reported...),
		own(c.StatusManager, "status", "reports what it says, and who refers to it", "status.hash", "status.policies",
			"status.workloads", "status.referencingWorkloads"),
	}
}

func configGrants() []ownership.Grant {
	var grants []ownership.Grant
	for _, c := range Configs() {
		grants = append(grants, c.grants()...)
	}
	return grants
}

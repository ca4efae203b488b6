package contract

import (
	"slices"
	"strings"

	"github.com/freehold-dev/freehold/apis/ownership"
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

	// statusFields are what it states of that.
	statusFields []string
}

// configs has a line for each kind of shared configuration.
var configs = []Config{
	config("MCPOIDCConfig"),
	config("MCPAuthzConfig", "PolicyUnmatched"),
	group(config("MCPGroup")),
}

// Configs are the kinds of shared configurations.
func Configs() []Config { return slices.Clone(configs) }

// ConfigOf is the row of a kind of shared configuration, zero if there is none.
func ConfigOf(kind string) (row Config) {
	if i := slices.IndexFunc(configs, func(c Config) bool { return c.Object.Kind == kind }); i >= 0 {
		row = configs[i]
	}
	return row
}

// configConditions are those of all kinds, in the order of a status.
var configConditions = []string{
	"Ready", "Reconciling", "Stalled", "RolledOut", "FieldConflict", "FinalizerMissing",
	"UnknownFields",
}

// config is the row of a kind, of which all names follow: its controller has an identity, and three managers.
func config(kind string, conditions ...string) Config {
	name := strings.ToLower(kind)
	manager := func(purpose string) ownership.Manager { return ownership.Manager(name + ".freehold.dev/" + purpose) }
	return Config{
		Object: object("freehold.dev", "v1alpha1", kind, ""), Identity: "freehold-" + name,
		Finalizer: "freehold.dev/" + name, FinalizerManager: manager("finalizer"),
		ConditionsManager: manager("conditions"), Conditions: slices.Concat(configConditions, conditions),
		StatusManager: manager("status"),
		statusFields:  []string{"status.hash", "status.policies", "status.workloads", "status.referencingWorkloads"},
	}
}

// group is the row of a kind whose objects workloads belong to. They are no part of what these run.
func group(row Config) Config {
	row.Conditions = slices.DeleteFunc(row.Conditions, func(t string) bool { return t == "RolledOut" })
	row.statusFields = []string{
		"status.workloads", "status.referencingWorkloads", "status.members", "status.memberCount", "status.readyMembers",
	}
	return row
}

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
		own(c.StatusManager, "status", "reports what it says, and who refers to it", c.statusFields...),
	}
}

func configGrants() []ownership.Grant {
	var grants []ownership.Grant
	for _, c := range Configs() {
		grants = append(grants, c.grants()...)
	}
	return grants
}

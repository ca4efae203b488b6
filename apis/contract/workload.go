package contract

import (
	"slices"

	"github.com/freehold-dev/freehold/apis/ownership"
)

// Workload is a kind of object with a proxy, and who writes its status and its children.
type Workload struct {
	Object   ownership.Object
	Identity string
	// Suffix distinguishes its children from those of another kind; empty for an MCPServer.
	Suffix string
	// Backend: the runner creates a backend.
	Backend bool
	// Finalizer holds an object until its calls have ended.
	Finalizer        string
	FinalizerManager ownership.Manager
	// WorkloadManager claims workload generations.
	WorkloadManager ownership.Manager
	// PlanManager states which backend gets the calls, and the rollout to the next one; empty without a backend.
	PlanManager ownership.Manager
	// ConditionsManager states conditions of the types of Conditions.
	ConditionsManager ownership.Manager
	Conditions        []string
	// StatusManager states what else was observed.
	StatusManager ownership.Manager
	// ChildrenManager builds the objects around the proxy, except the runner's rights.
	ChildrenManager ownership.Manager
	// RightsManager gives runners their rights.
	RightsManager ownership.Manager
	// ReportManager is the runner's, which states what it observes.
	ReportManager ownership.Manager

	// word is the placeholder of an object's name in names of children.
	word string
	// holds and status describe the purpose of the finalizer and of StatusManager.
	holds, status string
	statusFields  []string
}

// Workloads are the kinds with a proxy.
func Workloads() []Workload { return []Workload{MCPServers(), MCPRemoteProxies()} }

// workloadConditions are those of every kind, in the order of a status.
var workloadConditions = []string{
	"Ready", "Suspended", "Reconciling", "Stalled", "Accepted", "Published", "ForeignPodContent", "GroupMissing",
	"FieldConflict", "FinalizerMissing", "UnknownFields",
}

// key is the name of a child that may have a dot, label that of a DNS label (controllers/workload, names.go).
func (w Workload) key(part string) string {
	if w.Suffix == "" {
		return w.word + part
	}
	return w.word + "." + w.Suffix + part
}

func (w Workload) label(part string) string {
	if w.Suffix == "" {
		return w.word + part
	}
	return w.word + part + "-" + w.Suffix
}

// child is a grant on an object that its identity creates for an owner of this kind.
func (w Workload) child(by string, manager ownership.Manager, object ownership.Object, name, why string,
	own ...string,
) ownership.Grant {
	return ownership.Grant{
		Manager: manager, Identity: by, Object: object, Names: []string{name}, Owner: w.Object,
		Mode: ownership.Exclusive, Create: true, Why: why, Fields: ownership.Paths(slices.Concat(identity, own)...),
	}
}

func (w Workload) sub() ownership.Object {
	object := w.Object
	object.Subresource = "status"
	return object
}

func (w Workload) grants() []ownership.Grant {
	own := func(manager ownership.Manager, object ownership.Object, why string, paths ...string) ownership.Grant {
		return ownership.Grant{
			Manager: manager, Identity: w.Identity, Object: object,
			Mode: ownership.Exclusive, Why: why, Fields: ownership.Paths(paths...),
		}
	}
	claim := own(w.WorkloadManager, w.sub(), "claims the workload generation", "status.workload")
	claim.Versioned = true
	reported := []string{"status.observedGeneration", "status.phase", "status.servedGeneration"}
	for _, t := range w.Conditions {
		reported = append(reported, "status.conditions[type="+t+"]")
	}
	grants := []ownership.Grant{
		own(w.FinalizerManager, w.Object, w.holds, `metadata.finalizers[="`+w.Finalizer+`"]`),
		claim,
		own(w.ConditionsManager, w.sub(), "reports the state, and of which generation", reported...),
		own(w.StatusManager, w.sub(), w.status, w.statusFields...),
	}
	if w.Backend {
		plan := own(w.PlanManager, w.sub(), "says which backend gets the calls, and how far a rollout is",
			"status.active", "status.rollout", "status.lastRollout")
		plan.Versioned = true
		grants = slices.Insert(grants, 2, plan)
	}
	return grants
}

func (w Workload) children() []ownership.Grant {
	build := func(object ownership.Object, name, why string, own ...string) ownership.Grant {
		return w.child(w.Identity, w.ChildrenManager, object, name, why, own...)
	}
	proxy := build(Deployment, w.label("-proxy"), "runs the proxy", slices.Concat([]string{
		"spec.replicas", "spec.revisionHistoryLimit", "spec.selector", "spec.strategy", "spec.template",
	}, revision)...)
	proxy.Versioned, proxy.Baseline = true, true
	session := build(Secret, w.key("-session"), "has the key of session ids", "data")
	session.Once, session.Mode = true, ownership.Shared // people change the keys
	session.Names = append(session.Names, w.key("-session-*"))
	grants := []ownership.Grant{
		build(ServiceAccount, w.key("-runner"), "is the runner's identity", "automountServiceAccountToken"),
		session,
		build(ConfigMap, w.key("-run-*-*"), "tells the runner what to run", "data", "immutable", revision[0], revision[1]),
		proxy,
		build(Service, w.label("-proxy"), "is where clients call",
			"spec.ports", "spec.selector", "spec.type"),
		build(HTTPRoute, w.label("-proxy"), "leads clients from Gateways to the proxy",
			"spec.parentRefs", "spec.hostnames", "spec.rules"),
	}
	if w.Backend {
		policy, content, scale := backendGrants(w)
		grants = append(slices.Insert(grants, 3, policy, content), scale)
	}
	return grants
}

func (w Workload) rights() []ownership.Grant {
	return []ownership.Grant{
		w.child(IdentityRBAC, w.RightsManager, Role, w.key("-runner"), "holds what the runner may do", "rules"),
		w.child(IdentityRBAC, w.RightsManager, RoleBinding, w.key("-runner"), "gives the runner its role", "roleRef",
			"subjects"),
	}
}

func (w Workload) report() ownership.Grant {
	reported := []string{
		"status.runtime", "status.conditions[type=BackendAnswers]",
		"status.conditions[type=ToolsLost]",
	}
	if w.Backend {
		reported = slices.Insert(reported, 1, "status.conditions[type=BackendApplied]")
	}
	return ownership.Grant{
		Manager: w.ReportManager, Identity: w.key("-runner"), Object: w.sub(), Names: []string{w.word},
		Mode: ownership.Exclusive, Why: "reports what runs", Fields: ownership.Paths(reported...),
	}
}

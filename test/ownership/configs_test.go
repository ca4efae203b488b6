package ownership

import (
	"fmt"
	"strings"
	"testing"

	"github.com/freehold-dev/freehold/apis/contract"
)

// about is an intent about a configuration that is called company.
func about(fields string) string {
	return "metadata: {name: company}\n" + fields
}

// lists is what the controller says of who refers to it.
func lists(servers ...string) string {
	items := ""
	for _, name := range servers {
		items += fmt.Sprintf("{kind: MCPServer, name: %s},", name)
	}
	return about(fmt.Sprintf("status: {workloads: %d, referencingWorkloads: [%s]}", len(servers),
		strings.TrimSuffix(items, ",")))
}

// Several teams own their policies in one object, and take back no others than their own.
func TestTeamsOwnTheirPoliciesInOneConfiguration(t *testing.T) {
	live := child(t, contract.ConfigOf("MCPAuthzConfig").Object, "company")
	policy := func(names ...string) string {
		items := ""
		for _, name := range names {
			items += "{name: " + name + ", policy: 'permit(principal, action, resource);'},"
		}
		return about("spec: {policies: [" + strings.TrimSuffix(items, ",") + "]}")
	}
	live.Apply("team-a", policy("a.read", "a.write"))
	live.Apply("team-b", policy("b"))
	live.Owns("team-a", "spec.policies[name=a.read].policy")
	live.Owns("team-b", "spec.policies[name=b].policy")
	live.Apply("team-a", policy("a.read"))
	live.HasNot("spec", "policies", "a.write")
	live.Has("b", "spec", "policies", "b", "name")
	if changed := live.Apply("team-b", policy("b")); changed {
		t.Error("the same again is a write")
	}
}

// The list of referrers has one owner, and follows it in both directions.
func TestAConfigurationsListFollowsItsOwner(t *testing.T) {
	for _, config := range contract.Configs() {
		t.Run(config.Object.Kind, func(t *testing.T) {
			live := child(t, config.Object, "company")
			finalizer, status := string(config.FinalizerManager), string(config.StatusManager)
			live.Apply(git, about("metadata: {labels: {team: red}}"))
			live.Apply(finalizer, about("metadata: {finalizers: ["+config.Finalizer+"]}"))
			live.ApplyStatus(status, lists("a", "b"))
			live.ApplyStatus("dashboard", about(
				`status: {conditions: [{type: Reviewed, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-01T00:00:00Z"}]}`))
			live.Owns(status, "status.workloads", "status.referencingWorkloads")
			if changed := live.ApplyStatus(status, lists("a", "b")); changed {
				t.Error("the same again is a write")
			}
			live.ApplyStatus(status, lists("b", "c"))
			live.HasNot("status", "referencingWorkloads", "a")
			live.Has("c", "status", "referencingWorkloads", "c", "name")
			live.ApplyStatus(status, lists())
			live.HasNot("status", "referencingWorkloads")
			live.Has("Reviewed", "status", "conditions", "Reviewed", "type")

			live.Delete()
			live.Apply(finalizer, about(""))
			if !live.gone {
				t.Error("it stays although nobody refers to it")
			}
		})
	}
}

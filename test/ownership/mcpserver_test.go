package ownership

import (
	"fmt"
	"testing"
	"time"

	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	applyv1alpha1 "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
)

// The managers of the stories: ours, and the others that a server meets.
const (
	finalizer   = string(contract.MCPServerFinalizer)
	claimer     = string(contract.MCPServerWorkload)
	conditioner = string(contract.MCPServerConditions)
	scalars     = string(contract.MCPServerAddress)
	report      = string(contract.RunnerReport)

	git        = "argocd-controller"
	autoscaler = "autoscaler"
	authorizer = "authorizer"
	person     = "kubectl"
)

const (
	fromGit   = `spec: {image: "registry.example.com/echo:1", env: [{name: A, value: a}]}`
	policy    = `spec: {authzConfig: {policies: [{name: all, policy: "permit(principal, action, resource);"}]}}`
	anchor    = `metadata: {finalizers: [billing.example.com/invoice]}`
	ourAnchor = `metadata.finalizers[="freehold.dev/mcpserver"]`
)

func mcp() *applyv1alpha1.MCPServerApplyConfiguration {
	return applyv1alpha1.MCPServer("echo", "default")
}

func held() any { return mcp().WithFinalizers(contract.Finalizer) }

// released is nothing but the name and the uid.
func released(l *live) any { return mcp().WithUID(l.object.GetUID()) }

func status() *applyv1alpha1.MCPServerStatusApplyConfiguration {
	return applyv1alpha1.MCPServerStatus()
}

func claimed(generation int64, hash string) any {
	return mcp().WithStatus(status().
		WithWorkload(applyv1alpha1.WorkloadStatus().WithGeneration(generation).WithHash(hash)))
}

func reported(generation int64) any {
	return mcp().WithStatus(status().
		WithRuntime(applyv1alpha1.RuntimeStatus().WithServerUID("uid-1").WithGeneration(generation).WithTools(3)).
		WithConditions(condition("BackendApplied", conditions.True("Applied", ""), generation),
			condition("BackendAnswers", conditions.True("Answers", ""), generation)))
}

func judged(generation int64, ready conditions.Finding) any {
	return mcp().WithStatus(status().WithObservedGeneration(generation).
		WithConditions(condition(v1alpha1.ConditionReady, ready, generation),
			condition(v1alpha1.ConditionAccepted, conditions.True(v1alpha1.ReasonAccepted, ""), generation)))
}

func condition(kind string, finding conditions.Finding, generation int64) *metav1ac.ConditionApplyConfiguration {
	return conditions.Stamp(nil, kind, finding, generation, time.Unix(1700000000, 0))
}

func TestTwoOwnersOfFinalizersEachRemoveTheirOwn(t *testing.T) {
	live := server(t, "echo")
	live.Apply(git, fromGit)
	live.Apply(finalizer, held())
	live.Apply("billing", anchor)
	live.Owns(finalizer, ourAnchor)
	live.Owns("billing", `metadata.finalizers[="billing.example.com/invoice"]`)

	live.Delete()
	live.Apply(finalizer, released(live))
	live.Has([]any{"billing.example.com/invoice"}, "metadata", "finalizers")
	live.OwnsNothing(finalizer)
	if live.gone {
		t.Fatal("the server went although billing holds it")
	}
	live.Apply("billing", mcp().WithUID(live.object.GetUID()))
	if !live.gone {
		t.Fatal("the server stays although nobody holds it")
	}
}

func TestReleasingTwiceBringsNothingBack(t *testing.T) {
	live := server(t, "echo")
	live.Apply(git, fromGit)
	live.Apply(finalizer, held())
	live.Delete()
	release := released(live)
	live.Apply(finalizer, release)
	if _, err := live.apply(live.main, "", finalizer, release, true); err == nil || !live.gone {
		t.Fatalf("a second release of a server that went: error %v, gone %v", err, live.gone)
	}
	// What the uid is for: without it the same apply makes an empty server.
	live.Apply(finalizer, mcp())
	if live.gone {
		t.Fatal("the story no longer shows what an apply without uid does")
	}
}

func TestConditionsOfThreeOwnersStandSideBySide(t *testing.T) {
	live := server(t, "echo")
	live.Apply(git, fromGit)
	live.ApplyStatus(conditioner, judged(1, conditions.False(v1alpha1.ReasonStarting, "waiting")))
	live.ApplyStatus(report, reported(1))
	live.ApplyStatus("scanner",
		`status: {conditions: [{type: Scanned, status: "True", reason: Clean, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)

	live.ApplyStatus(conditioner, judged(2, conditions.True(v1alpha1.ReasonReady, "")))
	live.ApplyStatus(report, reported(2))
	live.Owns(conditioner, "status.conditions[type=Ready]", "status.conditions[type=Accepted]",
		"status.observedGeneration")
	live.Owns(report, "status.conditions[type=BackendApplied]", "status.runtime")
	live.Owns("scanner", "status.conditions[type=Scanned]")
	live.Has("True", "status", "conditions", "Ready", "status")
	live.Has("Clean", "status", "conditions", "Scanned", "reason")
	live.Has(int64(2), "status", "runtime", "generation")
}

func TestAConditionThatIsNoLongerTrueGoesAlone(t *testing.T) {
	live := server(t, "echo")
	live.Apply(git, fromGit)
	live.ApplyStatus("scanner",
		`status: {conditions: [{type: Scanned, status: "True", reason: Clean, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`)
	moving := mcp().WithStatus(status().WithObservedGeneration(1).WithConditions(
		condition(v1alpha1.ConditionReady, conditions.False(v1alpha1.ReasonStarting, ""), 1),
		condition(v1alpha1.ConditionReconciling, conditions.True(v1alpha1.ReasonStarting, ""), 1)))
	live.ApplyStatus(conditioner, moving)
	live.ApplyStatus(conditioner, judged(1, conditions.True(v1alpha1.ReasonReady, "")))
	live.HasNot("status", "conditions", v1alpha1.ConditionReconciling)
	live.Has("Clean", "status", "conditions", "Scanned", "reason")
}

func TestStatusOfFourManagersIsWrittenInAnyOrder(t *testing.T) {
	scalar := mcp().WithStatus(status().WithURL("http://echo-proxy.default.svc:8000/mcp").
		WithPublicURL("https://mcp.example.com/mcp").WithReplicas(1).WithReadyReplicas(1).WithSelector("a=b"))
	writes := []struct {
		manager string
		intent  any
	}{
		{claimer, claimed(1, "abc")},
		{conditioner, judged(1, conditions.True(v1alpha1.ReasonReady, ""))},
		{scalars, scalar},
		{report, reported(1)},
	}
	for first := range writes {
		t.Run(fmt.Sprintf("beginning with %s", writes[first].manager), func(t *testing.T) {
			live := server(t, "echo")
			live.Apply(git, fromGit)
			for i := range writes {
				w := writes[(first+i)%len(writes)]
				if !live.ApplyStatus(w.manager, w.intent) {
					t.Errorf("%s's first write changed nothing", w.manager)
				}
			}
			for _, w := range writes {
				if live.ApplyStatus(w.manager, w.intent) {
					t.Errorf("%s's second write changed something", w.manager)
				}
			}
			live.Owns(claimer, "status.workload")
			live.Owns(scalars, "status.url", "status.publicURL", "status.replicas", "status.readyReplicas", "status.selector")
			live.Owns(report, "status.runtime")
			live.Has(map[string]any{"generation": int64(1), "hash": "abc"}, "status", "workload")
		})
	}
}

func TestThePolicyOfAnotherControllerStaysThroughEverything(t *testing.T) {
	live := server(t, "echo")
	live.Apply(git, fromGit)
	live.Apply(authorizer, policy)
	live.Apply(finalizer, held())
	live.ApplyStatus(claimer, claimed(1, "abc"))
	live.ApplyStatus(report, reported(1))
	live.Apply(git, `spec: {image: "registry.example.com/echo:2", restartedAt: "2026-01-01T00:00:00Z"}`)
	live.ApplyStatus(conditioner, judged(2, conditions.True(v1alpha1.ReasonReady, "")))
	live.Owns(authorizer, "spec.authzConfig")
	live.Has([]any{map[string]any{"name": "all", "policy": "permit(principal, action, resource);"}}, "spec", "authzConfig",
		"policies")
	live.Contended(git,
		`spec: {image: "registry.example.com/echo:2", authzConfig: {policies: [{name: all, policy: "forbid(principal, action, resource);"}]}}`, `.spec.authzConfig.policies[name="all"].policy`)

	// A second team adds its own policy to the same server.
	live.Apply("team", `spec: {authzConfig: {policies: [{name: team, policy: "forbid(principal, action, resource);"}]}}`)
	live.Owns("team", `spec.authzConfig.policies[name=team]`)
	live.Owns(authorizer, `spec.authzConfig.policies[name=all]`)

	live.Delete()
	live.Apply(finalizer, released(live))
	if !live.gone {
		t.Fatal("the server stays although nobody holds it")
	}
}

func TestWhoScalesOwnsTheReplicas(t *testing.T) {
	live := server(t, "echo")
	live.Apply(git, fromGit)
	live.Update("defaults", func(o map[string]any) { o["spec"].(map[string]any)["replicas"] = int64(1) })
	live.Scale(autoscaler, 4)
	live.Owns(autoscaler, "spec.replicas")
	live.Apply(git, fromGit)
	live.Apply(finalizer, held())
	live.Owns(autoscaler, "spec.replicas")
	live.Has(int64(4), "spec", "replicas")
}

func TestReplicasAreHandedOverWithoutASwing(t *testing.T) {
	const stated = `spec: {image: "registry.example.com/echo:1", replicas: 2}`
	live := server(t, "echo")
	live.Apply(git, stated)
	live.Contended(autoscaler, `spec: {replicas: 5}`, ".spec.replicas")
	live.Apply(autoscaler, `spec: {replicas: 2}`) // the same value is shared, not fought over
	live.Apply(git, `spec: {image: "registry.example.com/echo:1"}`)
	live.Owns(autoscaler, "spec.replicas")
	live.Has(int64(2), "spec", "replicas")
	live.Apply(autoscaler, `spec: {replicas: 5}`)
	live.Has(int64(5), "spec", "replicas")
}

func TestReplicasThatNobodyOwnsAnyMoreAreLost(t *testing.T) {
	live := server(t, "echo")
	live.Apply(git, `spec: {image: "registry.example.com/echo:1", replicas: 2}`)
	live.Apply(git, `spec: {image: "registry.example.com/echo:1"}`)
	// The API server's default follows. It is why a hand-over begins with the new owner, and Git ends it.
	live.HasNot("spec", "replicas")
}

func TestAPersonsEditOfOurStatusIsTakenBack(t *testing.T) {
	live := server(t, "echo")
	live.Apply(git, fromGit)
	live.ApplyStatus(conditioner, judged(1, conditions.False(v1alpha1.ReasonCrashLoop, "it ends")))
	before := live.object.DeepCopy()
	edited := before.DeepCopy()
	edited.Object["status"].(map[string]any)["observedGeneration"] = int64(9)
	result, err := live.status.Update(before, edited, person)
	if err != nil {
		t.Fatal(err)
	}
	live.keep(withStatus(before, live.intent(result)))
	live.Owns(person, "status.observedGeneration")
	live.ApplyStatus(conditioner, judged(1, conditions.False(v1alpha1.ReasonCrashLoop, "it ends")))
	live.Owns(conditioner, "status.observedGeneration")
	live.OwnsNothing(person)
}

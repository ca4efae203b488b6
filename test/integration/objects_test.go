package integration

import (
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/test/kit"
)

// A cluster asks something of every object, as policies of Kyverno and Gatekeeper do: what
// the release says and what a server hands down gets every child past it.
var _ = It("A policy that asks for a label on every object is met for every kind", func() {
	s := newEnv()
	release := controllers.Options{Workload: podtemplate.Release{Objects: podtemplate.ObjectDefaults{
		Annotations: map[string]string{"example.com/owner": "a@example.com"}, InheritLabels: []string{"team"},
	}}}
	statesKeys("team", "example.com/owner")
	permits := demand(s, "team")
	op := operate(s)
	op.stop()
	s.RunProxies()
	s.Apply(git, labelled(server("echo", allTools+"\n"+large), "team: blue"))
	s.Apply(git, labelled(remoteProxy("far", ""), "team: blue"))
	op.start(controllers.Options{})
	notReady(s, "echo", "ApplyFailed") // without objectDefaults

	By("saying which label servers hand down")
	op.stop()
	op.start(release)
	ready(s, "echo")
	carry := func(key string, want map[string]string) {
		GinkgoHelper()
		for _, of := range childrenOf(s, key) {
			if of.Kind == "Secret" {
				continue // it is made once
			}
			child := of.DeepCopy()
			s.Await(child, fmt.Sprintf("its labels have %v", want), func() error {
				for name, value := range want {
					if got, has := child.GetLabels()[name]; got != value || has != (value != "") {
						return fmt.Errorf("they are %v", child.GetLabels())
					}
				}
				return nil
			})
		}
	}
	for key, kinds := range map[string]int{"echo": 11, "far.remote": 6} {
		Expect(owned(s, key)).To(HaveLen(kinds))
		carry(key, map[string]string{"team": "blue"})
	}
	backend, proxy, run := backendOf(s, "echo"), proxyOf(s, "echo"), ready(s, "echo")
	s.Owns(backend, string(contract.RunnerBackend), `metadata.labels["team"]`, `metadata.annotations["example.com/owner"]`)
	s.Owns(proxy, string(contract.MCPServerChildren), `metadata.labels["team"]`,
		`metadata.annotations["example.com/owner"]`)
	Expect(s.OwnersOf(proxy, `metadata.labels["team"]`)).To(HaveLen(1))

	By("another team, beside what somebody else labels")
	for _, object := range []client.Object{backend, proxy} {
		s.Patch(object, "somebody", `{"metadata":{"labels":{"theirs":"stays"},"annotations":{"theirs":"stays"}}}`)
		s.Read(object)
	}
	s.Apply(git, labelled(server("echo", allTools+"\n"+large), "team: green"))
	carry("echo", map[string]string{"team": "green"})
	after := ready(s, "echo")
	Expect(after.Status.Workload.Generation).To(Equal(run.Status.Workload.Generation), "it is no content")
	Expect(samePods(s, proxy)).To(BeTrue())
	Expect(samePods(s, backend)).To(BeTrue())

	By("a release that says other annotations, and no keys")
	op.stop()
	permits()
	release.Workload.Objects = podtemplate.ObjectDefaults{
		Annotations: map[string]string{"example.com/owner": "b@example.com"},
	}
	op.start(release)
	carry("echo", map[string]string{"team": ""})
	s.Await(backend, "the other owner", func() error {
		if got := backend.GetAnnotations()["example.com/owner"]; got != "b@example.com" {
			return fmt.Errorf("it is %q", got)
		}
		return nil
	})
	for _, object := range []client.Object{backend, proxy} {
		s.Read(object)
		Expect(object.GetLabels()).To(HaveKeyWithValue("theirs", "stays"))
		Expect(object.GetAnnotations()).To(HaveKeyWithValue("theirs", "stays"))
		Expect(s.OwnersOf(object, `metadata.labels["team"]`)).To(BeEmpty())
	}
	Expect(samePods(s, proxy)).To(BeTrue())
	Expect(samePods(s, backend)).To(BeTrue())
	quiet(op)
})

// large is a spec whose run config is in a ConfigMap.
var large = "args: [" + strings.Repeat("x", 17<<10) + "]"

// demand puts a policy into the namespace that asks for a label on each child of a server, of whatever kind.
func demand(s *kit.Env, label string) (withdraw func()) {
	GinkgoHelper()
	return prohibition{
		message: "every object has a " + label, group: "*", version: "*", resource: "*",
		operation: admissionregistrationv1.OperationAll,
		allowed: "!(request.operation in ['CREATE', 'UPDATE']) || !('freehold.dev/server' in " +
			"object.metadata.?labels.orValue({})) ||\n" +
			"!(object.kind in ['Deployment', 'StatefulSet', 'Service', 'ConfigMap', 'Secret', 'ServiceAccount', 'Role', " +
			"'RoleBinding', 'NetworkPolicy']) ||\n" +
			"'" + label + "' in object.metadata.labels",
		try: func(s *kit.Env) error {
			_, err := s.ApplyErr(intruder,
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"probe","labels":{"freehold.dev/server":"none"}}}`)
			return err
		},
	}.forbid(s)
}

func labelled(text, label string) string {
	return strings.Replace(text, "metadata: {", "metadata: {labels: {"+label+"}, ", 1)
}

// samePods says whether an object has the pod template that it was read with.
func samePods(s *kit.Env, object client.Object) bool {
	GinkgoHelper()
	before := object.DeepCopyObject()
	s.Read(object)
	switch was := before.(type) {
	case *appsv1.Deployment:
		return maps.Equal(was.Spec.Template.Annotations, object.(*appsv1.Deployment).Spec.Template.Annotations)
	case *appsv1.StatefulSet:
		now := object.(*appsv1.StatefulSet)
		return maps.Equal(was.Spec.Template.Annotations, now.Spec.Template.Annotations) && was.Generation == now.Generation
	}
	return false
}

// statesKeys does to the policies of the release what the chart does for these keys of objectDefaults.
func statesKeys(keys ...string) {
	GinkgoHelper()
	const mark = "'f:" + contract.ObjectDefault + "'"
	policies := admissionregistrationv1.ValidatingAdmissionPolicyList{}
	Expect(plane.Client.List(GinkgoT().Context(), &policies)).To(Succeed())
	for i := range policies.Items {
		policy := &policies.Items[i]
		before := policy.DeepCopy()
		with := strings.NewReplacer(mark, mark+", 'f:"+strings.Join(keys, "', 'f:")+"'")
		for i := range policy.Spec.MatchConditions {
			policy.Spec.MatchConditions[i].Expression = with.Replace(policy.Spec.MatchConditions[i].Expression)
		}
		for i := range policy.Spec.Variables {
			policy.Spec.Variables[i].Expression = with.Replace(policy.Spec.Variables[i].Expression)
		}
		if equality.Semantic.DeepEqual(policy.Spec, before.Spec) {
			continue
		}
		Expect(plane.Client.Update(GinkgoT().Context(), policy)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(plane.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)).To(Succeed())
			policy.Spec = before.Spec
			Expect(plane.Client.Update(ctx, policy)).To(Succeed())
		})
	}
}

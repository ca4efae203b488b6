package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/test/kit"
)

// loginWith is an MCPOIDCConfig called company of one issuer.
func loginWith(oidc string, skew int) string {
	return fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPOIDCConfig\nmetadata: {name: company}\n"+
		"spec: {oidc: {issuer: 'https://login.example.com'%s}, clockSkewSeconds: %d}\n", oidc, skew)
}

// loginHash is what claims record of the MCPOIDCConfig company.
func loginHash(s *kit.Env) string {
	GinkgoHelper()
	live := &v1alpha1.MCPOIDCConfig{ObjectMeta: metav1.ObjectMeta{Name: "company", Namespace: s.Namespace}}
	s.Read(live)
	return registry.Read(live)[0].Verdict.Hash
}

// rolledOutSays waits until RolledOut of the MCPAuthzConfig company says a text.
func rolledOutSays(s *kit.Env, text string) {
	GinkgoHelper()
	live := policiesOf(s, "company")
	s.Await(live, "its RolledOut says "+text, func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionRolledOut)
		if c == nil || !strings.Contains(c.Message, text) {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
}

const both = "oidcConfigRef: {name: company}\nauthzConfigRef: {name: company}"

var _ = It("Two configurations that change together are taken in turns, and one that is held does not hold the other",
	func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, policies("company", permitAll))
		s.Apply(git, loginWith("", 10))
		// The first by name refers to the login alone.
		s.Apply(git, server("a", "oidcConfigRef: {name: company}"))
		f := newFleet(s, 3, both)
		servers, pods := s.RecordAll(&v1alpha1.MCPServer{}), s.RecordAll(&corev1.Pod{})

		By("the login fails at one server, and the policies change")
		s.Apply(git, loginWith(", caBundleRef: {name: company-ca}", 10))
		notReady(s, "a", v1alpha1.ReasonMissingReference)
		s.Apply(git, policies("company", denyAll))
		denied := hashOf(s)
		f.awaitSome("have the new policies, and wait for the login", 3,
			func(live *v1alpha1.MCPServer) bool { return waits(live) && recorded(live, denied) })
		rolledOutSays(s, "every workload")

		By("what was missing is made")
		s.Apply(git, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: company-ca}\ndata: {ca.crt: x}\n")
		login, policy := loginHash(s), hashOf(s)
		f.awaitSome("ready with both", 3,
			func(live *v1alpha1.MCPServer) bool { return has(login)(live) && recorded(live, policy) })
		rolledOutSays(s, "every workload")

		By("both change at once")
		s.Apply(git, policies("company", permitAll))
		s.Apply(git, loginWith("", 20))
		login, policy = loginHash(s), hashOf(s)
		f.awaitSome("ready with both", 3,
			func(live *v1alpha1.MCPServer) bool { return has(login)(live) && recorded(live, policy) })
		rolledOutSays(s, "every workload")
		neverOpen(servers, pods)
	})

var _ = It("A configuration that is taken away in the middle of its rollout and made again is rolled out", func() {
	s := newEnv()
	operate(s)
	s.RunProxies()
	s.Apply(git, policies("company", permitAll))
	f := newFleet(s, 4, "authzConfigRef: {name: company}")
	servers, pods := s.RecordAll(&v1alpha1.MCPServer{}), s.RecordAll(&corev1.Pod{})
	s.Apply(git, policies("company", denyAll))
	f.await("not ready, or ready with the new policies",
		func(live *v1alpha1.MCPServer) bool { return waits(live) || recorded(live, hashOf(s)) })
	live := policiesOf(s, "company")
	s.Delete(live)
	s.Patch(live, "kubectl-edit", `{"metadata":{"finalizers":null}}`)
	s.AwaitGone(live)
	f.await("not ready, because it is gone", func(live *v1alpha1.MCPServer) bool {
		return unreadyFor(live, v1alpha1.ReasonConfigNotFound)
	})
	s.Apply(git, policies("company", "permit(principal == Client::\"ann\", action, resource);"))
	third := hashOf(s)
	f.await("ready with the policies of the one that was made again", has(third))
	neverOpen(servers, pods)
})

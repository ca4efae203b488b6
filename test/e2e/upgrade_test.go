package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Every proxy of the cluster rolls, so that no other story runs meanwhile.
var _ = It("Another runner leaves the backends of each transport and their sessions, and the policies that another "+
	"controller owns", Serial, func(ctx SpecContext) {
	s := newStory("agents")
	s.applyAll(ctx, fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: planner}
---
apiVersion: freehold.dev/v1alpha1
kind: MCPOIDCConfig
metadata: {name: agents}
spec: {kubernetes: {serviceAccounts: [{namespace: %s, name: planner}]}}
`, s.namespace))
	s.apply(ctx, fmt.Sprintf(`{image: %q, args: ["-http", ":8080"], oidcConfigRef: {name: agents}}`, image))
	s.applyAs(ctx, "authz-controller", fmt.Sprintf(`
apiVersion: freehold.dev/v1alpha1
kind: MCPServer
metadata: {name: %s}
spec:
  authzConfig:
    policies:
    - {name: planner, policy: 'permit(principal == Client::"system:serviceaccount:%s:planner", action == Action::"call_tool", resource == Tool::"%s");'}
`, s.name, s.namespace, tool))
	type open struct {
		story
		session session
		backend types.UID
	}
	sessions := []open{{story: story{s.namespace, "http"}}, {story: story{s.namespace, "stdio"}}}
	sessions[0].apply(ctx, fmt.Sprintf(`{image: %q, args: ["-http", ":8080", "-stateless=false"]}`, image))
	sessions[1].apply(ctx, stdioSpec(``))
	for i := range sessions {
		o := &sessions[i]
		o.session, o.backend = openSession(ctx, o.ready(ctx).Status.URL), o.pods(ctx, backend)[0].UID
	}
	server := s.ready(ctx).Status.URL
	planner, stranger := s.token(ctx, "planner", server), s.token(ctx, "default", server)
	judged := func() {
		GinkgoHelper()
		// The node learns of a new proxy's address a moment after it is ready.
		Eventually(ctx, func() (string, error) { return bare(ctx, server, planner) }).Should(Equal("200"))
		Expect(bare(ctx, server, stranger)).To(Equal("denied"))
		Expect(bare(ctx, server, s.token(ctx, "planner", "https://elsewhere.example.com"))).To(Equal("401"))
		Expect(s.server(ctx).Spec.AuthzConfig).To(HaveField("Policies", HaveLen(1)))
	}
	judged()

	runWith(ctx, runnerImage+"-again")
	DeferCleanup(func(ctx SpecContext) { runWith(ctx, runnerImage) })
	for _, of := range []story{s, sessions[0].story, sessions[1].story} {
		Eventually(ctx, func(g Gomega) {
			for _, pod := range of.pods(ctx, proxy) {
				g.Expect(pod.Spec.Containers[0].Image).To(HaveSuffix("-again"))
			}
		}).Should(Succeed())
		of.ready(ctx)
	}
	judged()
	Expect(s.owner(ctx, "f:authzConfig")).To(ConsistOf("authz-controller"))
	for _, o := range sessions {
		Expect(o.session.call(ctx)).To(ContainSubstring(`"result"`), o.name)
		pods := o.pods(ctx, backend)
		Expect(pods).To(HaveLen(1), o.name)
		Expect(pods[0].UID).To(Equal(o.backend), o.name)
	}
}, SpecTimeout(10*time.Minute))

// runWith starts the operator again with another image of the runner, as an
// upgrade does.
func runWith(ctx context.Context, runner string) {
	GinkgoHelper()
	operator := &appsv1.Deployment{}
	Eventually(ctx, func() error { // its status may change at any time, and then an update is refused
		if err := cluster.Get(ctx, client.ObjectKey{Namespace: "freehold-system", Name: "freehold-operator"},
			operator); err != nil {
			return err
		}
		args := operator.Spec.Template.Spec.Containers[0].Args
		for i := range args {
			if strings.HasPrefix(args[i], "--runner-image=") {
				args[i] = "--runner-image=" + runner
			}
		}
		return cluster.Update(ctx, operator)
	}).Should(Succeed())
	Eventually(ctx, func(g Gomega) {
		g.Expect(cluster.Get(ctx, client.ObjectKeyFromObject(operator), operator)).To(Succeed())
		g.Expect(operator.Status.ObservedGeneration).To(Equal(operator.Generation))
		g.Expect(operator.Status).To(HaveField("UpdatedReplicas", operator.Status.Replicas))
		g.Expect(operator.Status.UnavailableReplicas).To(BeZero())
	}).Should(Succeed())
	// The arguments stay Helm's: another story upgrades the release.
	Eventually(ctx, func() error {
		if err := cluster.Get(ctx, client.ObjectKeyFromObject(operator), operator); err != nil {
			return err
		}
		operator.ManagedFields = slices.DeleteFunc(operator.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
			return m.Manager == "e2e"
		})
		return cluster.Update(ctx, operator)
	}).Should(Succeed())
}

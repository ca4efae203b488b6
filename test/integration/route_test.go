package integration

import (
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/routes"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	routed  = "proxy: {httpRoute: {parentRefs: [{name: public}], hostnames: [mcp.example.com]}}"
	parents = `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: echo-proxy}, status: {parents: [{
		controllerName: example.com/gateway, parentRef: {group: gateway.networking.k8s.io, kind: Gateway, name: public},
		conditions: [{type: Accepted, status: %q, reason: %q, message: %q, observedGeneration: %d,
			lastTransitionTime: "2026-01-01T00:00:00Z"}]}]}}`
)

// A server that is published by a Gateway: from a cluster without the Gateway API to the end of its HTTPRoute.
var _ = It("An HTTPRoute is made where the cluster serves it, says what Gateways say, and goes with its field", func() {
	s := newEnv()
	serveNoHTTPRoutes(s)
	op := operate(s)
	op.stop()
	later := &atomic.Int64{}
	op.start(controllers.Options{Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	s.RunProxies()
	s.Apply(git, server("echo", routed))
	live := ready(s, "echo")
	generation := live.Status.Workload.Generation
	s.Await(live, "it says where clients call", func() error {
		if live.Status.PublicURL != "https://mcp.example.com/mcp" {
			return fmt.Errorf("the status is %+v", live.Status)
		}
		return nil
	})
	says(s, metav1.ConditionFalse, v1alpha1.ReasonHTTPRouteNotServed, "install the Gateway API")

	s.ServeHTTPRoutes()
	later.Store(int64(routes.Recheck))
	s.Apply("poke", "{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: echo, annotations: {a: b}}}")
	route := s.Intent("{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: echo-proxy}}")
	s.Await(route, "the route is made", func() error { return nil })
	s.Owns(route, string(contract.MCPServerChildren), "spec.hostnames", "spec.parentRefs", "spec.rules")
	Expect(metav1.GetControllerOf(route).UID).To(Equal(live.UID))
	says(s, metav1.ConditionUnknown, v1alpha1.ReasonRouteNotTaken, "no answer of Gateway "+s.Namespace+"/public")

	answer := func(status, reason, message string) {
		s.ApplyStatus("gateway", fmt.Sprintf(parents, status, reason, message, route.GetGeneration()))
	}
	answer("False", "NotAllowedByListeners", "no listener takes it")
	says(s, metav1.ConditionFalse, v1alpha1.ReasonRouteRefused,
		"/public refuses it: NotAllowedByListeners: no listener takes it")
	answer("True", "Accepted", "")
	says(s, metav1.ConditionTrue, v1alpha1.ReasonRouteTaken, "https://mcp.example.com/mcp")

	quiet(op)
	mark := op.requests.Mark()
	op.stop()
	op.start(controllers.Options{})
	s.Apply("poke", "{apiVersion: freehold.dev/v1alpha1, kind: MCPServer, metadata: {name: echo, annotations: {a: c}}}")
	quiet(op)
	Expect(op.writes(mark)).To(BeEmpty(), "a route that is as it should be is written")

	s.Delete(route)
	s.Await(route, "it is back", func() error { return nil })
	s.Force(intruder, `{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: echo-proxy},
		spec: {hostnames: [evil.example.com]}}`)
	s.Await(route, "another host is taken away", func() error {
		hosts, _, err := unstructured.NestedStringSlice(route.Object, "spec", "hostnames")
		if err != nil || len(hosts) != 1 || hosts[0] != "mcp.example.com" {
			return fmt.Errorf("the hosts are %v, %w", hosts, err)
		}
		return nil
	})

	s.Apply(git, server("echo", "proxy: {publicURL: 'https://mcp.example.com'}"))
	s.AwaitGone(route)
	s.Await(live, "nothing is said", func() error {
		if c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionPublished); c != nil {
			return fmt.Errorf("the condition is %v", c)
		}
		return nil
	})
	Expect(ready(s, "echo").Status.Workload.Generation).To(Equal(generation), "a route replaces no pod")
})

// What refuses a route is said of the route: clients in the cluster are served, and nothing else waits.
var _ = It("An HTTPRoute of somebody else keeps a server from being published, and from nothing else", func() {
	s := newEnv()
	s.ServeHTTPRoutes()
	s.Apply(git, "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: echo-proxy}, spec: {}}")
	operate(s)
	s.RunProxies()
	s.Apply(git, server("echo", routed))
	ready(s, "echo")
	says(s, metav1.ConditionFalse, v1alpha1.ReasonNameTaken, "HTTPRoute "+s.Namespace+"/echo-proxy")
	ready(s, "echo")
})

// says waits for the condition Published of echo.
func says(s *kit.Env, status metav1.ConditionStatus, reason, message string) {
	GinkgoHelper()
	live := serverOf(s, "echo")
	s.Await(live, "it is said", func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionPublished)
		if c == nil || c.Status != status || c.Reason != reason {
			return fmt.Errorf("the condition is %v", c)
		}
		Expect(c.Message).To(ContainSubstring(message))
		return nil
	})
}

// serveNoHTTPRoutes takes the kind away that another story may have brought.
func serveNoHTTPRoutes(s *kit.Env) {
	GinkgoHelper()
	crd := s.Intent("{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: " +
		"httproutes.gateway.networking.k8s.io}}")
	crd.SetNamespace("")
	if err := s.Client.Delete(s.Ctx, crd); !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	found, err := discovery.NewDiscoveryClientForConfig(s.Config)
	Expect(err).NotTo(HaveOccurred())
	Eventually(func() error {
		_, err := found.ServerResourcesForGroupVersion(contract.HTTPRoute.GroupVersion().String())
		return err
	}).Should(Satisfy(apierrors.IsNotFound), "the API server tells of the kind")
}

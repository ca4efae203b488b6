package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// remoteProxy is an MCPRemoteProxy as a user writes it, with more of its spec in more.
func remoteProxy(name, more string) string {
	text := fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPRemoteProxy\nmetadata: {name: %s}\nspec:\n", name)
	if !strings.Contains(more, "url:") {
		text += "  url: https://mcp.example.com/mcp\n"
	}
	for line := range strings.Lines(strings.TrimSpace(more)) {
		text += "  " + strings.TrimRight(line, "\n") + "\n"
	}
	return text
}

// remoteSaying waits until Ready, or Suspended, has a reason for the spec that stands.
func remoteSaying(s *kit.Env, name, reason string) *v1alpha1.MCPRemoteProxy {
	GinkgoHelper()
	live := &v1alpha1.MCPRemoteProxy{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
	s.Await(live, name+" says "+reason, func() error {
		for _, of := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionSuspended} {
			if c := meta.FindStatusCondition(live.Status.Conditions, of); c != nil && c.Reason == reason &&
				c.ObservedGeneration == live.Generation {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", live.Status.Conditions)
	})
	return live
}

// childrenOf are the children of the owner with this key.
func childrenOf(s *kit.Env, key string) (children []metav1.PartialObjectMetadata) {
	GinkgoHelper()
	for _, kind := range []string{
		"Deployment", "StatefulSet", "Service", "ConfigMap", "Secret", "ServiceAccount", "Role",
		"RoleBinding", "NetworkPolicy",
	} {
		list := &metav1.PartialObjectMetadataList{}
		for _, o := range contract.Freehold().Grants {
			if o.Object.Kind == kind {
				list.SetGroupVersionKind(o.Object.GroupVersion().WithKind(kind + "List"))
			}
		}
		Expect(plane.Client.List(GinkgoT().Context(), list, client.InNamespace(s.Namespace),
			client.MatchingLabels{workload.LabelServer: key})).To(Succeed())
		for _, child := range list.Items {
			child.Kind = kind
			children = append(children, child)
		}
	}
	return children
}

// owned are the children of the owner with this key, by kind and name.
func owned(s *kit.Env, key string) (names []string) {
	GinkgoHelper()
	for _, child := range childrenOf(s, key) {
		names = append(names, child.Kind+"/"+child.Name)
	}
	return names
}

var _ = Describe("A proxy in front of a server elsewhere", func() {
	It("has a proxy and no backend, beside a server of its name", func() {
		s := newEnv()
		o := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		s.Apply(git, remoteProxy("echo", ""))
		atRest(s, "echo")
		live := remoteSaying(s, "echo", v1alpha1.ReasonReady)
		s.Await(live, "its URL is told", func() error {
			if want := "http://echo-proxy-remote." + s.Namespace + ".svc:8000/mcp"; live.Status.URL != want {
				return fmt.Errorf("status.url is %q, want %q", live.Status.URL, want)
			}
			return nil
		})
		Expect(owned(s, "echo.remote")).To(ConsistOf(
			"Deployment/echo-proxy-remote", "Service/echo-proxy-remote", "Secret/"+live.Status.Workload.SessionSecret,
			"ServiceAccount/echo.remote-runner", "Role/echo.remote-runner", "RoleBinding/echo.remote-runner"))
		Expect(live.Status.Runtime.ServerUID).To(Equal(string(live.UID)))
		Expect(meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionBackendApplied)).To(BeNil())
		s.Owns(live, string(contract.MCPRemoteProxyWorkload), "status.workload")
		s.Owns(live, string(contract.MCPRemoteProxyConditions), "status.observedGeneration")
		s.Owns(live, string(contract.MCPRemoteProxyAddress), "status.url")
		s.Owns(live, string(contract.RunnerRemoteReport), "status.runtime")

		before := owned(s, "echo")
		mark := o.requests.Mark()
		s.Delete(live)
		s.AwaitGone(live)
		Eventually(func() []string { return owned(s, "echo.remote") }).Should(BeEmpty())
		Expect(owned(s, "echo")).To(Equal(before))
		for _, w := range o.writes(mark) {
			Expect(w.Name).NotTo(Equal("echo-proxy"), "the deletion of one wrote to the other")
		}
		atRest(s, "echo")
	})

	It("raises its generation with what its pods run, and rests", func() {
		s := newEnv()
		o := operate(s)
		s.RunProxies()
		s.Apply(git, remoteProxy("echo", ""))
		Expect(remoteSaying(s, "echo", v1alpha1.ReasonReady).Status.Workload.Generation).To(BeEquivalentTo(1))
		s.Apply(git, remoteProxy("echo", "url: https://other.example.com/mcp"))
		live := remoteSaying(s, "echo", v1alpha1.ReasonReady)
		Expect(live.Status.Workload.Generation).To(BeEquivalentTo(2))
		Expect(live.Status.Runtime.Generation).To(BeEquivalentTo(2))
		s.Apply(git, remoteProxy("echo", "url: https://other.example.com/mcp\nproxy: {replicas: 2}"))
		Eventually(func() int32 {
			d := proxyOf(s, "echo")
			d.Name = "echo-proxy-remote"
			s.Read(d)
			return d.Status.AvailableReplicas
		}).Should(BeEquivalentTo(2))
		Expect(remoteSaying(s, "echo", v1alpha1.ReasonReady).Status.Workload.Generation).
			To(BeEquivalentTo(2), "replicas are no content")

		key := &corev1.Secret{ObjectMeta: called(remoteSaying(s, "echo", v1alpha1.ReasonReady).Status.Workload.SessionSecret)}
		s.Read(key)
		s.Delete(key)
		s.AwaitGone(key)
		s.Apply(git, remoteProxy("echo",
			"url: https://other.example.com/mcp\nproxy: {replicas: 2}\nrestartedAt: 2026-11-22T10:00:00Z"))
		s.Await(key, "the key of session ids is there again", func() error { return nil })
		Expect(remoteSaying(s, "echo", v1alpha1.ReasonReady).Status.Workload.Generation).To(BeEquivalentTo(3))
		o.restart()
		mark := o.requests.Mark()
		quiet(o)
		Expect(o.writes(mark)).To(BeEmpty(), "a restart wrote")
	})

	It("stops when it is suspended, and goes on", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, remoteProxy("echo", ""))
		remoteSaying(s, "echo", v1alpha1.ReasonReady)
		s.Apply(git, remoteProxy("echo", "suspend: true"))
		live := remoteSaying(s, "echo", v1alpha1.ReasonSuspended)
		s.Await(live, "it has stopped", func() error {
			if !meta.IsStatusConditionTrue(live.Status.Conditions, v1alpha1.ConditionSuspended) {
				return fmt.Errorf("its conditions are %+v", live.Status.Conditions)
			}
			return nil
		})
		Expect(meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady)).To(BeNil())
		s.Apply(git, remoteProxy("echo", ""))
		remoteSaying(s, "echo", v1alpha1.ReasonReady)
	})

	It("shares configurations with servers, which wait for each other", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, policies("company", permitAll))
		s.Apply(git, server("echo", "authzConfigRef: {name: company}"))
		s.Apply(git, remoteProxy("echo", "authzConfigRef: {name: company}"))
		ready(s, "echo")
		remoteSaying(s, "echo", v1alpha1.ReasonReady)
		live := policiesOf(s, "company")
		configSays(s, live, v1alpha1.ReasonValid, 2)
		Expect(listed(live)).To(Equal([]string{"MCPRemoteProxy/echo", "MCPServer/echo"}))
		s.Apply(git, policies("company", "forbid(principal, action, resource);"))
		s.Await(live, "all have it", func() error {
			c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionRolledOut)
			if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != live.Generation {
				return fmt.Errorf("RolledOut is %+v", c)
			}
			return nil
		})
		want := map[string]string{"MCPAuthzConfig/company": live.Status.Hash}
		Expect(hashes(remoteSaying(s, "echo", v1alpha1.ReasonReady).Status.Workload)).To(Equal(want))
		Expect(hashes(ready(s, "echo").Status.Workload)).To(Equal(want))

		s.Delete(live)
		configSays(s, live, v1alpha1.ReasonDeleting, 2)
		Expect(meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionStalled).Message).
			To(ContainSubstring("MCPRemoteProxy echo and MCPServer echo"))
		s.Apply(git, server("echo", ""))
		configSays(s, live, v1alpha1.ReasonDeleting, 1)
		s.Apply(git, remoteProxy("echo", ""))
		s.AwaitGone(live)
	})

	It("mounts what it presents, and puts no Secret into its run config", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "token", Namespace: s.Namespace},
			StringData: map[string]string{"token": "Bearer hidden"},
		}
		Expect(plane.Client.Create(GinkgoT().Context(), secret)).To(Succeed())
		s.Apply(git, remoteProxy("echo",
			"headers: [{name: authorization, valueFrom: {secretKeyRef: {name: token, key: token}}}]"))
		remoteSaying(s, "echo", v1alpha1.ReasonReady)
		proxy := &appsv1.Deployment{ObjectMeta: called("echo-proxy-remote")}
		s.Read(proxy)
		Expect(proxy.Spec.Template.Annotations[podtemplate.AnnotationRunConfig]).
			To(And(ContainSubstring(`"name": "Authorization"`), Not(ContainSubstring("hidden"))))
	})
})

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

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/test/kit"
)

func login(more string) string {
	return "apiVersion: freehold.dev/v1alpha1\nkind: MCPOIDCConfig\nmetadata: {name: company" + more +
		"}\nspec: {oidc: {issuer: 'https://login.example.com'}, clockSkewSeconds: %d}\n"
}

// runConfigIn is the run config that the pods of a proxy get.
func runConfigIn(s *kit.Env, proxy *appsv1.Deployment) runconfig.RunConfig {
	GinkgoHelper()
	s.Read(proxy)
	run, err := kit.RunConfig(s.Ctx, s.Client, s.Namespace, proxy.Spec.Template.Spec.Volumes,
		proxy.Spec.Template.Annotations)
	s.Must(err, "reading the run config")
	return run
}

// asks is what the run config of a generation says of the login.
func asks(s *kit.Env, generation int64) *runconfig.Authentication {
	GinkgoHelper()
	rolledOut(s, "echo", generation)
	run := runConfigIn(s, proxyOf(s, "echo"))
	Expect(run.Workload.Generation).To(Equal(generation))
	return run.Proxy.Authentication
}

// An older proxy never serves without the login that the spec asks for, and one that has it outlives the configuration.
var _ = It("A login is shared, followed, and missed", func() {
	s := newEnv()
	operate(s)
	s.RunProxies()
	servers, pods := s.RecordAll(&v1alpha1.MCPServer{}), s.RecordAll(&corev1.Pod{})
	s.Apply(git, server("echo", ""))
	ready(s, "echo")
	Expect(asks(s, 1)).To(BeNil())

	s.Apply(git, server("echo", "oidcConfigRef: {name: company, scopes: [tools]}"))
	live := notReady(s, "echo", v1alpha1.ReasonConfigNotFound)
	stalled(live, v1alpha1.ReasonConfigNotFound)
	proxy := proxyOf(s, "echo")
	s.Await(proxy, "the proxy without a login is stopped", func() error {
		if *proxy.Spec.Replicas != 0 {
			return fmt.Errorf("it has %d replicas", *proxy.Spec.Replicas)
		}
		return nil
	})

	s.Apply(git, fmt.Sprintf(login(""), 10))
	ready(s, "echo")
	a := asks(s, 2)
	Expect(a).NotTo(BeNil())
	Expect(a.Issuer).To(Equal("https://login.example.com"))
	Expect(a.Scopes).To(Equal([]string{"tools"}))
	Expect(a.Audiences).To(Equal([]string{"http://echo-proxy." + s.Namespace + ".svc:8000/mcp"}))

	s.Apply(git, fmt.Sprintf(login(", labels: {a: b}"), 10))
	s.Apply(git, fmt.Sprintf(login(", labels: {a: b}"), 60))
	ready(s, "echo")
	Expect(asks(s, 3).ClockSkewSeconds).To(BeEquivalentTo(60))

	// Pods cannot start without what the login needs, and no restart is needed for it.
	s.Apply(git, strings.Replace(fmt.Sprintf(login(""), 60), "}, clock", ", caBundleRef: {name: company-ca}}, clock", 1))
	Expect(readyMessage(notReady(s, "echo", v1alpha1.ReasonMissingReference))).
		To(Equal(`volume "login": configmap "company-ca" not found: create it, or correct spec.oidc of the MCPOIDCConfig`))
	s.Apply("somebody", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: company-ca}\n")
	ready(s, "echo")
	Expect(asks(s, 4).CABundle).To(Equal(&runconfig.Key{Name: "company-ca", Key: "ca.crt"}))
	s.Apply(git, fmt.Sprintf(login(""), 60))
	ready(s, "echo")

	// It is held, unless a person lets it go all the same.
	company := &v1alpha1.MCPOIDCConfig{ObjectMeta: metav1.ObjectMeta{Name: "company", Namespace: s.Namespace}}
	s.Delete(company)
	s.Await(company, "its deletion is held", func() error {
		if c := meta.FindStatusCondition(company.Status.Conditions, v1alpha1.ConditionStalled); c == nil ||
			c.Reason != v1alpha1.ReasonDeleting {
			return fmt.Errorf("its conditions are %+v", company.Status.Conditions)
		}
		return nil
	})
	s.Patch(company, "kubectl-edit", `{"metadata":{"finalizers":null}}`)
	notReady(s, "echo", v1alpha1.ReasonConfigNotFound)
	s.Read(proxy)
	Expect(*proxy.Spec.Replicas).To(BeEquivalentTo(1))
	Expect(podtemplate.HasGuards(proxy.Spec.Template.Annotations, "authentication")).To(BeTrue())

	s.Apply(git, fmt.Sprintf(login(""), 60))
	ready(s, "echo")
	Expect(serverOfLive(s).Status.Workload.Generation).To(BeEquivalentTo(5))
	neverOpen(servers, pods)
})

func serverOfLive(s *kit.Env) *v1alpha1.MCPServer {
	live := serverOf(s, "echo")
	s.Read(live)
	return live
}

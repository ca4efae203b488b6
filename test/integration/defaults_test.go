package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
)

// The chart's proxyDefaults: what a server says wins, and what the release says is for the rest.
var _ = It("Defaults of the release reach the proxies that do not say otherwise", func() {
	s := newEnv()
	op := operate(s)
	s.RunProxies()
	s.Apply(git, server("plain", "proxy: {port: 8000}"))
	s.Apply(git, server("own", "proxy: {replicas: 1, podTemplate: {metadata: {labels: {team: own}}}}"))
	for _, name := range []string{"plain", "own"} {
		Expect(ready(s, name).Spec.Proxy.Replicas == nil).To(Equal(name == "plain"), "the schema has no default")
	}
	backend := backendOf(s, "plain")
	s.Read(backend)
	before := backend.Generation
	release := podtemplate.Release{
		ProxyReplicas: 2,
		ProxyTemplate: []byte(
			`{"metadata":{"labels":{"team":"platform"}},"spec":{"tolerations":[{"key":"mcp","operator":"Exists"}]}}`),
	}
	has := func(name, team string, replicas int32) {
		GinkgoHelper()
		proxy := proxyOf(s, name)
		s.Await(proxy, fmt.Sprintf("%d proxies of team %s", replicas, team), func() error {
			template := proxy.Spec.Template
			if *proxy.Spec.Replicas != replicas || template.Labels["team"] != team || len(template.Spec.Tolerations) != 1 {
				return fmt.Errorf("%d, of %v, with %v", *proxy.Spec.Replicas, template.Labels, template.Spec.Tolerations)
			}
			return nil
		})
	}

	op.stop()
	op.start(controllers.Options{Workload: release})
	for name, team := range map[string]string{"plain": "platform", "own": "own"} {
		rolledOut(s, name, 2)
		ready(s, name)
		has(name, team, map[string]int32{"plain": 2, "own": 1}[name])
	}
	s.Read(backend)
	Expect(backend.Generation).To(Equal(before), "the backend stays")

	By("raising the number alone, which replaces no pod")
	op.stop()
	release.ProxyReplicas = 3
	op.start(controllers.Options{Workload: release})
	has("plain", "platform", 3)
	Expect(ready(s, "plain").Status.Workload.Generation).To(Equal(int64(2)))

	By("a server whose overlay does not go with that of the release")
	s.Apply(git, server("own", "proxy: {replicas: 1, podTemplate: {spec: {securityContext: {runAsUser: 0}}}}"))
	Expect(readyMessage(notReady(s, "own", "SpecInvalid"))).
		To(ContainSubstring("spec.proxy.podTemplate.spec.securityContext.runAsUser"))
	has("own", "own", 1)
})

// Why no default of the release goes by managedFields (ADR 46): who creates an object owns
// what the schema adds to it, and who applies it does not.
var _ = It("A default of the schema is owned by who creates a server, and not by who applies it", func() {
	s := newEnv()
	created, applied := s.Intent(server("created", "")), s.Apply(git, server("applied", ""))
	s.Must(s.Client.Create(s.Ctx, created, client.FieldOwner(git)), "creating a server")
	for _, object := range []*unstructured.Unstructured{created, applied} {
		Expect(object.Object["spec"]).To(HaveKeyWithValue("replicas", BeEquivalentTo(1)))
		owned := object.GetManagedFields()[0].FieldsV1.GetRawString()
		Expect(strings.Contains(owned, `"f:replicas"`)).To(Equal(object == created), owned)
	}
})

package integration

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

// yamlBlock is a block of YAML on a page.
var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// What docs/how-to/publish.md shows is applied as it stands: each backend of the Ingress and of the HTTPRoute is a port
// of a Service of ours, behind which a ready pod listens. Which hosts and paths lead there is in test/schema.
var _ = It("The published Ingress and HTTPRoute lead to a ready pod of the proxy", func() {
	s := newEnv()
	operate(s)
	s.RunProxies()
	s.ServeHTTPRoutes()
	page, err := os.ReadFile("../../docs/how-to/publish.md")
	Expect(err).NotTo(HaveOccurred())
	s.Apply(git, strings.Replace(login(""), ", clockSkewSeconds: %d", "", 1))
	for _, block := range yamlBlock.FindAllStringSubmatch(string(page), -1) {
		s.Apply(git, block[1])
	}
	ready(s, "everything")

	ingress := &networkingv1.Ingress{ObjectMeta: called("everything")}
	s.Read(ingress)
	Expect(ingress.Spec.Rules).NotTo(BeEmpty())
	for _, rule := range ingress.Spec.Rules {
		for _, path := range rule.HTTP.Paths {
			listens(s, path.Backend.Service.Name, path.Backend.Service.Port.Number)
		}
	}
	route := s.Intent("{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: everything}}")
	s.Read(route)
	rules, _, err := unstructured.NestedSlice(route.Object, "spec", "rules")
	Expect(err).NotTo(HaveOccurred())
	Expect(rules).NotTo(BeEmpty())
	for _, rule := range rules {
		refs, _, err := unstructured.NestedSlice(rule.(map[string]any), "backendRefs")
		Expect(err).NotTo(HaveOccurred())
		Expect(refs).NotTo(BeEmpty())
		for _, ref := range refs {
			backend := ref.(map[string]any)
			Expect(backend).To(HaveKeyWithValue("kind", "Service"), "the API server's default")
			listens(s, backend["name"].(string), int32(backend["port"].(int64)))
		}
	}
})

// The CRD with which the HTTPRoute is judged finds what is wrong with one.
var _ = It("A wrong HTTPRoute is refused", func() {
	s := newEnv()
	s.ServeHTTPRoutes()
	for spec, says := range map[string]string{
		"{rules: [{backendRef: {name: a}}]}": ".spec.rules[0].backendRef: field not declared " +
			"in schema",
		"{rules: [{matches: [{path: {type: Prefix, value: /a}}]}]}": "spec.rules[0].matches[0].path.type",
		"{rules: [{backendRefs: [{name: a}]}]}":                     "Must have port for Service reference",
		"{rules: [{timeouts: {request: 1s, backendRequest: 2s}}]}": "backendRequest timeout cannot be longer than " +
			"request timeout",
		"{rules: [{timeouts: {request: 0s, backendRequest: one hour}}]}": "spec.rules[0].timeouts.backendRequest",
	} {
		_, err := s.ApplyErr(git, "{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: a}, spec: "+
			spec+"}")
		Expect(err).To(MatchError(ContainSubstring(says)))
	}
})

// listens expects a ready pod behind a port of a Service.
func listens(s *kit.Env, name string, number int32) {
	GinkgoHelper()
	service := &corev1.Service{ObjectMeta: called(name)}
	s.Read(service)
	var target intstr.IntOrString
	for _, port := range service.Spec.Ports {
		if port.Port == number {
			target = port.TargetPort
		}
	}
	var pods corev1.PodList
	Expect(s.Client.List(s.Ctx, &pods, client.InNamespace(s.Namespace), client.MatchingLabels(service.Spec.Selector))).
		To(Succeed())
	for _, pod := range pods.Items {
		for _, port := range pod.Spec.Containers[0].Ports {
			if allReady([]corev1.Pod{pod}) == nil && (port.Name == target.StrVal || port.ContainerPort == target.IntVal) {
				return
			}
		}
	}
	Fail("nothing listens at the port of the Service " + name)
}

func podConditions(pods []corev1.Pod) []corev1.PodCondition {
	var all []corev1.PodCondition
	for _, pod := range pods {
		all = append(all, pod.Status.Conditions...)
	}
	return all
}

func allReady(pods []corev1.Pod) error {
	ready := 0
	for _, c := range podConditions(pods) {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			ready++
		}
	}
	if ready != len(pods) || ready == 0 {
		return fmt.Errorf("%d of %d pods are ready", ready, len(pods))
	}
	return nil
}

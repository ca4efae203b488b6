package e2e

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// front ends TLS before a server in its pod, and lets in who has the token.
const front = `const h = require('http'), f = require('fs');
require('https').createServer({key: f.readFileSync('/tls/tls.key'), cert: f.readFileSync('/tls/tls.crt')}, (q, r) => {
  if (q.headers.authorization !== 'Bearer ours') { r.writeHead(401, {'WWW-Authenticate': 'Bearer'}); return r.end(); }
  const p = h.request({port: 8080, path: q.url, method: q.method, headers: {...q.headers, host: 'localhost'}}, (x) => { r.writeHead(x.statusCode, x.headers); x.pipe(r); });
  p.on('error', () => r.destroy()); r.on('close', () => p.destroy()); q.pipe(p);
}).listen(8443);`

const farManifests = `
apiVersion: v1
kind: ConfigMap
metadata: {name: far-ca}
data: {ca.crt: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: far-tls}
type: kubernetes.io/tls
stringData: {tls.crt: %q, tls.key: %q}
---
apiVersion: v1
kind: Secret
metadata: {name: far-token}
stringData: {header: Bearer ours}
---
apiVersion: v1
kind: Service
metadata: {name: far}
spec: {selector: {app: far}, ports: [{port: 8443}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: far}
spec:
  replicas: 1
  selector: {matchLabels: {app: far}}
  template:
    metadata: {labels: {app: far}}
    spec:
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      volumes: [{name: tls, secret: {secretName: far-tls}}]
      containers:
      - name: server
        image: %s
        args: ["-http", ":8080"]
        securityContext: &least {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      - name: front
        image: %s
        command: [/node, -e, %q]
        volumeMounts: [{name: tls, mountPath: /tls}]
        readinessProbe: {tcpSocket: {port: 8443}, periodSeconds: 1}
        securityContext: *least
`

var _ = Describe("A server elsewhere", func() {
	It("is served by a proxy that tells what stands in the way, one thing after the other", func(ctx SpecContext) {
		s := newStory("far")
		host := "far." + s.namespace + ".svc"
		certificate, key := selfSigned(host)
		s.applyAll(ctx, fmt.Sprintf(farManifests, certificate, certificate, key, image, "freehold.dev/provider:"+version(),
			front))
		service := &corev1.Service{}
		Expect(cluster.Get(ctx, s.key("far"), service)).To(Succeed())
		s.farIsUp(ctx, 1)

		remote := func(more string) {
			GinkgoHelper()
			s.applyAll(ctx, fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPRemoteProxy\nmetadata: {name: far}\n"+
				"spec: {url: 'https://%s:8443/mcp'%s}", host, more))
		}
		remote("")
		s.remoteSays(ctx, v1alpha1.ReasonAddressNotAllowed)
		near := fmt.Sprintf(", allowedNetworks: [%s/32]", service.Spec.ClusterIP)
		remote(near)
		s.remoteSays(ctx, v1alpha1.ReasonNotTrusted)
		trusted := near + ", caBundleRef: {name: far-ca}"
		remote(trusted)
		s.remoteSays(ctx, v1alpha1.ReasonCredentialsRefused)
		remote(trusted + ", headers: [{name: Authorization, valueFrom: {secretKeyRef: {name: no-such, key: header}}}]")
		s.remoteSays(ctx, v1alpha1.ReasonMissingReference)
		known := trusted + ", headers: [{name: Authorization, valueFrom: {secretKeyRef: {name: far-token, key: header}}}]"
		remote(known + ", proxy: {probe: {periodSeconds: 10}}")
		live := s.remoteSays(ctx, v1alpha1.ReasonReady)
		Expect(live.Status.URL).To(Equal("http://far-proxy-remote." + s.namespace + ".svc:8000/mcp"))
		Expect(live.Status.Runtime.Tools).NotTo(BeNil())
		Eventually(ctx, func() (string, error) { return call(ctx, live.Status.URL) }).Should(Equal("answer"))

		By("going down, and up again")
		s.scaleFar(ctx, 0)
		s.remoteSays(ctx, v1alpha1.ReasonNotAnswering)
		Expect(call(ctx, live.Status.URL)).NotTo(Equal("answer"))
		s.scaleFar(ctx, 1)
		s.remoteSays(ctx, v1alpha1.ReasonReady)
		Eventually(ctx, func() (string, error) { return call(ctx, live.Status.URL) }).Should(Equal("answer"))

		By("looking for what the proxy presents where it must not be")
		pods := &corev1.PodList{}
		Expect(cluster.List(ctx, pods, client.InNamespace(s.namespace),
			client.MatchingLabels{"freehold.dev/server": "far.remote"})).To(Succeed())
		Expect(pods.Items).NotTo(BeEmpty())
		for i := range pods.Items {
			for _, text := range pods.Items[i].Annotations {
				Expect(strings.Contains(text, "Bearer ours")).To(BeFalse(), pods.Items[i].Name)
			}
		}
		configs := &corev1.ConfigMapList{}
		Expect(cluster.List(ctx, configs, client.InNamespace(s.namespace))).To(Succeed())
		for i := range configs.Items {
			for _, text := range configs.Items[i].Data {
				Expect(strings.Contains(text, "Bearer ours")).To(BeFalse(), configs.Items[i].Name)
			}
		}
	})
})

// remoteSays waits until Ready has a reason for the present spec, and where that is good until calls get through.
func (s story) remoteSays(ctx context.Context, reason string) *v1alpha1.MCPRemoteProxy {
	GinkgoHelper()
	live := &v1alpha1.MCPRemoteProxy{}
	Eventually(ctx, func(g Gomega) {
		g.Expect(cluster.Get(ctx, s.key(s.name), live)).To(Succeed())
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady)
		g.Expect(c).NotTo(BeNil())
		g.Expect(c.ObservedGeneration).To(Equal(live.Generation))
		g.Expect(c.Reason).To(Equal(reason), c.Message)
	}).Should(Succeed())
	if reason == v1alpha1.ReasonReady {
		reachable(ctx, live.Status.URL)
	}
	return live
}

func (s story) scaleFar(ctx context.Context, replicas int32) {
	GinkgoHelper()
	deployment := &appsv1.Deployment{}
	Expect(cluster.Get(ctx, s.key("far"), deployment)).To(Succeed())
	merge := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	Expect(cluster.Patch(ctx, deployment, merge)).To(Succeed())
	s.farIsUp(ctx, replicas)
}

func (s story) farIsUp(ctx context.Context, replicas int32) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		deployment := &appsv1.Deployment{}
		g.Expect(cluster.Get(ctx, s.key("far"), deployment)).To(Succeed())
		g.Expect(deployment.Status.ReadyReplicas).To(Equal(replicas))
	}).Should(Succeed())
}

package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/freehold-dev/freehold/test/kit"
)

// A server at rest costs nothing, also where others apply to the same objects.
var _ = Describe("A server at rest", func() {
	It("is passed ten times by ten processes, and by a restarted operator and restarted runners, without a write", func() {
		s := newEnv()
		op := operate(s)
		r := s.RunProxies()
		s.Apply(git, server("echo", odd+"replicas: 2\n")) // not the default, so that it is stated
		atRest(s, "echo")
		labelAll(s)
		op.restart() // so that the labels have been seen
		quiet(op)
		before, mark, runnerMark := s.Versions(), op.requests.Mark(), r.Requests.Mark()
		for range 10 {
			process := newManual(s, runnerImage, nil)
			Expect(process.pass()).To(Succeed())
			Expect(process.requests.Since(0).Writes()).To(BeEmpty(), process.requests.Since(0).String())
		}
		op.restart()
		r.Again()
		restarted := s.RunProxies()
		Eventually(func() kit.Log { return restarted.Requests.Since(0) }).ShouldNot(BeEmpty())
		s.NothingMoved(before)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())
		Expect(r.Requests.Since(runnerMark).Writes()).To(BeEmpty(), r.Requests.Since(runnerMark).String())
		Expect(restarted.Requests.Since(0).Writes()).To(BeEmpty(), restarted.Requests.Since(0).String())
	})
})

// odd is a spec that the API server would store otherwise in the pods: another
// spelling, an empty value, a version and a mode left out.
const odd = `
env:
- {name: A, value: ""}
- {name: B, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
envFrom: [{configMapRef: {name: none, optional: true}}]
resources: {limits: {cpu: 1000m, memory: 1024Mi}, requests: {cpu: "0.5", memory: 128974848}}
volumes: [{name: scratch, emptyDir: {}}, {name: settings, configMap: {name: none, optional: true}}]
volumeMounts: [{name: scratch, mountPath: /tmp}, {name: settings, mountPath: /etc/settings}]
podTemplate: {metadata: {labels: {team: blue}}, spec: {tolerations: [{key: gpu}], nodeSelector: {}, securityContext: {fsGroup: 7}}}
proxy: {resources: {limits: {cpu: "2000m"}}, podTemplate: {spec: {topologySpreadConstraints: [], priorityClassName: ""}}}
`

// labelAll applies a label to every object of the server, as a second applier.
func labelAll(s *kit.Env) {
	GinkgoHelper()
	for title := range s.Versions() {
		kind, name, _ := strings.Cut(title, "/")
		version := map[string]string{
			"MCPServer": "freehold.dev/v1alpha1", "Deployment": "apps/v1", "StatefulSet": "apps/v1",
			"Role": "rbac.authorization.k8s.io/v1", "RoleBinding": "rbac.authorization.k8s.io/v1",
			"NetworkPolicy": "networking.k8s.io/v1",
			"ConfigMap":     "v1", "Service": "v1", "ServiceAccount": "v1",
		}[kind]
		if version == "" || !strings.HasPrefix(name, "echo") {
			continue
		}
		s.Apply("labeller", fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"team":"red"}}}`, version,
			kind, name))
	}
}

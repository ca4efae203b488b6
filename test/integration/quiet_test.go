package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
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
			sent := passOfNewProcess(s).Since(0)
			Expect(sent.Writes()).To(BeEmpty(), sent.String())
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

// passOfNewProcess makes one pass over echo as an operator that remembers nothing, and returns what it sent.
func passOfNewProcess(s *kit.Env) *kit.Requests {
	GinkgoHelper()
	requests := &kit.Requests{}
	config := requests.Wrap(s.OperatorConfig())
	direct, err := client.New(config, client.Options{Scheme: s.Scheme, Mapper: s.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	applier := controllers.NewApplier(direct, direct)
	Expect(applier.Impersonate(config, kit.SystemNamespace, contract.Controllers()...)).To(Succeed())
	reconciler := mcpserver.New(snapshot.NewReader(kinds.Servers(), direct, direct), applier,
		events.NewFakeRecorder(1000), podtemplate.Release{RunnerImage: runnerImage})
	_, err = reconciler.Reconcile(s.Ctx,
		ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.Namespace, Name: "echo"}})
	Expect(err).NotTo(HaveOccurred())
	return requests
}

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/test/kit"
)

// A server at rest costs nothing, also where others apply to the same objects.
var _ = Describe("A server at rest", func() {
	It("is passed ten times by ten processes, and by a restarted operator, without a write", func() {
		s := newEnv()
		op := operate(s)
		r := s.RunProxies()
		s.Apply(git, server("echo", "replicas: 2"))
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
		s.NothingMoved(before)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())
		Expect(r.Requests.Since(runnerMark).Writes()).To(BeEmpty(), r.Requests.Since(runnerMark).String())
	})

	It("stays as it is when what stands is applied again and again, with a second applier on each object", func() {
		s := newEnv()
		recorded := &tape{}
		op := operate(s)
		op.stop()
		op.wire = recorded.wire
		op.restart()
		r := s.RunProxies()
		r.Wire = recorded.wire
		s.Apply(git, server("echo", odd+"replicas: 2\n")) // not the default, so that it is stated
		atRest(s, "echo")
		labelAll(s)
		op.stop()
		before := s.Versions()
		Expect(recorded.applies()).To(HaveLen(15), "the writers of one server:\n%s", recorded)
		// managedFields are compared entry by entry in the order of their times,
		// which have seconds: rounds of more than a second change that order.
		for range 3 {
			time.Sleep(1100 * time.Millisecond)
			recorded.replay(s)
			s.NothingMoved(before)
			time.Sleep(1100 * time.Millisecond)
			labelAll(s)
			s.NothingMoved(before)
		}
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
		s.Apply("labeller", fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"labels":{"team":"red"}}}`, version, kind, name))
	}
}

// tape records the last apply of each manager to each object, as it was sent.
type tape struct {
	mu    sync.Mutex
	order []string
	last  map[string][]byte
}

func (t *tape) wire(config *rest.Config) {
	rewritten(func(path string, body map[string]any) {
		t.mu.Lock()
		defer t.mu.Unlock()
		text, err := json.Marshal(body)
		if err != nil || strings.Contains(path, "/leases/") {
			return
		}
		if t.last == nil {
			t.last = map[string][]byte{}
		}
		if t.last[path] == nil {
			t.order = append(t.order, path)
		}
		t.last[path] = text
	})(config)
}

func (t *tape) applies() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.order
}

// String is what was recorded, one line an apply.
func (t *tape) String() string { return strings.Join(t.applies(), "\n") }

// replay sends what was recorded once more, without the precondition that it
// carried: whoever may write states the same again.
func (t *tape) replay(s *kit.Env) {
	GinkgoHelper()
	identities := map[string]*kit.Env{
		contract.IdentityMCPServer: s.AsController(),
		contract.IdentityRBAC:      s.As(kit.SystemNamespace, contract.IdentityRBAC),
		contract.IdentityRunner:    s.As(s.Namespace, "echo-runner"),
	}
	for _, path := range t.applies() {
		if strings.Contains(path, "/secrets/") {
			continue // written once: a policy refuses the second
		}
		request, err := url.Parse(path)
		Expect(err).NotTo(HaveOccurred())
		api, err := identities[contract.Freehold().Identity(ownership.Manager(request.Query().Get("fieldManager")))].HTTP()
		Expect(err).NotTo(HaveOccurred(), path)
		object := &unstructured.Unstructured{}
		Expect(json.NewDecoder(bytes.NewReader(t.last[path])).Decode(&object.Object)).To(Succeed())
		object.SetResourceVersion("")
		body, err := object.MarshalJSON()
		Expect(err).NotTo(HaveOccurred())
		err = api.Verb(http.MethodPatch).RequestURI(path).SetHeader("Content-Type", string(types.ApplyYAMLPatchType)).Body(body).Do(s.Ctx).Error()
		Expect(err).NotTo(HaveOccurred(), path)
	}
}

package integration

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

const (
	workloadStays = "status.workload may not disappear and its generation may not fall: " +
		"leave it as it is, and write other content into spec, which raises it; to start over, delete the server and make " +
		"it again"
	runtimeStays = "status.runtime may not disappear and its generation may not fall: " +
		"leave it to the runner; to start over, delete the server and make it again"
	activeStays = "status.active may not disappear and its generation may not fall: leave it as it is, and write other " +
		"content into spec; to start over, delete the server and make it again"
	runtimeBelow = "status.runtime.generation may not be higher than status.workload.generation"
)

// The rules stand on the root of the schema, because one that stands on status
// is not asked when a PUT of the status subresource leaves status out.
var _ = Describe("The rules on an MCPServer's status", func() {
	var s *kit.Env
	var live *unstructured.Unstructured
	BeforeEach(func() {
		s = newEnv()
		s.Apply("kubectl", server("echo", ""))
		statusOf(s, "operator", `workload: {generation: 3, hash: abc}`)
		statusOf(s, "plan", activeAt(2))
		live = statusOf(s, "runner", `runtime: {serverUID: $uid, generation: 2}`)
	})

	DescribeTable("refuse", func(manager, status, message string) {
		_, err := s.ApplyStatusErr(manager, server("echo", "")+"status: {"+ofServer(s, "echo", status)+"}")
		refusedWith(err, message)
	},
		Entry("a workload generation that falls", "operator", `workload: {generation: 2, hash: abc}`, workloadStays),
		Entry("a workload that its manager stops stating", "operator", `url: http://x`, workloadStays),
		Entry("an active content of a lower generation", "plan", activeAt(1), activeStays),
		Entry("an active content that its manager stops stating", "plan", `url: http://x`, activeStays),
		Entry("a runtime generation that falls", "runner", `runtime: {serverUID: $uid, generation: 1}`, runtimeStays),
		Entry("a runtime that its manager stops stating", "runner", `url: http://x`, runtimeStays),
		Entry("a runtime ahead of the workload", "runner", `runtime: {serverUID: $uid, generation: 9}`, runtimeBelow),
	)

	It("let equal and higher generations through", func() {
		statusOf(s, "operator", `workload: {generation: 3, hash: abd}`)
		statusOf(s, "operator", `workload: {generation: 7, hash: abc}`)
		statusOf(s, "runner", `runtime: {serverUID: $uid, generation: 7}`)
		statusOf(s, "plan", activeAt(2))
		statusOf(s, "plan", activeAt(3))
	})

	It("hold against a PUT of the status subresource without status", func() {
		delete(live.Object, "status")
		refusedWith(putStatus(s, live), workloadStays)
		refusedWith(putStatus(s, live), activeStays)
	})

	It("hold against a PUT of an empty status", func() {
		live.Object["status"] = map[string]any{}
		refusedWith(putStatus(s, live), workloadStays)
	})

	It("hold against a merge patch that removes the workload", func() {
		err := s.Client.Status().Patch(s.Ctx, live,
			client.RawPatch("application/merge-patch+json", []byte(`{"status":{"workload":null}}`)))
		refusedWith(err, workloadStays)
	})

	It("leave the main resource alone: a PUT without status is no loss", func() {
		delete(live.Object, "status")
		live.SetLabels(map[string]string{"a": "b"})
		Expect(s.Client.Update(s.Ctx, live)).To(Succeed())
		Expect(live.Object["status"]).To(HaveKeyWithValue("workload", HaveKeyWithValue("generation", int64(3))))
	})

	It("let a first report of a runtime through only once there is a workload", func() {
		s.Apply("kubectl", server("fresh", ""))
		report := server("fresh", "") + ofServer(s, "fresh", "status: {runtime: {serverUID: $uid, generation: 1}}")
		_, err := s.ApplyStatusErr("runner", report)
		refusedWith(err, runtimeBelow)
		s.ApplyStatus("operator", server("fresh", "")+"status: {workload: {generation: 1, hash: abc}}")
		s.ApplyStatus("runner", report)
	})
})

func activeAt(generation int) string {
	return fmt.Sprintf("active: {slot: 1, hash: abc, generation: %d, port: 8080, path: /mcp, transport: sse, "+
		"since: \"2026-01-01T00:00:00Z\"}", generation)
}

func statusOf(s *kit.Env, manager, status string) *unstructured.Unstructured {
	GinkgoHelper()
	return s.ApplyStatus(manager, server("echo", "")+"status: {"+ofServer(s, "echo", status)+"}")
}

// ofServer puts the server's uid in the place of $uid.
func ofServer(s *kit.Env, name, status string) string {
	GinkgoHelper()
	live := serverOf(s, name)
	s.Read(live)
	return strings.ReplaceAll(status, "$uid", string(live.UID))
}

// putStatus sends the object as it is: the client's own Status().Update would do, but encodes what it likes.
func putStatus(s *kit.Env, object *unstructured.Unstructured) error {
	GinkgoHelper()
	body, err := json.Marshal(object.Object)
	Expect(err).NotTo(HaveOccurred())
	api, err := s.HTTP()
	Expect(err).NotTo(HaveOccurred())
	path := fmt.Sprintf("/apis/freehold.dev/v1alpha1/namespaces/%s/mcpservers/%s/status", object.GetNamespace(),
		object.GetName())
	return api.Verb(http.MethodPut).AbsPath(path).Body(body).Do(s.Ctx).Error()
}

func refusedWith(err error, message string) {
	GinkgoHelper()
	Expect(apierrors.IsInvalid(err)).To(BeTrue(), "want a refusal, got %v", err)
	Expect(causesOf(err)).To(ContainElement(HaveSuffix(message)), "the answer was: %v", err)
}

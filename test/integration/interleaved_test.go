package integration

import (
	"fmt"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	applyv1alpha1 "github.com/freehold-dev/freehold/applyconfig/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/test/kit"
)

// Operator and runner write the status of one server through their real
// writers at the same time, as fast as they can.
var _ = Describe("The status of one server", func() {
	It("takes 200 interleaved writes of operator and runner without a conflict, and loses nothing", func() {
		s := newEnv()
		s.Apply(git, server("echo", ""))
		s.ApplyStatus("scanner", kit.Server("echo", imageOne, "")+withScan)
		s.AsController().ApplyStatus("mcpserver.freehold.dev/workload",
			kit.Server("echo", imageOne, "")+"status: {workload: {generation: 1000, hash: abc}}")
		recording := s.Record(serverOf(s, "echo"))

		var requests kit.Requests
		var all sync.WaitGroup
		s.Apply("admin", runnerMayReport)
		s.Apply("admin", runnerIsBound)
		all.Go(func() { writeStatus(s, s.AsController(), &requests, operatorSays) })
		all.Go(func() { writeStatus(s, s.As(s.Namespace, "echo-runner"), &requests, runnerSays) })
		all.Wait()

		sent := requests.Since(0)
		Expect(sent.Writes()).To(HaveLen(200), sent.String())
		Expect(sent.Answered(409)).To(BeEmpty(), sent.String())
		Expect(sent.Answered(200).Writes()).To(HaveLen(200), sent.String())
		live := serverOf(s, "echo")
		s.Read(live)
		Expect(live.Status.ObservedGeneration).To(Equal(int64(100)))
		Expect(live.Status.Runtime).To(HaveValue(HaveField("Generation", int64(100))))
		Expect(live.Status.Conditions).To(HaveLen(3))

		// Each of the 200 is a state, and no state lacks what stood before.
		report, judged := int64(0), int64(-1)
		recording.Check(func(f kit.State) error {
			seen := &v1alpha1.MCPServer{}
			if err := decode(f.Object, seen); err != nil {
				return err
			}
			was, wasJudged := report, judged
			judged = seen.Status.ObservedGeneration
			if seen.Status.Runtime != nil {
				report = seen.Status.Runtime.Generation
			}
			if report < was || judged < wasJudged || len(seen.Status.Conditions) == 0 || seen.Status.Workload == nil {
				return fmt.Errorf("after a report of %d and conditions of %d: %+v", was, wasJudged, seen.Status)
			}
			return nil
		})
		Expect(recording.States()).To(HaveLen(201))
	})
})

// operatorSays is the operator's n-th statement on its conditions.
func operatorSays(n int64, _ types.UID) (ownership.Manager, *applyv1alpha1.MCPServerApplyConfiguration) {
	ready := conditions.False(v1alpha1.ReasonStarting, fmt.Sprintf("statement %d", n))
	return contract.MCPServerConditions, applyv1alpha1.MCPServer("echo", "").WithStatus(applyv1alpha1.MCPServerStatus().
		WithObservedGeneration(n).WithConditions(conditions.Stamp(nil, v1alpha1.ConditionReady, ready, n, aNewYear)))
}

// runnerSays is the runner's n-th report.
func runnerSays(n int64, server types.UID) (ownership.Manager, *applyv1alpha1.MCPServerApplyConfiguration) {
	applied := conditions.True(v1alpha1.ReasonApplied, fmt.Sprintf("report %d", n))
	return contract.RunnerReport, applyv1alpha1.MCPServer("echo", "").WithStatus(applyv1alpha1.MCPServerStatus().
		WithRuntime(applyv1alpha1.RuntimeStatus().WithServerUID(string(server)).WithGeneration(n)).
		WithConditions(conditions.Stamp(nil, v1alpha1.ConditionBackendApplied, applied, n, aNewYear)))
}

// writeStatus writes 100 statements, each on the object as it was read before.
func writeStatus(
	s, as *kit.Env, requests *kit.Requests,
	says func(int64, types.UID) (ownership.Manager, *applyv1alpha1.MCPServerApplyConfiguration),
) {
	defer GinkgoRecover()
	direct, err := client.New(requests.Wrap(as.Config), client.Options{Scheme: s.Scheme, Mapper: s.Client.RESTMapper()})
	Expect(err).NotTo(HaveOccurred())
	applier := controllers.NewApplier(direct, direct)
	for n := int64(1); n <= 100; n++ {
		live := serverOf(s, "echo")
		s.Read(live)
		manager, statement := says(n, live.UID)
		_, err := applier.As(manager).Apply(s.Ctx, live, statement.WithNamespace(s.Namespace))
		Expect(err).NotTo(HaveOccurred(), "statement %d of %s", n, manager)
	}
}

// What the operator gives a server's runner, as far as reports need it.
const (
	runnerMayReport = `{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: reports}, rules: [
  {apiGroups: [freehold.dev], resources: [mcpservers, mcpservers/status], verbs: [get, patch]}]}`
	runnerIsBound = `{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: reports},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reports}, subjects: [{kind: ServiceAccount, name: echo-runner}]}`
)

// aNewYear is a time like any other.
var aNewYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

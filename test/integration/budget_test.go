package integration

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// What the operator may send is counted, not hoped for.
var _ = Describe("The operator's budget", func() {
	It("is 13 writes from a server's birth to Ready, 5 of them to its status, and an Event", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		mark := op.requests.Mark()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		writes := op.writes(mark).Accepted()
		Expect(len(writes)).To(BeNumerically("<=", 13), writes.String())
		Expect(len(writes.Of("mcpservers/status"))).To(BeNumerically("<=", 5), writes.String())
		// The default of the backend's replicas is nobody's, and stays so.
		Expect(s.OwnersOf(backendOf(s, "echo"), "spec.replicas")).To(BeEmpty())
		quiet(op) // an Event is sent later
		told := op.requests.Since(mark).Of("events").Accepted().Where(func(r kit.Request) bool { return r.Verb == "create" })
		Expect(len(told)).To(BeNumerically("<=", 1), told.String())
	})

	It("says which backend gets the calls in one write for new content of that, and in none for the proxy's", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		live := atRest(s, "echo")
		first, set := live.Status.Active, backendOf(s, "echo")
		s.Read(set)
		Expect(first).NotTo(BeNil())
		Expect(first.BackendContent).To(Equal(v1alpha1.BackendContent{
			Slot: 1, Hash: set.Spec.Template.Annotations[workload.AnnotationBackendHash],
			Generation: live.Status.Workload.Generation, Port: 8080, Path: "/mcp", Transport: v1alpha1.TransportStreamableHTTP,
		}))
		s.Owns(live, string(contract.MCPServerPlan), "status.active.hash", "status.active.slot")
		quiet(op)
		ofPlan := func(mark kit.Mark) kit.Log {
			return op.writes(mark).Accepted().
				Where(func(r kit.Request) bool { return r.Manager == string(contract.MCPServerPlan) })
		}
		mark := op.requests.Mark()
		s.Apply(git, server("echo", "proxy: {resources: {limits: {memory: 300Mi}}}"))
		live = atRest(s, "echo")
		Expect(live.Status.Workload.Generation).To(BeEquivalentTo(2))
		Expect(live.Status.Active).To(Equal(first))
		Expect(ofPlan(mark)).To(BeEmpty())

		mark = op.requests.Mark()
		s.Apply(git, server("echo", inPlace+"\nenv: [{name: A, value: b}]"))
		live = atRest(s, "echo")
		Expect(live.Status.Active.Hash).NotTo(Equal(first.Hash))
		Expect(live.Status.Active.Generation).To(Equal(live.Status.Workload.Generation))
		Expect(ofPlan(mark)).To(HaveLen(1))
	})

	It("is nothing, not even a read, for passes without a change", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		quiet(op)
		mark := op.requests.Mark()
		labelAll(s) // each label wakes a pass, and asks for nothing
		quiet(op)
		Expect(op.requests.Since(mark)).To(BeEmpty(), op.requests.Since(mark).String())
	})

	It("is 3 writes for a change of replicas", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		quiet(op) // what is seen may not have been answered yet
		mark := op.requests.Mark()
		s.Scale(serverOf(s, "echo"), autoscaler, 3)
		backendsReady(s, 3)
		atRest(s, "echo")
		quiet(op)
		Expect(len(op.writes(mark).Accepted())).To(BeNumerically("<=", 3), op.writes(mark).String())
	})

	It("is nothing for 10 servers that wait, and nothing for a restart with 10 that are ready", func() {
		const many = 10
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		image := "registry.example.com/" + s.Namespace + ":1"
		plane.Kubelet.Image(image, kit.ImagePullBackOff("not found"))
		for n := range many {
			s.Apply(git, kit.Server(fmt.Sprintf("echo-%d", n), image, ""))
		}
		awaitServers(s, many, v1alpha1.ReasonImagePull)
		// The last reports have been sent; their events are on the way back.
		quiet(op)
		before, mark := s.Versions(), op.requests.Mark()
		time.Sleep(10 * time.Second)
		Expect(op.requests.Since(mark)).To(BeEmpty(), op.requests.Since(mark).String())
		s.NothingMoved(before)

		plane.Kubelet.Image(image, kit.Runs())
		awaitServers(s, many, v1alpha1.ReasonReady)
		quiet(op)
		before, mark = s.Versions(), op.requests.Mark()
		op.restart()
		quiet(op)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())
		s.NothingMoved(before)
	})
})

// awaitServers waits until n servers give a reason.
func awaitServers(s *kit.Env, n int, reason string) {
	GinkgoHelper()
	var list v1alpha1.MCPServerList
	s.AwaitAll(&list, fmt.Sprintf("%d servers say %s", n, reason), func() error {
		count := 0
		for i := range list.Items {
			c := meta.FindStatusCondition(list.Items[i].Status.Conditions, v1alpha1.ConditionReady)
			if c != nil && c.Reason == reason {
				count++
			}
		}
		return equal(count, n)
	}, client.InNamespace(s.Namespace))
}

// quiet waits until the operator has sent nothing for two seconds. No watch can tell that nothing comes.
func quiet(op *operator) {
	GinkgoHelper()
	last, since := op.requests.Mark(), time.Now()
	Eventually(func() time.Duration {
		if now := op.requests.Mark(); now != last {
			last, since = now, time.Now()
		}
		return time.Since(since)
	}).Should(BeNumerically(">", 2*time.Second), "the operator does not come to rest")
}

package e2e

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// held is content that waits for an approval.
func held(round int) content {
	c := beside(round)
	c.rollout = ", hold: Always"
	return c
}

var _ = Describe("New content that was held", func() {
	// The rollout waits a minute for the proxy, and ten seconds more for sessions. The proxy looks at the status when it
	// finds nobody where it calls.
	It("gets the calls when its pod is ready again, and those of a proxy that is cut off when the content before goes",
		func(ctx SpecContext) {
			s := newStory("unheard")
			turns := []turn{s.begins(ctx, beside(1))}
			l := s.load(ctx)
			second := held(2)
			second.sessionsEnd = 70 * time.Second
			s.apply(ctx, second.spec())
			target := s.keepsServing(ctx, v1alpha1.ReasonRolloutHeld).Status.Rollout.Target
			deaf := s.settled(ctx, proxy, 2)[0]
			restore := cutOff(ctx, deaf)

			By("crashing while it is held")
			candidate := func() corev1.Pod {
				pods := s.pods(ctx, workload.Slot(target.Slot).Component())
				Expect(pods).To(HaveLen(1))
				return pods[0]
			}
			Eventually(ctx, func(g Gomega) {
				pod := candidate()
				kill(pod, "tools")
				g.Expect(pod.Status.ContainerStatuses[0].State.Waiting).NotTo(BeNil())
				g.Expect(stepOf(s.server(ctx), v1alpha1.StepCheck).Reason).NotTo(Equal(v1alpha1.ReasonApprovalRequired))
			}).Should(Succeed())
			second.rollout += fmt.Sprintf(", approved: %q", target.Hash)
			s.apply(ctx, second.spec())
			took := s.switched(ctx, 2, turns[0], v1alpha1.ReasonDeadlineExceeded)
			running := candidate().Status.ContainerStatuses[0].State.Running
			Expect(running).NotTo(BeNil())
			Expect(took.since).To(BeTemporally(">=", running.StartedAt.Time))
			Expect(time.Since(took.since)).To(BeNumerically(">", 50*time.Second), "the proxy was waited for")
			l.told(took)

			restore()
			s.hasSucceeded(ctx)
			Expect(roundAt(ctx, deaf)).To(Equal(2))
			took.acknowledged = time.Now() // until then that proxy may have called the content before
			l.judged(append(turns, took))
		}, SpecTimeout(10*time.Minute))

	// Nothing else may wait for these parts of the cluster.
	It("gets the calls with kube-proxy stopped, and from a proxy that starts again with the API server away", Serial,
		func(ctx SpecContext) {
			s := newStory("alone")
			turns := []turn{s.begins(ctx, beside(1))}
			l := s.load(ctx)
			s.apply(ctx, held(2).spec())
			s.keepsServing(ctx, v1alpha1.ReasonRolloutHeld)
			l.told(turns[0])

			By("getting the calls with kube-proxy stopped")
			proxies := s.settled(ctx, proxy, 2)
			goOn := stopped("kube-proxy")
			s.approve(ctx)
			turns = append(turns, s.takesOver(ctx, 2, turns[0]))
			l.told(turns[1])
			goOn()

			By("being called with the API server away")
			back := stopped("kube-apiserver")
			asked, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}}
			Expect(cluster.Get(asked, client.ObjectKeyFromObject(server), server)).NotTo(Succeed())
			l.judged(turns) // the calls at the proxy that ends next fail
			Expect(kill(proxies[0], "runner")).To(Equal(1))
			Eventually(ctx, func() (int, error) { return roundAt(ctx, proxies[0]) }).Should(Equal(2))
			back()
			since := time.Now()
			Eventually(ctx, func(g Gomega) { // the operator may have lost its lease, and starts again
				lease := &coordinationv1.Lease{}
				g.Expect(cluster.Get(ctx, client.ObjectKey{Namespace: system, Name: contract.LeaseName}, lease)).To(Succeed())
				g.Expect(lease.Spec.RenewTime.Time).To(BeTemporally(">", since))
			}).Should(Succeed())
			s.ready(ctx)
		}, SpecTimeout(10*time.Minute))
})

// roundAt is the round that a proxy's pod has a call answered by.
func roundAt(ctx context.Context, pod corev1.Pod) (int, error) {
	got, err := modernWays()[0].ask(ctx, fmt.Sprintf("http://%s:8000/mcp", pod.Status.PodIP), nil)
	return roundOf(string(got.Result)), err
}

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// toolsImage is a server that answers which round it is of: testdata/tools.
var toolsImage = "freehold.dev/tools:" + version()

// sessionsEnd is how long sessions go on here once other content has the calls.
const sessionsEnd = 4 * time.Second

var _ = Describe("New content beside what serves", func() {
	It("gets the calls and no call fails, while sessions stay where they began until their time is over",
		func(ctx SpecContext) {
			s := newStory("beside")
			first := s.begins(ctx, beside(1))
			l := s.load(ctx)
			turns, last := []turn{first}, 1+rollouts(1)
			next := func(round int) {
				GinkgoHelper()
				turns = append(turns, s.takesOver(ctx, round, turns[len(turns)-1]))
				l.told(turns[len(turns)-1])
			}
			for round := 2; round <= last; round++ {
				s.apply(ctx, beside(round).spec())
				next(round)
			}

			By("having no image")
			s.fails(ctx, content{image: "freehold.dev/tools:none", round: last + 1, tools: allTools}, v1alpha1.ReasonImagePull)
			l.told(turns[len(turns)-1])

			By("ending at once")
			s.fails(ctx, content{round: last + 1}, v1alpha1.ReasonCrashLoop)
			l.told(turns[len(turns)-1])

			By("having lost a tool")
			s.apply(ctx, content{round: last + 1, tools: allTools[:1]}.spec())
			held := s.keepsServing(ctx, v1alpha1.ReasonRolloutHeld)
			Expect(readyOf(held).Message).To(ContainSubstring(allTools[1]))
			s.approve(ctx)
			next(last + 1)

			l.judged(turns)
		}, SpecTimeout(time.Hour))
})

// content is what comes up beside what serves. Without a tool it ends at once.
type content struct {
	image string
	round int
	tools []string
	// rollout is the end of spec.rollout.
	rollout string
	// sessionsEnd is sessionsEnd if unset.
	sessionsEnd time.Duration
}

var allTools = []string{"test_simple_text", "other"}

// beside is content that is as it should be.
func beside(round int) content { return content{round: round, tools: allTools} }

func (c content) spec() string {
	args := ""
	if len(c.tools) > 0 {
		args = "args: [" + strings.Join(c.tools, ", ") + "], "
	}
	// Of the deadline a fifth passes before content that crashes, or has no image, has failed.
	return fmt.Sprintf(`{image: %q, %senv: [{name: ROUND, value: "%d"}], proxy: {replicas: 2},
		progressDeadlineSeconds: 50, rollout: {strategy: Successive, sessionsEnd: %s%s}}`,
		cmp.Or(c.image, toolsImage), args, c.round, cmp.Or(c.sessionsEnd, sessionsEnd),
		c.rollout)
}

// turn is when a round got the calls, and when every proxy was seen to send them there.
type turn struct {
	round               int
	since, acknowledged time.Time
}

// begins waits until the first content serves.
func (s story) begins(ctx context.Context, first content) turn {
	GinkgoHelper()
	s.apply(ctx, first.spec())
	return turn{first.round, s.ready(ctx).Status.Active.Since.Time, time.Now()}
}

// approve lets what is held have the calls.
func (s story) approve(ctx context.Context) {
	GinkgoHelper()
	approve := exec.CommandContext(ctx, "bin/kubectl-freehold", "-n", s.namespace, "rollout", "approve", s.name,
		"--yes") //nolint:gosec // generated names
	out, err := approve.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
}

// takesOver waits until the content that was applied last has got the calls, and nothing is left of what had them.
func (s story) takesOver(ctx context.Context, round int, before turn) turn {
	GinkgoHelper()
	took := s.switched(ctx, round, before, "")
	s.hasSucceeded(ctx)
	return took
}

// switched waits until the content that was applied last has got the calls, and the rollout waits no longer for proxies
// that may not know, for a reason.
func (s story) switched(ctx context.Context, round int, before turn, reason string) turn {
	GinkgoHelper()
	took := turn{round: round}
	Eventually(ctx, func(g Gomega) {
		server := s.server(ctx)
		status := server.Status
		g.Expect(status.ObservedGeneration).To(Equal(server.Generation))
		g.Expect(status.Active.Since.Time).To(BeTemporally(">", before.since), "%s", readyOf(server).Message)
		g.Expect(status.Active.Generation).To(Equal(status.Workload.Generation))
		if status.Rollout != nil {
			step := stepOf(server, v1alpha1.StepAcknowledge)
			g.Expect(step.State).To(Equal(v1alpha1.StepDone))
			g.Expect(step.Reason).To(Equal(reason))
		}
		took.since, took.acknowledged = status.Active.Since.Time, time.Now()
	}).Should(Succeed())
	return took
}

// stepOf is a step of the rollout that is under way.
func stepOf(server *v1alpha1.MCPServer, name string) v1alpha1.RolloutStep {
	GinkgoHelper()
	Expect(server.Status.Rollout).NotTo(BeNil())
	at := slices.IndexFunc(server.Status.Rollout.Steps, func(step v1alpha1.RolloutStep) bool { return step.Name == name })
	return server.Status.Rollout.Steps[at]
}

// hasSucceeded waits until the rollout has ended, and nothing is left of the content before.
func (s story) hasSucceeded(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		status := s.server(ctx).Status
		g.Expect(status.Rollout).To(BeNil())
		g.Expect(status.LastRollout.State).To(Equal(v1alpha1.RolloutSucceeded))
		g.Expect(status.LastRollout.Generation).To(Equal(status.Workload.Generation))
	}).Should(Succeed())
	s.ready(ctx)
	s.standsAlone(ctx)
}

// fails applies content that does not come up, for a reason. What serves keeps its pods, and nothing is left of the
// other.
func (s story) fails(ctx context.Context, broken content, reason string) {
	GinkgoHelper()
	before := s.activePods(ctx)
	s.apply(ctx, broken.spec())
	failed := s.keepsServing(ctx, v1alpha1.ReasonRolloutFailed)
	Expect(failed.Status.LastRollout.Reason).To(Equal(reason))
	s.standsAlone(ctx)
	Expect(s.activePods(ctx)).To(Equal(before))
}

// keepsServing waits until the server is not ready for a reason, while the content before gets the calls.
func (s story) keepsServing(ctx context.Context, reason string) *v1alpha1.MCPServer {
	GinkgoHelper()
	var server *v1alpha1.MCPServer
	Eventually(ctx, func(g Gomega) {
		server = s.server(ctx)
		g.Expect(server.Status.ObservedGeneration).To(Equal(server.Generation))
		g.Expect(readyOf(server).Reason).To(Equal(reason), readyOf(server).Message)
		g.Expect(meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionAvailable)).To(BeTrue())
		g.Expect(meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionStalled)).To(BeTrue())
		g.Expect(server.Status.Active.Generation).To(BeNumerically("<", server.Status.Workload.Generation))
	}).Should(Succeed())
	return server
}

// readyOf is the condition Ready, empty where there is none.
func readyOf(server *v1alpha1.MCPServer) metav1.Condition {
	if c := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// standsAlone waits until nothing of the backend is there but the content that gets the calls.
func (s story) standsAlone(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		slot := workload.Slot(s.server(ctx).Status.Active.Slot)
		var there []string
		for _, list := range []client.ObjectList{&appsv1.StatefulSetList{}, &corev1.ServiceList{}} {
			g.Expect(cluster.List(ctx, list, client.InNamespace(s.namespace))).To(Succeed())
			objects, err := meta.ExtractList(list)
			g.Expect(err).NotTo(HaveOccurred())
			for _, o := range objects {
				there = append(there, fmt.Sprintf("%T %s", o, o.(client.Object).GetName()))
			}
		}
		g.Expect(there).To(ConsistOf("*v1.StatefulSet "+slot.Name(s.name), "*v1.Service "+slot.Name(s.name),
			"*v1.Service "+slot.HeadlessName(s.name), "*v1.Service "+workload.ProxyName(s.name)))
		for _, other := range workload.Slots {
			if other != slot {
				g.Expect(s.pods(ctx, other.Component())).To(BeEmpty())
			}
		}
	}).Should(Succeed())
}

// activePods are the uids of the pods of the content that gets the calls.
func (s story) activePods(ctx context.Context) []types.UID {
	GinkgoHelper()
	var uids []types.UID
	for _, pod := range s.pods(ctx, workload.Slot(s.server(ctx).Status.Active.Slot).Component()) {
		uids = append(uids, pod.UID)
	}
	Expect(uids).NotTo(BeEmpty())
	return uids
}

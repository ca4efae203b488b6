package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/test/kit"
)

// successive asks for content beside what serves, whose predecessor's sessions end at once.
const successive = "rollout: {strategy: Successive, sessionsEnd: 0s}"

// followed is a server that serves, whose proxies tell that they follow its status.
func followed(s *kit.Env, more string) (*operator, *kit.Runners) {
	GinkgoHelper()
	op := operate(s)
	runners := s.RunProxies()
	s.Apply(git, server("echo", more))
	atRest(s, "echo")
	return op, runners
}

// ended waits until no rollout is under way, and the last one came to state.
func ended(s *kit.Env, state v1alpha1.RolloutState) *v1alpha1.MCPServer {
	GinkgoHelper()
	live := serverOf(s, "echo")
	s.Await(live, fmt.Sprintf("the rollout has ended, %s", state), func() error {
		if last := live.Status.LastRollout; live.Status.Rollout != nil || last == nil || last.State != state {
			return fmt.Errorf("rollout %+v, last %+v, Ready says %s", live.Status.Rollout, last, readyMessage(live))
		}
		return nil
	})
	return live
}

// secondOf is the StatefulSet of slot 2.
func secondOf(s *kit.Env) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "echo-slot2", Namespace: s.Namespace}}
}

// gone waits until nothing of a slot is left.
func gone(s *kit.Env, name string) {
	GinkgoHelper()
	for _, object := range []client.Object{
		&appsv1.StatefulSet{ObjectMeta: called(name)}, &corev1.Service{ObjectMeta: called(name)},
		&corev1.Service{ObjectMeta: called(name + "-headless")},
	} {
		s.AwaitGone(object)
	}
}

// isAvailable says that what served before serves on.
func isAvailable(live *v1alpha1.MCPServer) bool {
	return meta.IsStatusConditionTrue(live.Status.Conditions, v1alpha1.ConditionAvailable)
}

var _ = Describe("New content beside what serves", func() {
	var s *kit.Env
	BeforeEach(func() { s = newEnv() })

	It("comes up in the other slot, gets the calls, and the earlier content goes", func() {
		op, runners := followed(s, successive)
		before := atRest(s, "echo")
		backend := backendOf(s, "echo")
		s.Read(backend)
		quiet(op)
		history := s.Record(serverOf(s, "echo"))
		incumbent := s.Record(backend)
		mark, runnersMark := op.requests.Mark(), runners.Requests.Mark()
		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		live := ended(s, v1alpha1.RolloutSucceeded)
		Expect(live.Status.Active.Slot).To(BeEquivalentTo(2))
		Expect(live.Status.Active.Hash).NotTo(Equal(before.Status.Active.Hash))
		Expect(live.Status.LastRollout.Message).To(HavePrefix("pods run sha256:"))
		gone(s, "echo-backend")
		live = atRest(s, "echo")
		Expect(live.Status.Selector).To(ContainSubstring("backend-slot2"))
		Expect(meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionAvailable)).To(BeNil())
		quiet(op)

		// No pod of the incumbent is replaced before the switch, nor is it written to.
		incumbent.Check(func(f kit.State) error {
			set := &appsv1.StatefulSet{}
			if err := decode(f.Object, set); err != nil || f.Deleted {
				return err
			}
			return equal(fmt.Sprint(set.Generation, set.Spec.Template.Annotations),
				fmt.Sprint(backend.Generation, backend.Spec.Template.Annotations))
		})
		// The pointer and the step of the drain change in one write, and a plan stands before any child of it.
		switched := 0
		history.Check(func(f kit.State) error {
			seen := &v1alpha1.MCPServer{}
			if err := decode(f.Object, seen); err != nil {
				return err
			}
			if r := seen.Status.Rollout; seen.Status.Active.Slot == 2 && r != nil && r.From != nil {
				switched++
				if r.From.Slot != 1 || r.Steps[4].Deadline == nil && r.Steps[4].State != v1alpha1.StepDone {
					return fmt.Errorf("after the switch the rollout is %+v", r)
				}
			}
			return nil
		})
		Expect(switched).NotTo(BeZero())
		writes := append(op.writes(mark).Accepted(), runners.Requests.Since(runnersMark).Writes().Accepted()...)
		Expect(len(writes)).To(BeNumerically("<=", 25), writes.String())
		GinkgoWriter.Println(writes.String())

		// And again, back to slot 1.
		s.Apply(git, server("echo", successive+"\nargs: [three]"))
		s.Await(live, "the rollout back to slot 1 has ended", func() error {
			if live.Status.Active.Slot != 1 || live.Status.Rollout != nil {
				return fmt.Errorf("active %+v, rollout %+v: %s", live.Status.Active, live.Status.Rollout, readyMessage(live))
			}
			return nil
		})
		gone(s, "echo-slot2")
		atRest(s, "echo")
		quiet(op)
		mark = op.requests.Mark()
		labelAll(s)
		quiet(op)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())
	})

	It("has no child before its plan is stored", func() {
		op := &operator{env: s, requests: &kit.Requests{}}
		op.start(controllers.Options{})
		DeferCleanup(func() { op.stop() })
		s.RunProxies()
		s.Apply(git, server("echo", successive))
		atRest(s, "echo")
		quiet(op)
		mark := op.requests.Mark()
		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		ended(s, v1alpha1.RolloutSucceeded)
		writes := op.writes(mark).Accepted()
		plan := slices.IndexFunc(writes, func(r kit.Request) bool { return r.Manager == string(contract.MCPServerPlan) })
		child := slices.IndexFunc(writes, func(r kit.Request) bool { return !strings.HasPrefix(r.Resource, "mcpservers") })
		Expect(plan).To(BeNumerically("<", child), writes.String())
	})

	It("that crashes leaves everything as it was, and is not tried again", func() {
		op, _ := followed(s, successive)
		image := "registry.example.com/" + s.Namespace + ":bad"
		plane.Kubelet.Image(image, kit.ImagePullBackOff("not found"))
		before := atRest(s, "echo")
		backend := backendOf(s, "echo")
		s.Read(backend)
		s.Apply(git, kit.Server("echo", image, successive+"\nprogressDeadlineSeconds: 15"))
		live := notReady(s, "echo", v1alpha1.ReasonRolloutFailed)
		Expect(isAvailable(live)).To(BeTrue())
		Expect(meta.IsStatusConditionTrue(live.Status.Conditions, v1alpha1.ConditionStalled)).To(BeTrue())
		Expect(readyMessage(live)).To(ContainSubstring("cannot be pulled"))
		Expect(live.Status.Active).To(Equal(before.Status.Active))
		gone(s, "echo-slot2")
		quiet(op)
		now := backendOf(s, "echo")
		s.Read(now)
		Expect(now.Generation).To(Equal(backend.Generation))

		// The same content fails once; a restart of the operator changes nothing of that.
		op.restart()
		quiet(op)
		Expect(s.Exists(secondOf(s))).To(BeFalse())

		// Back to what serves: no pod is replaced.
		s.Apply(git, server("echo", successive))
		live = ready(s, "echo")
		s.Read(now)
		Expect(now.Spec.Template.Annotations).To(Equal(backend.Spec.Template.Annotations))
		Expect(now.UID).To(Equal(backend.UID))
		Expect(live.Status.Active.Slot).To(Equal(before.Status.Active.Slot))
		Expect(meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionAvailable)).To(BeNil())
	})

	It("that has lost a tool is held until it is approved", func() {
		_, runners := followed(s, successive)
		runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}})
		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		live := notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		Expect(readyMessage(live)).To(ContainSubstring("search"))
		Expect(isAvailable(live)).To(BeTrue())
		Expect(live.Status.Active.Slot).To(BeEquivalentTo(1))
		hash := live.Status.Rollout.Target.Hash
		s.Apply(git, server("echo", "rollout: {strategy: Successive, sessionsEnd: 0s, approved: "+hash[:10]+"}\nargs: [two]"))
		live = ended(s, v1alpha1.RolloutSucceeded)
		Expect(live.Status.Active.Hash).To(Equal(hash))
		ready(s, "echo")
	})

	It("has what serves made again while it is held, by a proxy that has other content", func() {
		_, runners := followed(s, successive)
		runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}})
		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		first := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "echo-backend", Namespace: s.Namespace}}
		s.Read(first)
		s.Delete(first.DeepCopy())
		again := &appsv1.StatefulSet{ObjectMeta: first.ObjectMeta}
		s.Await(again, "it is made again", func() error {
			if again.UID == first.UID {
				return errors.New("it is the first one")
			}
			return nil
		})
		Expect(again.Spec.Template).To(Equal(first.Spec.Template))
		Expect(again.Annotations).To(Equal(first.Annotations))
	})

	It("says while it is held, and after it has failed, whether what serves answers", func() {
		op, runners := followed(s, successive+"\nproxy: {replicas: 2}")
		before := atRest(s, "echo")
		hash := before.Status.Active.Hash
		available := func(status metav1.ConditionStatus, reason string) *v1alpha1.MCPServer {
			GinkgoHelper()
			live := serverOf(s, "echo")
			s.Await(live, "Available is "+string(status), func() error {
				c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionAvailable)
				if c == nil || c.Status != status || c.Reason != reason {
					return fmt.Errorf("it is %+v; Ready says %s", c, readyMessage(live))
				}
				return nil
			})
			return live
		}
		hangs := conditions.False(v1alpha1.ReasonNotAnswering, "the backend hangs")
		for _, reason := range []string{v1alpha1.ReasonRolloutHeld, v1alpha1.ReasonRolloutFailed} {
			if reason == v1alpha1.ReasonRolloutHeld {
				runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}})
				s.Apply(git, server("echo", successive+"\nproxy: {replicas: 2}\nargs: [two]"))
			} else {
				image := "registry.example.com/" + s.Namespace + ":bad"
				plane.Kubelet.Image(image, kit.ImagePullBackOff("not found"))
				s.Apply(git, kit.Server("echo", image, successive+"\nproxy: {replicas: 2}\nprogressDeadlineSeconds: 15"))
			}
			live := notReady(s, "echo", reason)
			Expect(isAvailable(live)).To(BeTrue())
			Expect(live.Status.Runtime.BackendHash).To(Equal(hash))
			quiet(op)
			mark, runnersMark := op.requests.Mark(), runners.Requests.Mark()
			runners.Answer(hash, hangs)
			live = available(metav1.ConditionFalse, v1alpha1.ReasonNotAnswering)
			Expect(meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionAvailable).Message).To(
				And(ContainSubstring(hash[:10]), HaveSuffix("the backend hangs")))
			notReady(s, "echo", reason)
			quiet(op)
			runners.Answer(hash, kit.Answers)
			live = available(metav1.ConditionTrue, v1alpha1.ReasonReady)
			quiet(op)
			Expect(live.Status.Active).To(Equal(before.Status.Active))
			writes := append(op.writes(mark).Accepted(), runners.Requests.Since(runnersMark).Writes().Accepted()...)
			Expect(len(writes)).To(BeNumerically("<=", 8), writes.String()) // two of runners and two of the operator, each way
		}
	})

	It("is cancelled when the server is suspended, and begins anew when that resumes", func() {
		_, runners := followed(s, successive)
		runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}})
		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		before := notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		s.Apply(git, server("echo", successive+"\nargs: [two]\nsuspend: true"))
		stopped(s, "echo", v1alpha1.ReasonSuspended)
		live := ended(s, v1alpha1.RolloutCancelled)
		Expect(live.Status.Active).To(Equal(before.Status.Active))
		gone(s, "echo-slot2")
		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		live = notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		Expect(live.Status.Rollout.ID).NotTo(Equal(before.Status.Rollout.ID))
		Expect(isAvailable(live)).To(BeTrue())
		runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true})
		ended(s, v1alpha1.RolloutSucceeded)
		ready(s, "echo")
	})

	It("gives way to content that goes back to what serves, to a change of strategy, and to a deletion", func() {
		_, runners := followed(s, successive)
		runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}})
		before := atRest(s, "echo")
		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		s.Apply(git, server("echo", successive))
		live := ready(s, "echo")
		Expect(live.Status.Active.Slot).To(Equal(before.Status.Active.Slot))
		gone(s, "echo-slot2")

		s.Apply(git, server("echo", successive+"\nargs: [three]"))
		notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		s.Apply(git, server("echo", "rollout: {strategy: Replace}\nargs: [three]"))
		live = ready(s, "echo")
		Expect(live.Status.Active.Slot).To(BeEquivalentTo(2), "where it was ready already")
		Expect(live.Status.Active.Hash).NotTo(Equal(before.Status.Active.Hash))
		gone(s, "echo-backend")

		s.Apply(git, server("echo", successive+"\nargs: [four]"))
		notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		s.Delete(live)
		s.AwaitGone(live)
		gone(s, "echo-slot2")
		gone(s, "echo-backend")
	})

	It("does not protect what does not serve", func() {
		image := "registry.example.com/" + s.Namespace + ":bad"
		plane.Kubelet.Image(image, kit.NeverReady())
		op := &operator{env: s, requests: &kit.Requests{}}
		op.start(controllers.Options{})
		DeferCleanup(func() { op.stop() })
		s.RunProxies()
		s.Apply(git, kit.Server("echo", image, successive))
		set := backendOf(s, "echo")
		s.Await(set, "a pod was made", func() error { return equal(set.Status.Replicas, 1) })
		quiet(op)
		history, pods, mark := s.Record(serverOf(s, "echo")), s.RecordAll(&corev1.Pod{}), op.requests.Mark()
		s.Apply(git, server("echo", successive))
		live := ready(s, "echo")
		Expect(live.Status.Active.Slot).To(BeEquivalentTo(1))
		Expect(live.Status.LastRollout).To(BeNil())
		Expect(s.Exists(secondOf(s))).To(BeFalse())

		// What is counted up to its first answer: no step, one other content of the StatefulSet, and one pod of it.
		history.Check(func(f kit.State) error {
			seen := &v1alpha1.MCPServer{}
			if err := decode(f.Object, seen); err != nil {
				return err
			}
			if seen.Status.Rollout != nil {
				return fmt.Errorf("a rollout is under way: %+v", seen.Status.Rollout)
			}
			return nil
		})
		had := set.Generation
		s.Read(set)
		Expect(set.Generation).To(Equal(had + 1))
		backends := map[string]bool{}
		for _, f := range pods.States() {
			if strings.HasPrefix(f.Object.GetName(), "echo-backend-") {
				backends[string(f.Object.GetUID())] = true
			}
		}
		Expect(backends).To(HaveLen(2))
		writes := op.writes(mark).Accepted()
		Expect(len(writes)).To(BeNumerically("<=", 10), writes.String())
	})

	It("goes in where what has the calls answers nobody any more", func() {
		op := &operator{env: s, requests: &kit.Requests{}}
		options := controllers.Options{}
		options.Workload.RunnerImage = "freehold.dev/runner:" + s.Namespace
		op.start(options)
		DeferCleanup(func() { op.stop() })
		runners := s.RunProxies()
		const soon = successive + "\nprogressDeadlineSeconds: 15"
		s.Apply(git, server("echo", soon))
		first := atRest(s, "echo")
		s.Apply(git, server("echo", soon+"\nargs: [two]"))
		ended(s, v1alpha1.RolloutSucceeded)
		second := atRest(s, "echo")

		// No proxy is ready that nothing answers, and the candidate is compared with nothing.
		hangs := func() {
			plane.Kubelet.Image(options.Workload.RunnerImage, kit.NeverReady())
			runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true, Reason: v1alpha1.ReasonNotAsked})
		}
		switched := func(from *v1alpha1.MCPServer) {
			GinkgoHelper()
			live := serverOf(s, "echo")
			s.Await(live, "other content has the calls", func() error {
				if a := live.Status.Active; a == nil || a.Hash == from.Status.Active.Hash {
					return fmt.Errorf("%s has them; %s", from.Status.Active.Hash, readyMessage(live))
				}
				return nil
			})
			plane.Kubelet.Image(options.Workload.RunnerImage, kit.Runs())
		}
		hangs()
		s.Apply(git, server("echo", soon))
		switched(second)
		live := ready(s, "echo")
		Expect(live.Status.Active.Hash).To(Equal(first.Status.Active.Hash))
		live = atRest(s, "echo")

		hangs()
		s.Apply(git, server("echo", soon+"\nrestartedAt: 2026-01-01T00:00:00Z"))
		switched(live)
		ready(s, "echo")
	})
})

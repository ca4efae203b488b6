package integration

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// allows lets a namespace have so many pods, of which some are used. What ends gives nothing back, since the controller
// that counts again does not run here.
func allows(s *kit.Env, pods, used int64) {
	GinkgoHelper()
	s.Force("somebody", fmt.Sprintf(
		`{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"%d"}}}`, pods))
	quota := &corev1.ResourceQuota{ObjectMeta: called("q")}
	s.Read(quota)
	quota.Status.Hard = quota.Spec.Hard
	quota.Status.Used = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(used, resource.DecimalSI)}
	s.Must(s.Client.Status().Update(s.Ctx, quota), "saying what is used of the quota")
}

var _ = Describe("Pods of a rollout", func() {
	var s *kit.Env
	BeforeEach(func() { s = newEnv() })

	// Nobody tells the controller of StatefulSets that there is room again: it tries by itself, later each time.
	It("are refused by a quota in its words, and made once there is room, in the time that was left", func() {
		followed(s, successive)
		allows(s, 0, 2)
		Eventually(func() error { return admits(s) }).Should(MatchError(ContainSubstring("exceeded quota")))
		allows(s, 3, 2) // for the proxy that knows both contents
		history := s.Record(serverOf(s, "echo"))
		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		live := serverOf(s, "echo")
		s.Await(live, "the quota refuses the candidate", func() error {
			if r := live.Status.Rollout; r == nil || r.Steps[1].Reason != v1alpha1.ReasonPodRefused ||
				r.Steps[1].Deadline != nil {
				return fmt.Errorf("the rollout is %+v", r)
			}
			return nil
		})
		left := live.Status.Rollout.Steps[1].Remaining
		Expect(live.Status.Rollout.Steps[1].Message).To(ContainSubstring("exceeded quota"))
		Expect(left).NotTo(BeNil())
		Expect(live.Status.Active.Slot).To(BeEquivalentTo(1))

		room := time.Now().Truncate(time.Second)
		allows(s, 9, 3)
		ended(s, v1alpha1.RolloutSucceeded)
		Expect(atRest(s, "echo").Status.Active.Slot).To(BeEquivalentTo(2))
		refused := false
		history.Check(func(f kit.State) error {
			seen := &v1alpha1.MCPServer{}
			if err := decode(f.Object, seen); err != nil || seen.Status.Rollout == nil {
				return err
			}
			step := seen.Status.Rollout.Steps[1]
			refused = refused || step.Reason == v1alpha1.ReasonPodRefused
			if step.Deadline != nil && refused && step.Deadline.Before(new(metav1.NewTime(room.Add(left.Duration)))) {
				return fmt.Errorf("%s were left, and after %s the deadline is %s", left, room, step.Deadline)
			}
			return nil
		})
	})

	It("are made again where one of what serves is evicted while content beside it is held", func() {
		operate(s)
		runners := s.RunProxies()
		image := "registry.example.com/" + s.Namespace + ":1"
		s.Apply(git, kit.Server("echo", image, successive))
		atRest(s, "echo")
		runners.SeeCandidates(lostTool)
		s.Apply(git, server("echo", successive))
		before := notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		pod := &corev1.Pod{ObjectMeta: called("echo-backend-0")}
		s.Read(pod)
		plane.Kubelet.Image(image, kit.NeverReady()) // what comes takes its time
		s.Must(s.Client.SubResource("eviction").Create(s.Ctx, pod, &policyv1.Eviction{}), "evicting a pod of what serves")
		held := func(available bool) {
			GinkgoHelper()
			live := serverOf(s, "echo")
			s.Await(live, fmt.Sprintf("Available is %t, and the rollout is held", available), func() error {
				if r := live.Status.Rollout; isAvailable(live) != available || r == nil || r.ID != before.Status.Rollout.ID ||
					!v1alpha1.NeedsApproval(r.Steps[2].Reason) || *live.Status.Active != *before.Status.Active {
					return fmt.Errorf("active %+v, rollout %+v, %s", live.Status.Active, r, readyMessage(live))
				}
				return nil
			})
		}
		held(false)
		plane.Kubelet.Image(image, kit.Runs())
		held(true)
		again := &corev1.Pod{ObjectMeta: called("echo-backend-0")}
		s.Read(again)
		Expect(again.UID).NotTo(Equal(pod.UID))
		Expect(again.Annotations[workload.AnnotationBackendHash]).To(Equal(before.Status.Active.Hash))
		runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true})
		ended(s, v1alpha1.RolloutSucceeded)
		ready(s, "echo")
	})

	It("are, on the way back from content that is held, those of each proxy once, and none of the backend", func() {
		const both = successive + "\nproxy: {replicas: 2}"
		_, runners := followed(s, both)
		runners.SeeCandidates(lostTool)
		pods := s.RecordAll(&corev1.Pod{})
		s.Apply(git, server("echo", both+"\nargs: [two]"))
		notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		made := func() map[string]int {
			all := map[string]map[string]bool{}
			for _, f := range pods.States() {
				component := f.Object.GetLabels()[workload.LabelComponent]
				if all[component] == nil {
					all[component] = map[string]bool{}
				}
				all[component][string(f.Object.GetUID())] = true
			}
			counts := map[string]int{}
			for component, uids := range all {
				counts[component] = len(uids)
			}
			return counts
		}
		proxy, one, two := workload.ComponentProxy, workload.Slot1.Component(), workload.Slot2.Component()
		proxiesReady(s, 2)
		Expect(made()).To(Equal(map[string]int{proxy: 4, one: 1, two: 1}))
		s.Apply(git, server("echo", both))
		ready(s, "echo")
		proxiesReady(s, 2)
		gone(s, "echo-slot2")
		Expect(made()).To(Equal(map[string]int{proxy: 6, one: 1, two: 1}))
	})
})

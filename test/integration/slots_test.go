package integration

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// lostTool is what has a candidate wait.
var lostTool = v1alpha1.CandidateStatus{Answers: true, Lost: 1, LostTools: []string{"search"}}

// budgetOfThePage is the PodDisruptionBudget of docs/how-to/scale.md, for the backend of a server.
func budgetOfThePage(name string) string {
	GinkgoHelper()
	page, err := os.ReadFile("../../docs/how-to/scale.md")
	Expect(err).NotTo(HaveOccurred())
	found := regexp.MustCompile("(?s)```yaml\n(apiVersion: policy/v1\nkind: PodDisruptionBudget\n.*?)```").
		FindSubmatch(page)
	Expect(found).NotTo(BeNil())
	return strings.ReplaceAll(string(found[1]), "everything", name)
}

var _ = Describe("The two contents of a rollout", func() {
	It("have names under the longest of names, and one PodDisruptionBudget counts the pods of both", func() {
		s := newEnv()
		operate(s)
		runners := s.RunProxies()
		name, two := strings.Repeat("a", 44), successive+"\nreplicas: 2"
		s.Apply(git, server(name, two))
		atRest(s, name)
		s.Apply(git, budgetOfThePage(name))
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: called(name)}
		counts := func(expected, healthy, allowed int32) {
			GinkgoHelper()
			s.Await(budget, fmt.Sprintf("it counts %d pods", expected), func() error {
				got := budget.Status
				return equal(fmt.Sprint(got.ExpectedPods, got.CurrentHealthy, got.DisruptionsAllowed),
					fmt.Sprint(expected, healthy, allowed))
			})
		}
		counts(2, 2, 1)

		runners.SeeCandidates(lostTool)
		s.Apply(git, server(name, two+"\nargs: [two]"))
		notReady(s, name, v1alpha1.ReasonRolloutHeld)
		counts(4, 4, 1)
		for _, object := range []client.Object{
			&appsv1.StatefulSet{ObjectMeta: called(name + "-slot2")}, &corev1.Service{ObjectMeta: called(name + "-slot2")},
			&corev1.Service{ObjectMeta: called(name + "-slot2-headless")},
		} {
			Expect(s.Exists(object)).To(BeTrue(), s.Title(object))
		}

		runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true})
		gone(s, name+"-backend")
		Expect(atRest(s, name).Status.Active.Slot).To(BeEquivalentTo(2))
		counts(2, 2, 1)
	})

	It("stand without a status, and what served serves on", func() {
		s := newEnv()
		operate(s)
		runners := s.RunProxies()
		s.Apply(git, server("echo", successive))
		first := atRest(s, "echo")
		runners.SeeCandidates(lostTool)
		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		var pods []corev1.Pod
		for _, name := range []string{"echo-backend-0", "echo-slot2-0"} {
			pod := corev1.Pod{ObjectMeta: called(name)}
			s.Read(&pod)
			pods = append(pods, pod)
		}
		lost := serverOf(s, "echo")
		s.Read(lost)
		s.Must(s.Client.Delete(s.Ctx, lost.DeepCopy(), client.PropagationPolicy("Orphan")), "deleting it alone")
		s.AwaitGone(lost)

		s.Apply(git, server("echo", successive+"\nargs: [two]"))
		live := notReady(s, "echo", v1alpha1.ReasonRolloutHeld)
		Expect(live.Status.Active.Slot).To(BeEquivalentTo(1))
		Expect(live.Status.Active.Hash).To(Equal(first.Status.Active.Hash))
		Expect(isAvailable(live)).To(BeTrue())
		for _, pod := range pods {
			now := pod
			s.Read(&now)
			Expect(now.UID).To(Equal(pod.UID), pod.Name)
		}
		runners.SeeCandidates(v1alpha1.CandidateStatus{Answers: true})
		ended(s, v1alpha1.RolloutSucceeded)
		gone(s, "echo-backend")
		ready(s, "echo")
	})
})

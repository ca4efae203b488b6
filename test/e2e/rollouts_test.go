package e2e

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// rollouts is how often each is rolled out, so often by default: more with ROLLOUTS=20.
func rollouts(often int) int {
	if n, err := strconv.Atoi(os.Getenv("ROLLOUTS")); err == nil {
		return n
	}
	return often
}

var _ = Describe("While pods are replaced or stopped", func() {
	It("no call fails in rolling updates with two replicas of each", func(ctx SpecContext) {
		s := newStory("rolled")
		at := func(round, port int) func() {
			return func() {
				s.apply(ctx, inPlace(
					fmt.Sprintf(`{image: %q, args: ["-http", ":%d"], port: %d, replicas: 2, env: [{name: ROUND, value: "%d"}],
					proxy: {replicas: 2, podTemplate: {metadata: {annotations: {round: "%d"}}}}}`, image, port, port, round, round)))
			}
		}
		before := func(round int) int { return 8079 + round }
		s.replaced(ctx, at(0, before(1)), proxy, backend)
		calls := callAgain(ctx, s.ready(ctx).Status.URL, 8)
		for round := 1; round <= rollouts(1); round++ {
			for _, rollout := range []struct {
				of         string
				roll       func()
				components []string
			}{
				{
					"proxy", s.restart(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: workload.ProxyName(s.name)}}),
					[]string{proxy},
				},
				{
					"backend", s.restart(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: workload.BackendName(s.name)}}),
					[]string{backend},
				},
				{"both", at(round, before(round)), []string{proxy, backend}},
				{"both, and their port", at(round, before(round+1)), []string{proxy, backend}},
			} {
				s.replaced(ctx, rollout.roll, rollout.components...)
				answers, failures := calls.soFar()
				GinkgoWriter.Printf("%s rollout %d of %s: %d answers so far, failures: %q\n", time.Now().Format(time.TimeOnly),
					round, rollout.of, answers, failures)
			}
		}
		calls.end()
		answers, failures := calls.soFar()
		Expect(failures).To(BeEmpty())
		Expect(answers).To(BeNumerically(">", 0))
		AddReportEntry(fmt.Sprintf("%d answers in %d rollouts", answers, 4*rollouts(1)))

		By("changing the transport, under calls that need no session whatever the server speaks")
		modern := callIn(ctx, s.server(ctx).Status.URL, 4, modernWays())
		s.replaced(ctx, func() {
			s.apply(ctx, inPlace(
				fmt.Sprintf(`{image: %q, transport: stdio, command: [/everything-server], replicas: 2, proxy: {replicas: 2}}`,
					image)))
		}, proxy, backend)
		modern.answeredAll()
	}, SpecTimeout(time.Hour))

	// A call takes longer than a backend pod takes to end.
	It("a call in flight gets its answer from a server that is suspended, scaled to zero or deleted in the foreground",
		func(ctx SpecContext) {
			const slow = 15 * time.Second
			stops := map[string]func(story){
				"suspended": func(s story) { s.apply(ctx, spec(1)[:len(spec(1))-1]+", suspend: true}") },
				"scaled": func(s story) {
					zero := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`))
					Expect(cluster.SubResource("scale").Patch(ctx, s.server(ctx), zero)).To(Succeed())
				},
				"deleted": func(s story) {
					Expect(cluster.Delete(ctx, s.server(ctx), client.PropagationPolicy(metav1.DeletePropagationForeground))).
						To(Succeed())
				},
			}
			type end struct {
				name, end string
				err       error
			}
			stories, ends := map[string]story{}, make(chan end, len(stops))
			for name := range stops {
				stories[name] = newStory(name)
				stories[name].apply(ctx, spec(1))
			}
			for name, s := range stories {
				url := s.ready(ctx).Status.URL
				Eventually(ctx, func() (string, error) { return call(ctx, url) }).Should(Equal("answer"))
				body := &slowly{pause: slow, begun: make(chan struct{})}
				go func() {
					said, err := ways()[0].call(ctx, url, body)
					ends <- end{name, said, err}
				}()
				Eventually(ctx, body.begun).Should(BeClosed())
				time.Sleep(time.Second) // what was sent is read
				stops[name](s)
			}
			for range stops {
				got := <-ends
				Expect(got.err).NotTo(HaveOccurred(), got.name)
				Expect(got.end).To(Equal("answer"), got.name)
			}
			for _, s := range stories {
				Eventually(ctx, func() int { return len(s.pods(ctx, workload.ComponentBackend)) }).Should(BeZero())
			}
			Eventually(ctx, func() error {
				s := stories["deleted"]
				return cluster.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.name}, &v1alpha1.MCPServer{})
			}).Should(MatchError(apierrors.IsNotFound, "is gone"))
		})
})

// restart replaces the pods of an object as kubectl rollout restart does.
func (s story) restart(ctx context.Context, object client.Object) func() {
	return func() {
		object.SetNamespace(s.namespace)
		annotation := fmt.Sprintf(
			`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`,
			time.Now().Format(time.RFC3339Nano))
		Expect(cluster.Patch(ctx, object, client.RawPatch(types.StrategicMergePatchType, []byte(annotation)),
			client.FieldOwner("kubectl-rollout"))).To(Succeed())
	}
}

// replaced does something, and waits until each of the components has two pods,
// all new and ready, and no others.
func (s story) replaced(ctx context.Context, do func(), components ...string) {
	GinkgoHelper()
	old := map[types.UID]bool{}
	for _, component := range components {
		for _, pod := range s.pods(ctx, component) {
			old[pod.UID] = true
		}
	}
	do()
	for _, component := range components {
		Eventually(ctx, func(g Gomega) {
			pods := s.pods(ctx, component)
			g.Expect(pods).To(HaveLen(2), component)
			for i := range pods {
				g.Expect(old[pods[i].UID]).To(BeFalse(), "%s is old", pods[i].Name)
				g.Expect(ready(&pods[i])).To(BeTrue(), "%s is not ready", pods[i].Name)
			}
		}).Should(Succeed())
	}
}

// soFar is how many calls were answered, and how the others ended.
func (c *caller) soFar() (answers int, failures []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers, append(append(failures, c.errors...), c.wrong...)
}

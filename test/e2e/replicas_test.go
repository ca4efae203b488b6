package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/freehold-dev/freehold/controllers/workload"
)

const proxy, backend = workload.ComponentProxy, workload.ComponentBackend

var _ = Describe("Sessions over replicas", func() {
	It("stay at their pod through whichever proxy, and end with their pod alone", func(ctx SpecContext) {
		s := newStory("replicated")
		s.apply(ctx, fmt.Sprintf(`{image: %q, args: ["-http", ":8080", "-stateless=false"]}`, image))
		url := s.ready(ctx).Status.URL
		s.beginScaling(ctx)
		calls, inSessions := callIn(ctx, url, 2, modernWays()), callInSessions(ctx, url, 2)
		s.scale(ctx, 3)
		s.settled(ctx, backend, 3)
		s.scaleProxies(ctx, 3)
		s.known(ctx, 3)
		all := s.openSessions(ctx, 12)
		s.live(ctx, all, "when they are new")
		for _, at := range []int{0, len(all[0].id) / 2, len(all[0].id) - 1} {
			_, err := all[0].altered(at).call(ctx)
			Expect(err).To(MatchError(unknownSession), "with byte %d changed", at)
		}

		s.scaleProxies(ctx, 2)
		s.live(ctx, all, "with 2 proxies")
		s.replaced(ctx, s.restart(ctx, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: workload.ProxyName(s.name)}}),
			proxy)
		s.live(ctx, all, "with new proxies")
		s.scaleProxies(ctx, 3)

		pods := s.settled(ctx, backend, 3)
		Expect(cluster.Delete(ctx, &pods[1])).To(Succeed())
		s.gone(ctx, pods[1])
		s.settled(ctx, backend, 3)
		others, endedWithPod := s.fates(ctx, all)
		s.scale(ctx, 2)
		s.gone(ctx, pods[2])
		s.scale(ctx, 3)
		s.settled(ctx, backend, 3)
		last, endedWithScale := s.fates(ctx, others)
		AddReportEntry(fmt.Sprintf("sessions of three pods: %d, %d, %d", len(last), len(endedWithPod), len(endedWithScale)))
		Expect(endedWithPod).NotTo(BeEmpty(), "the pod that was deleted kept some")
		Expect(endedWithScale).NotTo(BeEmpty(), "and the pod that was scaled away")
		Expect(last).NotTo(BeEmpty(), "and the pod that stayed")

		pods = s.settled(ctx, backend, 3)
		s.scale(ctx, 1)
		s.scaleProxies(ctx, 1)
		s.gone(ctx, pods[1])
		s.gone(ctx, pods[2])
		calls.answeredAll()
		inSessions.answeredAll()
		s.scaledByOthers(ctx)
	}, SpecTimeout(10*time.Minute))

	It("no call fails while a node is drained of two proxies and two backends that have budgets", func(ctx SpecContext) {
		s := newStory("drained")
		s.apply(ctx,
			fmt.Sprintf(`{image: %q, args: ["-http", ":8080", "-stateless=false"], replicas: 2, proxy: {replicas: 2}}`, image))
		url := s.ready(ctx).Status.URL
		for _, component := range []string{proxy, backend} {
			s.settled(ctx, component, 2)
			Expect(cluster.Create(ctx, &policyv1.PodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: component},
				Spec: policyv1.PodDisruptionBudgetSpec{
					MaxUnavailable: new(intstr.FromInt32(1)),
					Selector:       &metav1.LabelSelector{MatchLabels: workload.Selector(s.name, component)},
				},
			})).To(Succeed())
		}
		calls := callIn(ctx, url, 4, modernWays())
		s.replaced(ctx, func() { s.drain(ctx) }, proxy, backend)
		calls.answeredAll()
	}, SpecTimeout(10*time.Minute))
})

// unknownSession is what a proxy answers in a session that it does not know, or whose pod is
// gone.
var unknownSession = SatisfyAll(ContainSubstring("HTTP 404"), ContainSubstring("-32008"))

// modernWays are those of clients that need no session.
func modernWays() []way {
	return slices.DeleteFunc(ways(), func(w way) bool { return !w.modern })
}

// answeredAll ends the calls, each of which got its answer.
func (c *caller) answeredAll() {
	GinkgoHelper()
	c.end()
	answers, failures := c.soFar()
	AddReportEntry(fmt.Sprintf("%d answers", answers))
	Expect(failures).To(BeEmpty())
	Expect(answers).To(BeNumerically(">", 100))
}

// callInSessions starts workers that call url as clients of the legacy era do, each in a session, and in another one
// after the answer that theirs is not there.
func callInSessions(ctx context.Context, url string, workers int) *caller {
	running, stop := context.WithCancel(ctx)
	c := &caller{stop: stop}
	for range workers {
		c.done.Go(func() {
			for running.Err() == nil {
				s, err := begin(ctx, url)
				for ; err == nil && running.Err() == nil; time.Sleep(20 * time.Millisecond) {
					if _, err = s.call(ctx); err == nil {
						c.note("answer", nil)
					}
				}
				if gone, _ := unknownSession.Match(fmt.Sprint(err)); err != nil && !gone {
					c.note("", err)
				}
			}
		})
	}
	return c
}

// openSessions begins n sessions, at one proxy after the other.
func (s story) openSessions(ctx context.Context, n int) []session {
	GinkgoHelper()
	at, all := s.proxyURLs(ctx), []session{}
	for i := range n {
		all = append(all, openSession(ctx, at[i%len(at)]))
	}
	return all
}

// proxyURLs are where each of the proxies is called without the Service.
func (s story) proxyURLs(ctx context.Context) []string {
	GinkgoHelper()
	var urls []string
	for _, pod := range s.pods(ctx, proxy) {
		if pod.DeletionTimestamp == nil {
			urls = append(urls, fmt.Sprintf("http://%s:8000/mcp", pod.Status.PodIP))
		}
	}
	Expect(len(urls)).To(BeNumerically(">", 1))
	return urls
}

// altered is the session with another byte in its id.
func (s session) altered(at int) session {
	id := []byte(s.id)
	if id[at]++; !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", rune(id[at])) {
		id[at] = 'A'
	}
	s.id = string(id)
	return s
}

// live expects each of the sessions to answer through each of the proxies.
func (s story) live(ctx context.Context, sessions []session, when string) {
	GinkgoHelper()
	_, gone := s.fates(ctx, sessions)
	Expect(gone).To(BeEmpty(), when)
}

// fates calls each of the sessions through each of the proxies, and returns those
// that answer and those that have ended. The proxies have to agree.
func (s story) fates(ctx context.Context, sessions []session) (living, gone []session) {
	GinkgoHelper()
	urls := s.proxyURLs(ctx)
	ends := make([][]error, len(sessions))
	var calls sync.WaitGroup
	for i, one := range sessions {
		ends[i] = make([]error, len(urls))
		calls.Go(func() { // one call after the other: they have the same JSON-RPC id
			for j, url := range urls {
				answer, err := session{url, one.id}.call(ctx)
				if err == nil && !strings.Contains(answer, `"result"`) {
					err = fmt.Errorf("got %s", answer)
				}
				ends[i][j] = err
			}
		})
	}
	calls.Wait()
	for i, one := range sessions {
		if ends[i][0] == nil {
			Expect(ends[i]).To(HaveEach(BeNil()), "session %d through each of %s", i, urls)
			living = append(living, one)
			continue
		}
		Expect(ends[i]).To(HaveEach(MatchError(unknownSession)), "session %d through each of %s", i, urls)
		gone = append(gone, one)
	}
	return living, gone
}

// settled waits until a component has n pods that are ready, beside those that end, and
// returns them by name.
func (s story) settled(ctx context.Context, component string, n int) []corev1.Pod {
	GinkgoHelper()
	var pods []corev1.Pod
	Eventually(ctx, func(g Gomega) {
		pods = slices.DeleteFunc(s.pods(ctx, component), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
		g.Expect(pods).To(HaveLen(n), component)
		for i := range pods {
			g.Expect(ready(&pods[i])).To(BeTrue(), "%s is not ready", pods[i].Name)
		}
	}).Should(Succeed())
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// known waits until DNS, which remembers answers for half a minute, knows n pods of the backend, and proxies ask again.
func (s story) known(ctx context.Context, n int) {
	GinkgoHelper()
	Eventually(ctx, func() ([]string, error) {
		return net.DefaultResolver.LookupHost(ctx, workload.HeadlessName(s.name)+"."+s.namespace+".svc")
	}).Should(HaveLen(n))
	time.Sleep(3 * time.Second)
}

// gone waits until a pod has ended.
func (s story) gone(ctx context.Context, pod corev1.Pod) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		for _, p := range s.pods(ctx, backend) {
			g.Expect(p.UID).NotTo(Equal(pod.UID), pod.Name)
		}
	}).Should(Succeed())
}

// autoscaler is the manager that owns the replicas of backends, and of proxies with another word.
const autoscaler = "autoscaler"

// beginScaling gives replicas, which Git leaves out, their owner: the API server records none for a number that nobody
// owned.
func (s story) beginScaling(ctx context.Context) {
	GinkgoHelper()
	s.applySpec(ctx, autoscaler, `{replicas: 1}`)
	s.scaleProxies(ctx, 1)
}

// scale sets the server's replicas as an autoscaler does, by the scale subresource.
func (s story) scale(ctx context.Context, n int32) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega) {
		server, scale := s.server(ctx), &autoscalingv1.Scale{}
		g.Expect(cluster.SubResource("scale").Get(ctx, server, scale)).To(Succeed())
		scale.Spec.Replicas = n
		g.Expect(cluster.SubResource("scale").
			Update(ctx, server, client.WithSubResourceBody(scale), client.FieldOwner(autoscaler))).To(Succeed())
	}).Should(Succeed())
}

// scaleProxies sets how many proxies the server has, which no scale subresource has, and waits for them.
func (s story) scaleProxies(ctx context.Context, n int) {
	GinkgoHelper()
	s.applySpec(ctx, autoscaler+"-proxies", fmt.Sprintf("{proxy: {replicas: %d}}", n))
	s.settled(ctx, proxy, n)
}

// scaledByOthers expects both numbers to be theirs who set them.
func (s story) scaledByOthers(ctx context.Context) {
	GinkgoHelper()
	replicas, proxies := fieldpath.MakePathOrDie("spec", "replicas"), fieldpath.MakePathOrDie("spec", "proxy", "replicas")
	owners := map[string][]string{}
	for _, entry := range s.server(ctx).ManagedFields {
		fields := fieldpath.Set{}
		Expect(fields.FromJSON(strings.NewReader(entry.FieldsV1.GetRawString()))).To(Succeed())
		for _, path := range []fieldpath.Path{replicas, proxies} {
			if fields.Has(path) {
				owners[path.String()] = append(owners[path.String()], entry.Manager)
			}
		}
	}
	Expect(owners).To(Equal(map[string][]string{
		replicas.String(): {autoscaler},
		proxies.String():  {autoscaler + "-proxies"},
	}))
}

// drain evicts all of the server's pods as kubectl drain does: each is asked for again
// while a budget forbids it.
func (s story) drain(ctx context.Context) {
	GinkgoHelper()
	left, refused := append(s.pods(ctx, proxy), s.pods(ctx, backend)...), 0
	Eventually(ctx, func(g Gomega) {
		left = slices.DeleteFunc(left, func(pod corev1.Pod) bool {
			err := cluster.SubResource("eviction").Create(ctx, &pod, &policyv1.Eviction{})
			if apierrors.IsTooManyRequests(err) {
				refused++
				return false
			}
			g.Expect(err).NotTo(HaveOccurred(), pod.Name)
			return true
		})
		g.Expect(left).To(BeEmpty())
	}).WithPolling(time.Second).Should(Succeed())
	Expect(refused).To(BeNumerically(">", 0), "the budgets held back nothing")
}

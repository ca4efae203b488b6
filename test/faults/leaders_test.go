package faults

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

const otherRunnerImage = "freehold.dev/runner:next"

// Two operators may both believe that they lead: one that was cut off and came back, or one of another installation.
var _ = Describe("Of two operators that both believe they lead,", func() {
	It("each does the same, if they are the same", func() {
		s := newEnv()
		one := operate(s, func(o *operator) { o.options.Now = off(time.Hour) })
		two := operate(s, func(o *operator) { o.options.Now = off(-time.Hour) })
		r := s.RunProxies()
		echo := newLife(s, "echo")
		echo.live(whole[:4])
		one.rests()
		two.rests()
		before := s.Versions()
		labelled(s, echo) // wakes both
		one.rests()
		two.rests()
		only(s, before)
		echo.live(whole[4:])
		// Each may do in vain what the other has done already.
		bounded(one.requests, s.Namespace, 2*38)
		bounded(two.requests, s.Namespace, 2*38)
		bounded(r.Requests, s.Namespace, 2*15)
	})

	It("one leaves each content to the other, and says so, if they differ", func() {
		s := newEnv()
		one := operate(s)
		two := operate(s, func(o *operator) { o.options.Workload.RunnerImage = otherRunnerImage })
		r := s.RunProxies()
		echo := newLife(s, "echo")
		echo.strict = false
		contents := int64(0)
		for _, p := range whole[:4] {
			p.change(echo)
			one.rests()
			two.rests()
			p.came(echo)
			if p.name != "scale" {
				contents++
			}
			Expect(echo.wants.generation).
				To(BeNumerically("<=", 2*contents), "a generation for each content and operator\n%s", s.Surroundings())
			sameRunner(s)
		}
		var events corev1.EventList
		s.AwaitAll(&events, "it is said that there are two", func() error {
			for i := range events.Items {
				if e := &events.Items[i]; e.Reason == "OtherOperator" && e.Type == corev1.EventTypeWarning &&
					e.InvolvedObject.Name == echo.name {
					return nil
				}
			}
			return fmt.Errorf("%d events say nothing of it", len(events.Items))
		})
		echo.live(whole[4:])
		bounded(one.requests, s.Namespace, 2*38)
		bounded(two.requests, s.Namespace, 2*38)
		bounded(r.Requests, s.Namespace, 3*15)
	})

	It("the one that was cut off while it worked does no harm when it comes back", func() {
		s := newEnv()
		d := newDeaf()
		old := operate(s, throughDeaf(d))
		s.RunProxies()
		echo := newLife(s, "echo")
		echo.live(whole[:1])
		old.rests()
		// Its news stop, and another takes over while it sits on what it knew.
		d.silence()
		operate(s, func(o *operator) { o.options.Workload.RunnerImage = otherRunnerImage })
		echo.wants.generation++ // the upgrade is a content
		echo.converged()
		echo.live(whole[1:2])
		d.listen()
		old.rests()
		echo.strict = false // it may claim once what it never had
		echo.converged()
		Expect(echo.wants.generation).To(BeNumerically("<=", 4))
		sameRunner(s)
		echo.live(whole[4:])
	})
})

// labelled changes the server without changing what is wanted.
func labelled(s *kit.Env, l *life) {
	GinkgoHelper()
	_, err := s.ApplyErr("labeller", l.head()+"  labels: {seen: \"yes\"}\n")
	Expect(err).NotTo(HaveOccurred())
}

// only fails if anything but the server itself moved.
func only(s *kit.Env, before kit.Versions) {
	GinkgoHelper()
	Expect(before.Moved(s.Versions())).To(HaveLen(1), "more than the label was written")
}

// sameRunner holds that all proxy pods are one operator's.
func sameRunner(s *kit.Env) {
	GinkgoHelper()
	var pods corev1.PodList
	images := map[string]bool{}
	s.AwaitAll(&pods, "the proxies are one operator's", func() error {
		clear(images)
		for i := range pods.Items {
			if pods.Items[i].Labels[workload.LabelComponent] == workload.ComponentProxy {
				images[pods.Items[i].Spec.Containers[0].Image] = true
			}
		}
		if len(images) != 1 {
			return fmt.Errorf("they run %v", images)
		}
		return nil
	})
}

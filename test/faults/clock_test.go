package faults

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// off is a clock that is off by an hour or so.
func off(by time.Duration) func() time.Time {
	return func() time.Time { return time.Now().Add(by) }
}

// Clocks of different machines disagree. Nothing rests on what they say.
var _ = Describe("Clocks that disagree", func() {
	DescribeTable("change nothing of a life, with the operator's", func(by time.Duration) {
		s := newEnv()
		op := operate(s, func(o *operator) { o.options.Now = off(by) })
		r := s.RunProxies()
		r.Now = off(-by)
		echo := newLife(s, "echo")
		echo.live(brief[:3])
		op.rests()

		// The end of calls is waited for by the operator's own clock.
		release := plane.Kubelet.HoldTermination(func(p *corev1.Pod) bool {
			return p.Namespace == s.Namespace && p.Labels[workload.LabelComponent] == workload.ComponentProxy
		})
		defer release()
		echo.remove()
		server := echo.server()
		s.Await(server, "the server says that it goes", func() error {
			if c := meta.FindStatusCondition(server.Status.Conditions,
				v1alpha1.ConditionReady); c.Reason != v1alpha1.ReasonDeleting {
				return fmt.Errorf("it says %s", c.Reason)
			}
			return nil
		})
		op.rests()
		backend := &appsv1.StatefulSet{}
		backend.Name = workload.BackendName(echo.name)
		s.Read(backend)
		Expect(backend.DeletionTimestamp).To(BeNil(), "the backend goes while proxies still answer")
		release()
		echo.ended()
		bounded(op.requests, s.Namespace, 2*38)
		bounded(r.Requests, s.Namespace, 2*15)
	},
		Entry("an hour behind", -time.Hour),
		Entry("an hour ahead", time.Hour),
	)
})

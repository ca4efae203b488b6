package faults

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// changes is how often a spec changes while nothing is heard: as often as in some minutes of a busy day.
const changes = 20

// A process that hears nothing goes on with what it knows. It must not do harm by that, nor ask all the time.
var _ = DescribeTable("While the operator's watches", func(deafen func(*deaf), quiet int) {
	s := newEnv()
	d := newDeaf()
	op := operate(s, throughDeaf(d))
	s.RunProxies()
	echo := newLife(s, "echo")
	echo.create()
	echo.grown()
	op.rests()

	deafen(d)
	mark, since := op.requests.Mark(), time.Now()
	for n := range changes {
		echo.wants.image = fmt.Sprintf("registry.example.com/echo:%d", n+10)
		echo.insist("updating", echo.spec)
		intrude(s, echo.name, n)
	}
	// Long enough for a loop without a pause to be seen.
	time.Sleep(2*time.Second - min(time.Since(since), time.Second))
	sent := op.requests.Since(mark)
	asked := len(sent)
	GinkgoWriter.Printf("in %s without news: %s", time.Since(since), sent)
	Expect(asked).To(BeNumerically("<=", quiet), "%s", sent)

	d.listen()
	echo.strict = false // which of the contents were seen is chance
	echo.wants.replicas, echo.wants.proxies = 2, 2
	echo.insist("scaling", echo.spec)
	echo.converged()
	Expect(echo.wants.generation).To(BeNumerically("<=", 1+changes), "more workload generations than contents")
	op.rests()
	echo.remove()
	echo.ended()
},
	// Nothing is heard at all, so nothing is done.
	Entry("say nothing", func(d *deaf) { d.silence() }, 5),
	// Servers are heard of and their children are not: each new content costs its
	// claim, the children in vain, and what is said about it.
	Entry("say nothing of children", func(d *deaf) {
		d.silence("deployments", "statefulsets", "configmaps", "services", "pods", "serviceaccounts", "roles", "rolebindings")
	}, 12*changes),
	// Eleven watches are tried again, after pauses that grow, each with a list.
	Entry("are closed and refused", func(d *deaf) { d.refuse() }, 11*2*4+12*changes),
)

// A watch goes on from a version. Where that is no longer kept it is told so, by
// 410 Gone, and what happened since is found by a list only.
var _ = It("Watches that come back after their past was compacted miss nothing", func() {
	s := newEnv().Patient(2 * kit.Patience)
	d := newDeaf()
	op := operate(s, throughDeaf(d))
	s.RunProxies()
	echo := newLife(s, "echo")
	echo.more = "args: [" + strings.Repeat("x", 17<<10) + "]" // its run configs are ConfigMaps
	echo.create()
	echo.grown()
	op.rests()

	d.hold()
	for n := range 5 {
		echo.wants.image = fmt.Sprintf("registry.example.com/echo:%d", n+10)
		echo.insist("updating", echo.spec)
		intrude(s, echo.name, n)
	}
	compact(s)
	// It has a past of its own, in memory.
	Expect(plane.APIServer.Kill()).To(Succeed())
	Expect(plane.APIServer.Start(s.Ctx)).To(Succeed())
	serves(s)
	d.listen()
	echo.strict = false // which of the contents were seen is chance
	echo.converged()
	Expect(echo.wants.generation).To(BeNumerically("<=", 1+5), "more workload generations than contents")
	d.mu.Lock()
	expired := d.expired
	d.mu.Unlock()
	GinkgoWriter.Printf("%d watches were told that their past is gone\n", expired)
	Expect(expired).To(BeNumerically(">=", 8), "watches of so many kinds were resumed from a version that is gone")
	op.rests()
	echo.remove()
	echo.ended()
})

func throughDeaf(d *deaf) func(*operator) {
	return func(o *operator) {
		o.wire = func(config *rest.Config) <-chan struct{} { kit.Through(config, d.carry); return nil }
	}
}

// intrude changes and deletes what belongs to a server, in the operator's back.
func intrude(s *kit.Env, name string, n int) {
	GinkgoHelper()
	switch n % 5 {
	case 1:
		var configs corev1.ConfigMapList
		s.Must(s.Client.List(s.Ctx, &configs, client.InNamespace(s.Namespace),
			client.MatchingLabels{workload.LabelServer: name}), "listing run configs")
		for i := range configs.Items {
			s.Delete(&configs.Items[i])
		}
	case 3:
		s.Force("intruder", fmt.Sprintf(
			"apiVersion: v1\nkind: Service\nmetadata: {name: %s, labels: {%s: nobody}}\n", workload.ProxyName(name),
			workload.LabelName))
	case 4:
		pods := &corev1.Pod{}
		s.Must(s.Client.DeleteAllOf(s.Ctx, pods, client.InNamespace(s.Namespace),
			client.MatchingLabels{workload.LabelComponent: workload.ComponentProxy},
			client.PropagationPolicy(metav1.DeletePropagationBackground)), "deleting proxy pods")
	}
}

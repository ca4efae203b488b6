package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/controllers/workload"
)

var _ = Describe("The history of a server", func() {
	It("has its last three contents, which go with it; the cache has no others, and none of their data", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		for number := range int64(4) {
			s.Apply(git, server("echo", fmt.Sprintf("args: [v%d]", number+1)))
			rolledOut(s, "echo", number+1)
			atRest(s, "echo")
		}
		var kept appsv1.ControllerRevisionList
		ofHistory := client.MatchingLabels{workload.LabelComponent: workload.ComponentRunner}
		s.AwaitAll(&kept, "three contents are kept", func() error { return equal(len(kept.Items), 3) },
			client.InNamespace(s.Namespace), ofHistory)
		numbers := map[int64]bool{}
		for i := range kept.Items {
			numbers[kept.Items[i].Revision] = true
		}
		Expect(numbers).To(Equal(map[int64]bool{2: true, 3: true, 4: true}))

		// The StatefulSet controller's own have our labels too.
		Expect(s.Client.List(s.Ctx, &kept, client.InNamespace(s.Namespace), client.HasLabels{workload.LabelServer})).
			To(Succeed())
		Expect(len(kept.Items)).To(BeNumerically(">", 3))
		cached := &metav1.PartialObjectMetadataList{}
		cached.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
		Eventually(func() (int, error) {
			err := op.cache.List(s.Ctx, cached, client.InNamespace(s.Namespace))
			return len(cached.Items), err
		}).Should(Equal(3))
		for i := range cached.Items {
			Expect(cached.Items[i].ManagedFields).To(BeEmpty())
		}
		Expect(op.cache.List(s.Ctx, &appsv1.ControllerRevisionList{})).To(HaveOccurred(), "whole contents are cached")

		s.Delete(serverOf(s, "echo"))
		leavesNothing(s)
		s.AwaitAll(&kept, "no content is kept", func() error { return emptyList(&kept) },
			client.HasLabels{workload.LabelServer})
	})
})

package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/freehold-dev/freehold/test/kit"
)

// The chart keeps the CRD, because with it every server goes. Whoever deletes
// it means that, and it ends. It has a control plane of its own, since no other
// story can be told afterwards.
var _ = Describe("Deleting the CRD while servers are there", func() {
	It("ends while the operator runs, and takes servers and pods along", func() {
		ctx, cancel := context.WithCancel(context.Background())
		own, err := kit.Start(ctx)
		DeferCleanup(func() error { cancel(); return own.Stop() })
		Expect(err).NotTo(HaveOccurred())
		Expect(own.Install(ctx)).To(Succeed())
		s := kit.NewEnv(GinkgoTB(), own)
		operate(s)
		s.RunProxies()
		for _, name := range []string{"echo", "other"} {
			s.Apply(git, server(name, ""))
			ready(s, name)
		}

		crd := &unstructured.Unstructured{}
		crd.SetAPIVersion("apiextensions.k8s.io/v1")
		crd.SetKind("CustomResourceDefinition")
		crd.SetName("mcpservers.freehold.dev")
		s.Must(s.Client.Delete(s.Ctx, crd), "deleting the CRD")
		s.On("").AwaitGone(crd)
		leavesNothing(s)
	})
})

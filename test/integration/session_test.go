package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

var _ = Describe("The key of session ids", func() {
	It("is made with a server, left as it is, and made again where a person or a new process asks for it", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "echo-session"}}
		s.Read(secret)
		first := secret.Data["current"]
		Expect(len(first)).To(BeNumerically(">=", 32))
		Expect(secret.OwnerReferences).To(HaveLen(1))
		Expect(secret.OwnerReferences[0].Name).To(Equal("echo"))

		By("rotating it")
		patch := client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"current":"`+strings.Repeat("n", 32)+`","previous":"`+string(first)+`"}}`))
		s.Must(s.Client.Patch(s.Ctx, secret, patch, client.FieldOwner("kubectl")), "rotating")
		rotated := secret.ResourceVersion
		s.Apply(git, server("echo", "restartedAt: 2026-11-22T10:00:00Z"))
		atRest(s, "echo")
		s.Read(secret)
		Expect(secret.ResourceVersion).To(Equal(rotated))

		By("changing other content")
		quiet(op)
		mark := op.requests.Mark()
		births := func() kit.Log { return op.requests.Since(mark).Of("secrets").Accepted() }
		s.Apply(git, server("echo", "restartedAt: 2026-11-22T10:00:00Z\nargs: [a]"))
		atRest(s, "echo")
		s.Delete(secret)
		s.AwaitGone(secret)
		s.Apply(git, server("echo", "restartedAt: 2026-11-22T10:00:00Z\nargs: [b]"))
		atRest(s, "echo")
		quiet(op)
		Expect(births()).To(BeEmpty())

		By("restarting the server")
		s.Apply(git, server("echo", "restartedAt: 2026-11-22T11:00:00Z\nargs: [b]"))
		s.Await(secret, "it is there again", func() error { return nil })
		atRest(s, "echo")
		s.Read(secret)
		second := secret.Data["current"]
		Expect(second).NotTo(Equal(first))
		// The answer is told after who watches has heard of it.
		Eventually(births).Should(HaveLen(1))

		By("restarting the operator")
		quiet(op)
		s.Delete(secret)
		s.AwaitGone(secret)
		mark = op.requests.Mark()
		op.restart()
		quiet(op)
		Expect(births()).To(BeEmpty())
		s.Apply(git, server("echo", "restartedAt: 2026-11-22T11:00:00Z\nargs: [c]"))
		s.Await(secret, "it is there again", func() error { return nil })
		s.Read(secret)
		Expect(secret.Data["current"]).NotTo(Equal(second))
		Eventually(births).Should(HaveLen(1))
	})

	// Garbage collection takes what a deleted server left when it comes to it.
	It("is made again where that of a deleted server of the name stood", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "echo-session"}}
		hold := func(finalizers string) {
			s.Must(s.Client.Patch(s.Ctx, secret, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))), "holding")
		}
		s.Read(secret)
		first := secret.Data["current"]
		hold(`["example.com/late"]`)
		old := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "echo"}}
		s.Delete(old)
		s.AwaitGone(old)

		By("creating it again, without pods at first")
		mark := op.requests.Mark()
		s.Apply(git, server("echo", "suspend: true"))
		births := func() kit.Log { return op.requests.Since(mark).Of("secrets") }
		// A try that is refused may be repeated, so tries are not counted.
		Eventually(births).ShouldNot(BeEmpty())
		Expect(births().Accepted()).To(BeEmpty())
		hold("null")
		s.AwaitGone(secret)
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		s.Await(secret, "it is there again", func() error { return nil })
		s.Read(secret)
		Expect(secret.Data["current"]).NotTo(Equal(first))
		quiet(op)
		Eventually(func() kit.Log { return births().Accepted() }).Should(HaveLen(1))
	})
})

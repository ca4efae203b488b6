package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/test/kit"
)

var _ = Describe("The key of session ids", func() {
	It("is made with a server, left as it is, and made again where a person asks for it", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		secret := secretOf(s, "echo")
		s.Read(secret)
		first := secret.Data["current"]
		Expect(len(first)).To(BeNumerically(">=", 32))
		Expect(secret.OwnerReferences).To(HaveLen(1))
		Expect(secret.OwnerReferences[0].Name).To(Equal("echo"))

		By("rotating it")
		patch := client.RawPatch(types.MergePatchType,
			[]byte(`{"stringData":{"current":"`+strings.Repeat("n", 32)+`","previous":"`+string(first)+`"}}`))
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
		for _, name := range []string{"echo2", "echo3"} {
			s.Apply(git, server(name, ""))
			atRest(s, name)
		}
		quiet(op)
		mark = op.requests.Mark()
		op.restart()
		for name, spec := range map[string]string{
			"echo":  "restartedAt: 2026-11-22T11:00:00Z\nargs: [c]",
			"echo2": "args: [c]", "echo3": "args: [c]",
		} {
			s.Apply(git, server(name, spec))
			atRest(s, name)
		}
		quiet(op)
		Expect(op.requests.Since(mark).Of("secrets")).To(BeEmpty())
	})

	// Garbage collection takes what a deleted server left when it comes to it.
	It("is another one for another server of the name", func() {
		s := newEnv()
		op := operate(s)
		s.RunProxies()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		secret := secretOf(s, "echo")
		s.Read(secret)
		s.Must(s.Client.Patch(s.Ctx, secret,
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/late"]}}`))), "holding")
		old := serverOf(s, "echo")
		s.Delete(old)
		s.AwaitGone(old)

		mark := op.requests.Mark()
		s.Apply(git, server("echo", ""))
		atRest(s, "echo")
		second := secretOf(s, "echo")
		s.Read(second)
		Expect(second.Data["current"]).NotTo(Equal(secret.Data["current"]))
		quiet(op)
		Expect(op.requests.Since(mark).Of("secrets")).To(HaveLen(1))
		s.Must(s.Client.Patch(s.Ctx, secret,
			client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))), "letting go")
	})
})

// secretOf is the Secret with the keys of session ids of a server.
func secretOf(s *kit.Env, name string) *corev1.Secret {
	GinkgoHelper()
	live := serverOf(s, name)
	s.Read(live)
	return &corev1.Secret{ObjectMeta: called(live.Status.Workload.SessionSecret)}
}

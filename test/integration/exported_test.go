package integration

import (
	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/contract"
)

var _ = Describe("An object that is made of an export", func() {
	It("is told that its manifest states our finalizer, and goes all the same", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		var made []client.Object
		for manifest, finalizer := range map[string]string{
			server("echo", ""):     contract.MCPServers().Finalizer,
			remoteProxy("far", ""): contract.MCPRemoteProxies().Finalizer,
			"apiVersion: freehold.dev/v1alpha1\nkind: MCPOIDCConfig\nmetadata: {name: login}\nspec: {oidc: {issuer: " +
				"https://login.example.com}}": contract.Configs()[0].Finalizer,
		} {
			object := s.Intent(manifest)
			object.SetFinalizers([]string{finalizer})
			s.Must(s.Client.Create(s.Ctx, object, client.FieldOwner("kubectl-create")), "creating "+object.GetName())
			made = append(made, object)
		}
		announced(s, ready(s, "echo"), corev1.EventTypeWarning, "FinalizerShared")
		for _, object := range made {
			s.Delete(object)
			s.AwaitGone(object)
		}
	})
})

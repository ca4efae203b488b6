// Package suite runs the guard beside Freehold's operator, with Ginkgo. It needs
// kube-controller-manager, which setup-envtest does not install.
package suite

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"example.com/guard/guard"
	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/test/kit"
)

func TestSuite(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "the guard beside Freehold")
}

var plane *kit.Plane

var _ = BeforeSuite(func() {
	ctrl.SetLogger(logr.Discard())
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "kube-controller-manager")); err != nil {
			Skip("there is no kube-controller-manager in KUBEBUILDER_ASSETS")
		}
	}
	var err error
	plane, err = kit.Start(context.Background())
	DeferCleanup(func() error { return plane.Stop() })
	Expect(err).NotTo(HaveOccurred())
	Expect(plane.Install(context.Background())).To(Succeed())
})

var _ = Describe("a server with a team", func() {
	It("gets Ready with the guard's policy, and both keep their fields", func() {
		s := kit.NewEnv(GinkgoTB(), plane)
		s.Operate()
		s.RunProxies()
		server := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: "search"}}
		s.Apply("git", kit.Server("search", "registry.example.com/search:1", ""))
		s.AwaitCondition(server, v1alpha1.ConditionReady, metav1.ConditionTrue)

		s.Apply("teams", "apiVersion: freehold.dev/v1alpha1\nkind: MCPServer\nmetadata: {name: search, labels: "+
			"{example.com/team: blue}}\n")
		controller := guard.Guard{Client: s.Client}
		_, err := controller.Reconcile(s.Ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(server)})
		Expect(err).NotTo(HaveOccurred())
		s.AwaitCondition(server, v1alpha1.ConditionReady, metav1.ConditionTrue)
		s.Owns(server, guard.Manager, "spec.authzConfig.policies[name=guard]")
		s.NobodyBut(server, "spec.authzConfig", guard.Manager)
		s.NobodyBut(server, "status.url", "mcpserver.freehold.dev/status")
	})
})

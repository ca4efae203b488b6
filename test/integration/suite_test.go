// Package integration tells Freehold's stories on a real kube-apiserver with a real kube-controller-manager; only pods
// are faked (test/kit). One file is one subject; every It is one story, in its own namespace. Each process of Ginkgo
// has a control plane of its own.
package integration

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/freehold-dev/freehold/test/kit"
)

var plane *kit.Plane

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(kit.Patience)
	SetDefaultEventuallyPollingInterval(50 * time.Millisecond)
	SetDefaultConsistentlyPollingInterval(50 * time.Millisecond)
	suite, reporter := GinkgoConfiguration()
	reporter.Succinct = !reporter.Verbose
	RunSpecs(t, "Freehold on a real API server", suite, reporter)
}

var _ = BeforeSuite(func() {
	ctrllog.SetLogger(logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	DeferCleanup(func() error {
		cancel()
		return plane.Stop()
	})
	var err error
	plane, err = kit.Start(ctx)
	Expect(err).NotTo(HaveOccurred())
	Expect(plane.Install(ctx)).To(Succeed())
})

// newEnv gives the present story a namespace.
func newEnv() *kit.Env {
	GinkgoHelper()
	return kit.NewEnv(GinkgoTB(), plane)
}

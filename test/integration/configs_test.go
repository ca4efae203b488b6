package integration

import (
	"context"
	"fmt"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/configs"
	"github.com/freehold-dev/freehold/controllers/configs/registry"
	"github.com/freehold-dev/freehold/controllers/references"
	"github.com/freehold-dev/freehold/test/kit"
)

// policies is an MCPAuthzConfig with one policy of this text.
func policies(name, text string) string {
	return fmt.Sprintf("apiVersion: freehold.dev/v1alpha1\nkind: MCPAuthzConfig\nmetadata: {name: %s}\nspec: {policies: "+
		"[{name: all, policy: %q}]}\n", name, text)
}

const permitAll = "permit(principal, action, resource);"

func policiesOf(s *kit.Env, name string) *v1alpha1.MCPAuthzConfig {
	return &v1alpha1.MCPAuthzConfig{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: s.Namespace}}
}

// configSays waits until a configuration says of Ready this reason, about the spec
// that now stands, and counts so many workloads.
func configSays(s *kit.Env, live *v1alpha1.MCPAuthzConfig, reason string, workloads int) {
	GinkgoHelper()
	s.Await(live, fmt.Sprintf("%s says %s, with %d workloads", live.Name, reason, workloads), func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.Reason != reason || c.ObservedGeneration != live.Generation || live.Status.Workloads == nil ||
			int(*live.Status.Workloads) != workloads {
			return fmt.Errorf("its status is %+v", live.Status)
		}
		return nil
	})
}

// verdict expects what Flux makes of a configuration.
func verdict(s *kit.Env, live *v1alpha1.MCPAuthzConfig, want status.Status) {
	GinkgoHelper()
	is, message, err := kit.Kstatus(s.Unstructured(live))
	Expect(err).NotTo(HaveOccurred())
	Expect(is).To(Equal(want), message)
}

func listed(live *v1alpha1.MCPAuthzConfig) []string {
	var names []string
	for _, w := range live.Status.ReferencingWorkloads {
		names = append(names, w.Kind+"/"+w.Name)
	}
	return names
}

// hashes are what a claim has of each configuration.
func hashes(claim *v1alpha1.WorkloadStatus) map[string]string {
	all := map[string]string{}
	for _, c := range claim.Configs {
		all[c.Kind+"/"+c.Name] = c.Hash
	}
	return all
}

// operateConfigs starts a process with the controllers of configurations alone: servers stay as they were written.
func operateConfigs(s *kit.Env) *operator {
	GinkgoHelper()
	o := &operator{
		env: s, requests: &kit.Requests{},
		register: func(ctx context.Context, mgr ctrl.Manager, options controllers.Options) error {
			applier := controllers.NewApplier(mgr.GetClient(), mgr.GetAPIReader())
			Expect(applier.Impersonate(mgr.GetConfig(), kit.SystemNamespace, contract.Controllers()...)).To(Succeed())
			Expect(references.Index(ctx, mgr.GetFieldIndexer())).To(Succeed())
			for _, kind := range registry.All() {
				c := configs.New(kind, mgr.GetClient(), mgr.GetAPIReader(), applier, mgr.GetEventRecorder(kind.Row().Identity))
				Expect(c.Register(mgr, controller.Options{SkipNameValidation: &options.SkipNameValidation})).To(Succeed())
			}
			return nil
		},
	}
	o.start(controllers.Options{})
	DeferCleanup(func() { o.stop() })
	return o
}

var _ = Describe("A shared configuration", func() {
	It("tells who refers to it, is held while they do, and goes with the last of them", func() {
		s := newEnv()
		operate(s)
		s.RunProxies()
		s.Apply(git, policies("company", permitAll))
		live := policiesOf(s, "company")
		configSays(s, live, v1alpha1.ReasonValid, 0)
		Expect(live.Finalizers).To(BeEmpty(), "nobody refers to it")

		s.Apply(git, server("echo", "suspend: true\nauthzConfigRef: {name: company}"))
		s.Apply(git, server("other", "suspend: true\nauthzConfigRef: {name: company}"))
		configSays(s, live, v1alpha1.ReasonValid, 2)
		Expect(listed(live)).To(Equal([]string{"MCPServer/echo", "MCPServer/other"}))
		Expect(live.Finalizers).To(Equal([]string{contract.ConfigOf("MCPAuthzConfig").Finalizer}))
		s.Owns(live, string(contract.ConfigOf("MCPAuthzConfig").FinalizerManager),
			`metadata.finalizers[="freehold.dev/mcpauthzconfig"]`)
		s.Owns(live, string(contract.ConfigOf("MCPAuthzConfig").StatusManager), "status.workloads",
			"status.referencingWorkloads")

		verdict(s, live, status.CurrentStatus)

		s.Delete(live)
		configSays(s, live, v1alpha1.ReasonDeleting, 2)
		verdict(s, live, status.TerminatingStatus)
		stalled := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionStalled)
		Expect(stalled).NotTo(BeNil())
		Expect(stalled.Message).To(ContainSubstring("MCPServer echo, other. Remove the reference from each, or delete it"))
		s.Apply(git, server("other", "suspend: true"))
		configSays(s, live, v1alpha1.ReasonDeleting, 1)
		s.Delete(serverOf(s, "echo"))
		s.AwaitGone(live)
	})

	It("says what is wrong with a policy, and goes with its namespace all the same", func() {
		s := newEnv()
		operateConfigs(s)
		s.Apply(git, policies("company", "permit(principal, action);"))
		s.Apply(git, server("echo", "authzConfigRef: {name: company}"))
		live := policiesOf(s, "company")
		configSays(s, live, v1alpha1.ReasonSpecInvalid, 1)
		verdict(s, live, status.FailedStatus)
		for _, c := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionStalled} {
			Expect(meta.FindStatusCondition(live.Status.Conditions, c).Message).
				To(ContainSubstring(`policy "all", line 1, column`))
		}
		s.Delete(live, client.PropagationPolicy(metav1.DeletePropagationForeground))
		configSays(s, live, v1alpha1.ReasonDeleting, 1)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}
		s.Must(s.Client.Delete(s.Ctx, namespace), "deleting the namespace")
		s.AwaitGone(namespace)
	})

	It("costs few writes when 100 servers are born", func() {
		s := newEnv()
		op := operateConfigs(s)
		s.Apply(git, policies("company", permitAll))
		live := policiesOf(s, "company")
		configSays(s, live, v1alpha1.ReasonValid, 0)
		quiet(op)
		born := func(from, to int) kit.Log {
			mark := op.requests.Mark()
			for i := from; i < to; i++ {
				s.Apply(git, server(fmt.Sprintf("s%03d", i), "authzConfigRef: {name: company}"))
			}
			configSays(s, live, v1alpha1.ReasonValid, to)
			quiet(op)
			return op.writes(mark)
		}
		writes := born(0, 1)
		Expect(writes).To(HaveLen(2), "the finalizer and the count:\n%s", writes)
		writes = born(1, 2)
		Expect(writes).To(HaveLen(1), writes.String())
		began := time.Now()
		writes = born(2, 102)
		Expect(len(writes)).To(BeNumerically("<=", 2+int(time.Since(began).Seconds())), "one write a second:\n%s", writes)
		// A new leader has nothing to say, nor has time: there is no poll.
		mark := op.requests.Mark()
		op.restart()
		quiet(op)
		Expect(op.writes(mark)).To(BeEmpty(), op.writes(mark).String())
	})
})

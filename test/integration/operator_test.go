package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/test/kit"
)

const runnerImage = "freehold.dev/runner:test"

// operator is Freehold's operator in this process: its real manager, with the identity and the rights that the chart
// gives it, on the namespace of one story.
type operator struct {
	env      *kit.Env
	requests *kit.Requests
	// register adds the controllers; those of the product unless a story says otherwise.
	register func(context.Context, ctrl.Manager, controllers.Options) error
	// wire may change what is sent.
	wire func(*rest.Config)
	stop func()
	// cache is what the process reads from.
	cache cache.Cache
}

// operate starts an operator for the test's namespace, and for more.
func operate(s *kit.Env, more ...string) *operator {
	GinkgoHelper()
	o := &operator{env: s, requests: &kit.Requests{}}
	o.start(controllers.Options{}, more...)
	DeferCleanup(func() { o.stop() })
	return o
}

// start starts the process that stop stopped. What it sends is recorded in the same record.
func (o *operator) start(options controllers.Options, more ...string) {
	GinkgoHelper()
	if options.Workload.RunnerImage == "" {
		options.Workload.RunnerImage = runnerImage
	}
	if options.AskProxy == nil {
		options.AskProxy = o.env.AskProxy
	}
	options.SkipNameValidation, options.IdentityNamespace = true, kit.SystemNamespace
	options.Namespaces = append(more, o.env.Namespace)
	config := o.requests.Wrap(o.env.OperatorConfig())
	config.UserAgent = "freehold-operator"
	if o.wire != nil {
		o.wire(config)
	}
	holds, err := controllers.CacheOptions(config, options.Namespaces, options.Workload.Objects.InheritLabels...)
	Expect(err).NotTo(HaveOccurred())
	scheme, err := controllers.NewScheme()
	Expect(err).NotTo(HaveOccurred())
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: scheme, Cache: holds,
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
	})
	Expect(err).NotTo(HaveOccurred())
	o.cache = mgr.GetCache()
	ctx, cancel := context.WithCancel(context.Background())
	register := o.register
	if register == nil {
		register = controllers.Register
	}
	Expect(register(ctx, mgr, options)).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	o.stop = func() {
		GinkgoHelper()
		cancel()
		Expect(<-ended).To(Succeed(), "the operator ended with an error")
		o.stop = func() {}
	}
	Expect(mgr.GetCache().WaitForCacheSync(ctx)).To(BeTrue())
}

func (o *operator) restart() {
	GinkgoHelper()
	o.stop()
	o.start(controllers.Options{})
}

// writes are the operator's since mark that reached the API server.
func (o *operator) writes(since kit.Mark) kit.Log { return o.requests.Since(since).Writes() }

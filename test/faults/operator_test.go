package faults

import (
	"context"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/test/kit"
)

const runnerImage = "freehold.dev/runner:test"

// operator is Freehold's operator in this process: its real manager, with the identity and the rights that the chart
// gives it, on the namespace of one story. As kubelet does, it starts the process again where one ends with an error
// or, having been killed, can do nothing any more.
type operator struct {
	env      *kit.Env
	requests *kit.Requests
	options  controllers.Options
	// wire, where it is set, may change the way of each new process to the API
	// server. What it returns is closed when the process has died.
	wire func(*rest.Config) (died <-chan struct{})

	end     context.CancelFunc
	running sync.WaitGroup
}

// operate starts an operator that is ended with the story.
func operate(s *kit.Env, edits ...func(*operator)) *operator {
	GinkgoHelper()
	o := &operator{env: s, requests: &kit.Requests{}}
	o.options.Workload.RunnerImage = runnerImage
	o.options.AskProxy = s.AskProxy
	o.options.SkipNameValidation, o.options.IdentityNamespace = true, kit.SystemNamespace
	for _, edit := range edits {
		edit(o)
	}
	o.start()
	DeferCleanup(func() { o.stop() })
	return o
}

func (o *operator) start() {
	ctx, cancel := context.WithCancel(context.Background())
	o.end = cancel
	o.running.Go(func() {
		for ctx.Err() == nil {
			if err := o.process(ctx); err != nil && ctx.Err() == nil {
				time.Sleep(50 * time.Millisecond) // as kubelet waits before it restarts
			}
		}
	})
}

// stop ends the operator in good order. It may be started again.
func (o *operator) stop() {
	o.end()
	o.running.Wait()
}

// process is one process, from its start to its end or death.
func (o *operator) process(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	config := o.requests.Wrap(o.env.OperatorConfig())
	config.UserAgent = "freehold-operator"
	var died <-chan struct{}
	if o.wire != nil {
		died = o.wire(config)
	}
	mgr, err := o.manager(ctx, config)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	o.running.Go(func() { ended <- mgr.Start(ctx) })
	select {
	case err := <-ended:
		return err
	case <-died:
		return nil // what is left of it ends by itself, and reaches nobody
	}
}

func (o *operator) manager(ctx context.Context, config *rest.Config) (manager.Manager, error) {
	cache, err := controllers.CacheOptions(config, []string{o.env.Namespace})
	if err != nil {
		return nil, err
	}
	scheme, err := controllers.NewScheme()
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, manager.Options{
		Scheme: scheme, Cache: cache, MapperProvider: mapperOf(o.env),
		Metrics: metricsserver.Options{BindAddress: "0"}, HealthProbeBindAddress: "0",
		Client: client.Options{Cache: &client.CacheOptions{}},
	})
	if err != nil {
		return nil, err
	}
	options := o.options
	options.Namespaces = []string{o.env.Namespace}
	return mgr, controllers.Register(ctx, mgr, options)
}

// rests waits until the operator has sent no write for a while.
func (o *operator) rests() {
	GinkgoHelper()
	const calm = time.Second
	writes, since := -1, time.Now()
	Eventually(func() time.Duration {
		if now := len(o.requests.Since(0).In(o.env.Namespace).Writes()); now != writes {
			writes, since = now, time.Now()
		}
		return time.Since(since)
	}).Should(BeNumerically(">", calm), "the operator does not come to rest:\n%s", o.requests.Since(0).Writes())
}

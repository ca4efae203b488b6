package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// runners are the runner's half of every server: its real pass, for each proxy pod whose container is said to run. They
// share one cache and one connection, so that what they cost is the same under every subject.
type runners struct {
	reader  client.Reader
	live    client.Client
	applier *apply.Applier
	queue   workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	running map[types.NamespacedName]*running
	// pods are those of a server that run.
	pods map[types.NamespacedName]map[types.NamespacedName]bool
}

type running struct {
	sync.Mutex // passes of one runner do not overlap
	server     types.NamespacedName
	runner     *backend.Runner
	end        context.CancelFunc
	ctx        context.Context
	// compared is the rollout in which it was told that its content answers beside what serves.
	compared string
}

func newRunners(reader client.Reader, live client.Client) *runners {
	return &runners{
		reader: reader, live: live, applier: controllers.NewApplier(live, live),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](10*time.Millisecond, 5*time.Second)),
		running: map[types.NamespacedName]*running{}, pods: map[types.NamespacedName]map[types.NamespacedName]bool{},
	}
}

// handler wakes the runners that an event concerns.
func (r *runners) handler() toolscache.ResourceEventHandler {
	handle := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		switch o := o.(type) {
		case *corev1.Pod:
			r.queue.Add(client.ObjectKeyFromObject(o))
		case *v1alpha1.MCPServer:
			r.wake(client.ObjectKeyFromObject(o))
		case client.Object:
			r.wake(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetLabels()[workload.LabelServer]})
		}
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, o any) { handle(o) },
		DeleteFunc: handle,
	}
}

func (r *runners) wake(server types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pod := range r.pods[server] {
		r.queue.Add(pod)
	}
}

// work makes passes until the queue is shut down.
func (r *runners) work(ctx context.Context) {
	for {
		key, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if err := r.pass(ctx, key); err != nil && ctx.Err() == nil {
			r.queue.AddRateLimited(key)
		} else {
			r.queue.Forget(key)
		}
		r.queue.Done(key)
	}
}

func (r *runners) pass(ctx context.Context, key types.NamespacedName) error {
	one, err := r.of(ctx, key)
	if one == nil || err != nil {
		return err
	}
	one.Lock()
	defer one.Unlock()
	report, err := one.runner.Pass(one.ctx)
	if one.ctx.Err() != nil {
		return nil
	}
	of := report.Start.Rollout
	if of != "" && of != one.compared {
		one.runner.LearnCandidate(v1alpha1.CandidateStatus{Answers: true})
		r.queue.Add(key)
	}
	one.compared = of
	return err
}

// of is the runner in a pod, begun if it has to be, nil where none runs.
func (r *runners) of(ctx context.Context, key types.NamespacedName) (*running, error) {
	pod := &corev1.Pod{}
	if err := r.reader.Get(ctx, key, pod); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	if pod.Name == "" || pod.DeletionTimestamp != nil {
		r.end(key)
		return nil, nil
	}
	r.mu.Lock()
	one := r.running[key]
	r.mu.Unlock()
	if one != nil || !up(pod) {
		return one, nil
	}
	return r.begin(ctx, key, pod)
}

func (r *runners) end(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.running[key]; one != nil {
		one.end()
		delete(r.running, key)
		delete(r.pods[one.server], key)
	}
}

func (r *runners) begin(ctx context.Context, key types.NamespacedName, pod *corev1.Pod) (*running, error) {
	config, err := kit.RunConfig(ctx, r.live, pod.Namespace, pod.Spec.Volumes, pod.Annotations)
	if err != nil {
		return nil, fmt.Errorf("reading the run config of pod %s: %w", key, err)
	}
	one := &running{
		server: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[workload.LabelServer]},
		runner: &backend.Runner{Reader: r.reader, Live: r.live, Applier: r.applier, Run: config},
	}
	one.runner.Learn(backend.Facts{Answers: kit.Answers})
	one.runner.Env, one.runner.EnvErr = revision.Of(pod.Annotations)
	one.ctx, one.end = context.WithCancel(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[key] = one
	if r.pods[one.server] == nil {
		r.pods[one.server] = map[types.NamespacedName]bool{}
	}
	r.pods[one.server][key] = true
	return one, nil
}

// up reports whether the proxy's container runs.
func up(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == podtemplate.ProxyContainer && c.State.Running != nil {
			return true
		}
	}
	return false
}

// kinds are what the runners look at.
func kinds() []client.Object {
	return []client.Object{&corev1.Pod{}, &appsv1.StatefulSet{}, &corev1.Service{}, &v1alpha1.MCPServer{}}
}

// asRunners sends what the runners write as the runner of the server that it is about, on the one connection.
func asRunners(next http.RoundTripper) http.RoundTripper {
	return kit.RoundTripper(func(req *http.Request) (*http.Response, error) {
		sent := kit.RequestOf(req)
		if sent.Manager == "" {
			return next.RoundTrip(req)
		}
		server := sent.Name
		for _, slot := range workload.Slots {
			server = strings.TrimSuffix(strings.TrimSuffix(server, slot.HeadlessName("")), slot.Name(""))
		}
		req = req.Clone(req.Context())
		req.Header.Set("Impersonate-User", "system:serviceaccount:"+sent.Namespace+":"+workload.RunnerName(server))
		return next.RoundTrip(req)
	})
}

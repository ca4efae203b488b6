package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	freehold "github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// ErrDead is what every request of a process returns that a test killed. A runner that meets it is replaced by a new
// one, as kubelet restarts a container: with the same environment and file, and nothing remembered.
var ErrDead = errors.New("the process is dead")

// Answers is what a runner without a network learns of the MCP server that no pod runs: that it answers.
var Answers = conditions.True(v1alpha1.ReasonAnswers, "the backend answers MCP")

// Runners stand for the binary in the proxy pods that the kit pretends to run: the runner's real pass, for each proxy
// pod that is ready, with what that pod was given and the rights of its ServiceAccount, until the pod is told to end.
type Runners struct {
	// Requests records what they send.
	Requests *Requests
	// Wire, where it is set, may change the way of a new runner to the API server.
	Wire func(*rest.Config)
	// Now is the clock of new runners, time.Now if nil.
	Now func() time.Time

	env   *Env
	cache cache.Cache
	queue workqueue.TypedRateLimitingInterface[types.NamespacedName]

	mu      sync.Mutex
	running map[types.NamespacedName]*run
	// candidate is what runners see of content that gets no calls yet, nil for nothing.
	candidate *v1alpha1.CandidateStatus
	// answers is what runners learn of content by its hash where that is not Answers.
	answers map[string]conditions.Finding
}

// run is one runner, in one pod.
type run struct {
	uid    types.UID
	server string
	runner *backend.Runner
	ctx    context.Context
	end    context.CancelFunc
	mu     sync.Mutex // passes of one runner do not overlap
	// seen is what the runner was told of its content as a candidate.
	seen *v1alpha1.CandidateStatus
	// seenIn is the rollout in which that was.
	seenIn string
	// asked is what gets the calls, and learned what the runner learned of it.
	asked   backend.Start
	learned conditions.Finding
}

// RunProxies starts runners for the test's namespace, and for more, until the test ends.
func (s *Env) RunProxies(more ...string) *Runners {
	s.Helper()
	r := &Runners{
		env: s, Requests: &Requests{}, running: map[types.NamespacedName]*run{},
		candidate: &v1alpha1.CandidateStatus{Answers: true},
	}
	r.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](10*time.Millisecond, 5*time.Second))
	options := cache.Options{Scheme: s.Scheme, DefaultNamespaces: map[string]cache.Config{s.Namespace: {}}}
	for _, namespace := range more {
		options.DefaultNamespaces[namespace] = cache.Config{}
	}
	ours, err := labels.Parse(workload.LabelServer)
	s.Must(err, "selecting what is ours")
	options.ByObject = map[client.Object]cache.ByObject{
		&corev1.Pod{}:         {Label: labels.SelectorFromSet(labels.Set{workload.LabelComponent: workload.ComponentProxy})},
		&appsv1.StatefulSet{}: {Label: ours}, &corev1.Service{}: {Label: ours},
	}
	watched := []client.Object{&appsv1.StatefulSet{}, &corev1.Service{}}
	for _, kind := range kinds.All() {
		watched = append(watched, kind.New())
	}
	r.cache, err = cache.New(s.Config, options)
	s.Must(err, "building the runners' cache")
	ctx, cancel := context.WithCancel(context.Background())
	r.watch(ctx, &corev1.Pod{}, r.podMoved)
	for _, kind := range watched {
		r.watch(ctx, kind, r.objectMoved)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = r.cache.Start(ctx) }) // it ends with ctx
	for range 4 {
		done.Go(r.work)
	}
	s.Cleanup(func() { cancel(); r.queue.ShutDown(); done.Wait() })
	if !r.cache.WaitForCacheSync(ctx) {
		s.Fatalf("the runners' cache does not fill")
	}
	return r
}

func (r *Runners) watch(ctx context.Context, kind client.Object, moved func(client.Object)) {
	r.env.Helper()
	informer, err := r.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	r.env.Must(err, "watching for the runners")
	handle := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		if object, ok := o.(client.Object); ok {
			moved(object)
		}
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, o any) { handle(o) }, DeleteFunc: handle,
	})
	r.env.Must(err, "watching for the runners")
}

// podMoved starts the runner of a pod that became ready, and ends that of one that is told to end.
func (r *Runners) podMoved(object client.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := client.ObjectKeyFromObject(object)
	current := r.running[key]
	if object.GetDeletionTimestamp() != nil || current != nil && current.uid != object.GetUID() {
		if current != nil {
			current.end()
			delete(r.running, key)
		}
	}
	if r.running[key] == nil && object.GetDeletionTimestamp() == nil {
		r.queue.Add(key)
	}
}

func (r *Runners) objectMoved(object client.Object) {
	server := object.GetLabels()[workload.LabelServer]
	if owner, ok := object.(kinds.Object); ok {
		server = kinds.Key(owner)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, running := range r.running {
		if running.server == server && key.Namespace == object.GetNamespace() {
			r.queue.Add(key)
		}
	}
}

func (r *Runners) work() {
	for {
		key, shutdown := r.queue.Get()
		if shutdown {
			return
		}
		if err := r.pass(key); err != nil {
			r.queue.AddRateLimited(key)
		} else {
			r.queue.Forget(key)
		}
		r.queue.Done(key)
	}
}

func (r *Runners) pass(key types.NamespacedName) error {
	r.mu.Lock()
	running := r.running[key]
	r.mu.Unlock()
	if running == nil {
		var err error
		if running, err = r.begin(key); running == nil || err != nil {
			return err
		}
	}
	running.mu.Lock()
	defer running.mu.Unlock()
	report, err := running.runner.Pass(running.ctx)
	if running.ctx.Err() != nil {
		return nil
	}
	if report.Again > 0 {
		r.queue.AddAfter(key, report.Again)
	}
	r.mu.Lock()
	candidate := r.candidate
	r.mu.Unlock()
	if report.Start == (backend.Start{}) {
		running.seen = nil
	}
	if of := report.Start.Rollout; of != "" && candidate != nil && (candidate != running.seen || of != running.seenIn) {
		running.seen, running.seenIn = candidate, of
		running.runner.LearnCandidate(*candidate)
		r.queue.Add(key)
	}
	r.learn(key, running, report)
	if errors.Is(err, ErrDead) {
		r.bury(key, running)
	}
	return err
}

// learn has a runner learn whether what gets the calls answers, its own content or other.
func (r *Runners) learn(key types.NamespacedName, running *run, report backend.Report) {
	serves := report.Serving.Start
	if serves == (backend.Start{}) && report.Start.Rollout == "" {
		serves = report.Start
	}
	r.mu.Lock()
	answers, otherwise := r.answers[serves.Content]
	r.mu.Unlock()
	if !otherwise {
		answers = Answers
	}
	if serves == (backend.Start{}) || serves == running.asked && answers == running.learned {
		return
	}
	running.asked, running.learned = serves, answers
	running.runner.Learn(backend.Facts{Content: serves.Content, Answers: answers})
	r.queue.Add(key)
}

// Answer is what runners learn from now on of content with this hash while that gets the calls. At first it answers.
func (r *Runners) Answer(hash string, answers conditions.Finding) {
	r.env.Helper()
	r.mu.Lock()
	if r.answers == nil {
		r.answers = map[string]conditions.Finding{}
	}
	r.answers[hash] = answers
	r.mu.Unlock()
	r.Again()
}

// bury lets the pod's next pass begin with a new runner.
func (r *Runners) bury(key types.NamespacedName, dead *run) {
	dead.end()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[key] == dead {
		delete(r.running, key)
	}
}

// begin makes the runner of a pod out of what the pod was given. It returns nil for a pod whose container does not run.
func (r *Runners) begin(key types.NamespacedName) (*run, error) {
	pod := &corev1.Pod{}
	if err := r.cache.Get(context.Background(), key, pod); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if pod.DeletionTimestamp != nil || !running(pod) {
		return nil, nil
	}
	runner, err := r.runnerOf(pod)
	if err != nil {
		return nil, err
	}
	started := &run{uid: pod.UID, server: pod.Labels[workload.LabelServer], runner: runner}
	started.ctx, started.end = context.WithCancel(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running[key] = started
	return started, nil
}

// RunConfig is what kubelet gives the runner of a pod: from the pod's annotation, or from the ConfigMap that it mounts.
func RunConfig(
	ctx context.Context, reader client.Reader, namespace string, volumes []corev1.Volume,
	annotations map[string]string,
) (runconfig.RunConfig, error) {
	for _, v := range volumes {
		switch {
		case v.DownwardAPI != nil && v.DownwardAPI.Items[0].Path == runconfig.FileName:
			return runconfig.Decode([]byte(annotations[podtemplate.AnnotationRunConfig]))
		case v.ConfigMap != nil:
			file := &corev1.ConfigMap{}
			if err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v.ConfigMap.Name}, file); err != nil {
				return runconfig.RunConfig{}, err
			}
			return runconfig.Decode([]byte(file.Data[runconfig.FileName]))
		}
	}
	return runconfig.RunConfig{}, errors.New("no volume has it")
}

func (r *Runners) runnerOf(pod *corev1.Pod) (*backend.Runner, error) {
	config, err := RunConfig(context.Background(), r.env.Client, pod.Namespace, pod.Spec.Volumes, pod.Annotations)
	if err != nil {
		return nil, fmt.Errorf("reading the run config of pod %s: %w", pod.Name, err)
	}
	identity := r.Requests.Wrap(r.env.AsServiceAccount(pod.Namespace, pod.Spec.ServiceAccountName))
	identity.UserAgent = "freehold-runner"
	if r.Wire != nil {
		r.Wire(identity)
	}
	direct, err := client.New(identity, client.Options{Scheme: r.env.Scheme, Mapper: r.env.Client.RESTMapper()})
	if err != nil {
		return nil, fmt.Errorf("connecting as the runner of pod %s: %w", pod.Name, err)
	}
	runner := &backend.Runner{
		Reader: direct, Live: direct, Applier: freehold.NewApplier(direct, direct), Run: config,
		Now: r.Now,
	}
	runner.Learn(backend.Facts{Answers: Answers})
	// The downward API hands over the annotations as they were at the start.
	runner.Env, runner.EnvErr = revision.Of(pod.Annotations)
	return runner, nil
}

// SeeCandidates is what runners see from now on of content that gets no calls yet. At first that answers, and has lost
// no tool.
func (r *Runners) SeeCandidates(candidate v1alpha1.CandidateStatus) {
	r.env.Helper()
	r.mu.Lock()
	r.candidate = &candidate
	r.mu.Unlock()
	r.Again()
}

// Again makes every runner pass once more.
func (r *Runners) Again() {
	r.env.Helper()
	var pods corev1.PodList
	r.env.Must(r.cache.List(context.Background(), &pods), "listing proxy pods")
	for i := range pods.Items {
		r.queue.Add(client.ObjectKeyFromObject(&pods.Items[i]))
	}
}

func running(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == podtemplate.ProxyContainer && c.State.Running != nil {
			return true
		}
	}
	return false
}

// AskProxy answers for a proxy pod of which nothing runs, as one that has read the status of its server and has no
// sessions.
func (s *Env) AskProxy(ctx context.Context, pod *corev1.Pod) (runconfig.Routing, error) {
	live := &v1alpha1.MCPServer{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels[workload.LabelServer]}
	if err := s.Client.Get(ctx, key, live); err != nil {
		return runconfig.Routing{}, err
	}
	told := runconfig.Routing{ServerUID: string(live.UID), Since: time.Now().Add(-time.Hour)}
	add := func(c *v1alpha1.BackendContent) {
		if c != nil {
			told.Contents = append(told.Contents, runconfig.ContentUse{Slot: c.Slot, Hash: c.Hash})
		}
	}
	if a := live.Status.Active; a != nil {
		told.Active = &runconfig.RoutedContent{Slot: a.Slot, Hash: a.Hash, Generation: a.Generation}
		add(&a.BackendContent)
	}
	if r := live.Status.Rollout; r != nil {
		add(&r.Target)
		add(r.From)
	}
	return told, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

const (
	// namespace is where all servers of a world are.
	namespace = "bench"
	// user is who writes servers, and team the writer of what they do not know.
	user = "argocd-controller"
	// controllerQPS is what kube-controller-manager may send.
	controllerQPS = 1000
	// workers is how many pods, runners and writes are looked after at once, so
	// that the rest of the world is not what is waited for.
	workers = 16
)

// world is a control plane with nothing on it, the runner's half of every server to come, and a tracker of servers.
type world struct {
	*kit.Plane
	tracker *tracker
	// sent counts what the runners send.
	sent *requestCounter
	// watched counts what the runners' cache reads, and reader is that cache.
	watched               *requestCounter
	reader                cache.Cache
	kubeconfig, reference string
	processes             map[string]int
	// from is the number of the first server; what clear removed is not named again, since its children go later.
	from int
	// calm is how long a subject must send nothing to be at rest.
	calm time.Duration
	stop func() error
}

// newWorld starts a world. Whoever starts it calls stop, also after an error.
func newWorld(ctx context.Context, dir string) (*world, error) {
	w := &world{tracker: newTracker(), calm: 2 * time.Second, stop: func() error { return nil }}
	var err error
	w.Plane, err = kit.Start(ctx, kit.ControllerQPS(controllerQPS), kit.KubeletWorkers(workers), kit.PriorityAndFairness())
	w.stop = w.Plane.Stop
	if err != nil {
		return w, err
	}
	if err := w.Install(ctx); err != nil {
		return w, err
	}
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	if err := w.Client.Create(ctx, object); err != nil {
		return w, fmt.Errorf("creating the namespace: %w", err)
	}
	w.kubeconfig, w.reference = filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "kubeconfig-reference")
	for path, config := range map[string]*rest.Config{
		w.kubeconfig: w.OperatorConfig(), w.reference: w.AsServiceAccount(kit.SystemNamespace, identityReference),
	} {
		if err := clientcmd.WriteToFile(kubeconfigOf(config), path); err != nil {
			return w, fmt.Errorf("writing a kubeconfig: %w", err)
		}
	}
	if w.processes, err = children(); err != nil {
		return w, err
	}
	return w, w.run(ctx)
}

// identityReference is who the reference writes as: the operator's identity may write by apply alone.
const identityReference = "freehold-reference"

// allow gives the reference's identity the operator's rights, and more.
func (w *world) allow(ctx context.Context, more *rbacv1.ClusterRole) error {
	errs := []error{w.Client.Create(ctx, more)}
	for _, role := range append(contract.Controllers(), more.Name, contract.IdentityOperator) {
		errs = append(errs, w.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: identityReference + "-" + role},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{
				Kind: rbacv1.ServiceAccountKind, Name: identityReference,
				Namespace: kit.SystemNamespace,
			}},
		}))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("giving rights: %w", err)
	}
	return nil
}

// run starts the runners and the tracker.
func (w *world) run(ctx context.Context) error {
	config := rest.CopyConfig(w.Config)
	config.UserAgent = "bench-runners"
	each := rest.CopyConfig(config)
	each.Wrap(asRunners)
	w.sent = newRequestCounter()
	w.sent.wrap(each)
	live, err := client.New(each, client.Options{Scheme: w.Scheme})
	if err != nil {
		return fmt.Errorf("building the runners' client: %w", err)
	}
	ours, err := labels.Parse(workload.LabelServer)
	if err != nil {
		return err
	}
	w.watched = newRequestCounter()
	w.watched.wrap(config)
	informers, err := cache.New(config, cache.Options{Scheme: w.Scheme, ByObject: map[client.Object]cache.ByObject{
		&corev1.Pod{}: {Label: ours}, &appsv1.StatefulSet{}: {Label: ours}, &corev1.Service{}: {Label: ours},
		&v1alpha1.MCPServer{}: {},
	}})
	if err != nil {
		return fmt.Errorf("building the runners' cache: %w", err)
	}
	w.reader = informers
	runners := newRunners(informers, live)
	for _, kind := range kinds() {
		informer, err := informers.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
		_, err = informer.AddEventHandler(runners.handler())
		if _, ok := kind.(*v1alpha1.MCPServer); ok && err == nil {
			_, err = informer.AddEventHandler(w.tracker.handler())
		}
		if err != nil {
			return fmt.Errorf("watching: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { _ = informers.Start(ctx) }) // it ends with ctx
	for range workers {
		done.Go(func() { runners.work(ctx) })
	}
	w.stop = func() error {
		cancel()
		runners.queue.ShutDown()
		done.Wait()
		return w.Plane.Stop()
	}
	if !informers.WaitForCacheSync(ctx) {
		return errors.New("the runners' cache does not fill")
	}
	return nil
}

func kubeconfigOf(config *rest.Config) clientcmdapi.Config {
	const name = "bench"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken,
		Impersonate: config.Impersonate.UserName, ImpersonateGroups: config.Impersonate.Groups,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	return *file
}

// used is the processor time of every process of the world so far, in seconds.
// This program's own, which runs pods and runners, is under "bench".
func (w *world) used(p *subject) (map[string]float64, error) {
	all := map[string]float64{}
	ids := map[string]int{"bench": os.Getpid(), "subject": p.command.Process.Pid}
	// Names in /proc have 15 characters.
	for name, short := range map[string]string{
		"kube-apiserver": "kube-apiserver", "etcd": "etcd",
		"kube-controller-manager": "kube-controller",
	} {
		ids[name] = w.processes[short]
	}
	for name, pid := range ids {
		seconds, err := processorTime(pid)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all[name] = seconds
	}
	return all, nil
}

// name is that of the i-th server.
func (w *world) name(i int) string { return fmt.Sprintf("server-%04d", w.from+i) }

// server is the i-th one, by name.
func (w *world) server(i int) *v1alpha1.MCPServer {
	return &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: w.name(i), Namespace: namespace}}
}

// clear removes n servers that nobody looks after any more.
func (w *world) clear(ctx context.Context, n int) error {
	free := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	err := each(ctx, n, func(i int) error {
		return errors.Join(w.Client.Patch(ctx, w.server(i), free), w.Client.Delete(ctx, w.server(i)))
	})
	if err != nil {
		return fmt.Errorf("removing servers: %w", err)
	}
	w.from += n
	_, err = w.tracker.await(ctx, 0, "servers are left", gone)
	return err
}

// image is that of a server's backend in a version.
func image(version int) string { return fmt.Sprintf("registry.example.com/echo:%d", version) }

// inPlace is a server whose content replaces its pods in place, as those of the floors and the references do.
func inPlace(name, image, more string) string {
	return kit.Server(name, image, "rollout: {strategy: Replace}\n"+more)
}

// apply applies servers 0 to n-1 as their user does, workers at a time.
func (w *world) apply(ctx context.Context, n int, text func(name string) string) error {
	return each(ctx, n, func(i int) error {
		object, err := w.read(text(w.name(i)))
		if err != nil {
			return err
		}
		return w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(user))
	})
}

// read is an object as its user wrote it.
func (w *world) read(text string) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		return nil, fmt.Errorf("reading what a user wrote: %w", err)
	}
	object.SetNamespace(namespace)
	return object, nil
}

// each calls do for 0 to n-1, workers at a time, until one call fails.
func each(ctx context.Context, n int, do func(int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workqueue.ParallelizeUntil(ctx, workers, n, func(i int) {
		if err := do(i); err != nil {
			stop(err)
		}
	})
	return context.Cause(ctx)
}

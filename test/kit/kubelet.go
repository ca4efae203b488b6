package kit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	nodeName    = "kit-node"
	nodeAddress = "192.0.2.1"
	kubeletName = "kubelet"
)

// Kubelet pretends to be the scheduler and the kubelet of one endless node. It binds pods, reports how their containers
// fare, and lets terminating pods go. It acts on events; nothing is polled.
type Kubelet struct {
	client kubernetes.Interface
	pods   corelisters.PodLister
	queue  workqueue.TypedRateLimitingInterface[cache.ObjectName]
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu        sync.Mutex
	fates     map[string]Fate
	addresses map[string]string
	given     int64
	holds     map[*hold]struct{}
}

type hold struct{ matches func(*corev1.Pod) bool }

func startKubelet(ctx context.Context, config *rest.Config, workers int) (*Kubelet, error) {
	config = rest.AddUserAgent(rest.CopyConfig(config), kubeletName)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("building the kubelet's client: %w", err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("registering the node: %w", err)
	}
	k := &Kubelet{
		client: client,
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](5*time.Millisecond, time.Second)),
		fates: map[string]Fate{}, addresses: map[string]string{}, holds: map[*hold]struct{}{},
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	core := factory.Core().V1()
	k.pods = core.Pods().Lister()
	if err := errors.Join(
		k.on(core.Pods().Informer(), func(o metav1.Object) { k.queue.Add(cache.MetaObjectToName(o)) }),
		k.on(core.Secrets().Informer(), k.reference), k.on(core.ConfigMaps().Informer(), k.reference),
	); err != nil {
		return nil, err
	}
	ctx, k.cancel = context.WithCancel(ctx)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for range workers {
		k.done.Go(func() { k.work(ctx) })
	}
	return k, nil
}

func (k *Kubelet) on(informer cache.SharedIndexInformer, wake func(metav1.Object)) error {
	handle := func(o any) {
		if object, ok := o.(metav1.Object); ok {
			wake(object)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, o any) { handle(o) },
	})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	return nil
}

func (k *Kubelet) stop() {
	k.cancel()
	k.queue.ShutDown()
	k.done.Wait()
}

// Image sets the fate of an image from now on, also in pods that exist.
func (k *Kubelet) Image(image string, fate Fate) {
	k.mu.Lock()
	k.fates[image] = fate
	k.mu.Unlock()
	k.wake(func(pod *corev1.Pod) bool {
		for _, c := range pod.Spec.Containers {
			if c.Image == image {
				return true
			}
		}
		return false
	})
}

// HoldTermination keeps pods for which matches is true in their termination until the returned function is called.
func (k *Kubelet) HoldTermination(matches func(*corev1.Pod) bool) (release func()) {
	h := &hold{matches: matches}
	k.mu.Lock()
	k.holds[h] = struct{}{}
	k.mu.Unlock()
	return func() {
		k.mu.Lock()
		delete(k.holds, h)
		k.mu.Unlock()
		k.wake(matches)
	}
}

func (k *Kubelet) reference(o metav1.Object) {
	k.wake(func(pod *corev1.Pod) bool {
		return pod.Namespace == o.GetNamespace() && pod.Status.Phase == corev1.PodPending
	})
}

func (k *Kubelet) wake(matches func(*corev1.Pod) bool) {
	pods, err := k.pods.List(labels.Everything())
	if err != nil {
		return // the lister reads memory and has no errors of its own
	}
	for _, pod := range pods {
		if matches(pod) {
			k.queue.Add(cache.MetaObjectToName(pod))
		}
	}
}

func (k *Kubelet) work(ctx context.Context) {
	for {
		key, shutdown := k.queue.Get()
		if shutdown {
			return
		}
		// Whatever fails is tried again: a conflict, a namespace that goes away.
		if err := k.sync(ctx, key); err != nil && ctx.Err() == nil {
			k.queue.AddRateLimited(key)
		} else {
			k.queue.Forget(key)
		}
		k.queue.Done(key)
	}
}

func (k *Kubelet) sync(ctx context.Context, key cache.ObjectName) error {
	pod, err := k.pods.Pods(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading pod %s: %w", key, err)
	}
	if pod.DeletionTimestamp != nil {
		return k.finish(ctx, pod)
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil // it has ended for good
	}
	fates, err := k.faresOf(ctx, pod)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return k.schedule(ctx, pod)
	}
	return k.report(ctx, pod, podStatus(pod, fates, k.address(pod)))
}

func (k *Kubelet) finish(ctx context.Context, pod *corev1.Pod) error {
	k.mu.Lock()
	for h := range k.holds {
		if h.matches(pod) {
			k.mu.Unlock()
			return nil
		}
	}
	k.mu.Unlock()
	now := int64(0)
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("finishing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (k *Kubelet) schedule(ctx context.Context, pod *corev1.Pod) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}
	err := k.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("binding pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil // the event of the binding brings the pod back
}

func (k *Kubelet) report(ctx context.Context, pod *corev1.Pod, next corev1.PodStatus) error {
	if equality.Semantic.DeepEqual(pod.Status, next) {
		return nil
	}
	changed := pod.DeepCopy()
	changed.Status = next
	_, err := k.client.CoreV1().Pods(pod.Namespace).
		UpdateStatus(ctx, changed, metav1.UpdateOptions{FieldManager: kubeletName})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reporting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

func (k *Kubelet) address(pod *corev1.Pod) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	uid := string(pod.UID)
	if k.addresses[uid] == "" {
		k.given++
		k.addresses[uid] = podAddress(k.given)
	}
	return k.addresses[uid]
}

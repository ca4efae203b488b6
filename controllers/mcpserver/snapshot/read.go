package snapshot

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/complaints"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/store"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/routes"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Reader reads what a pass looks at.
type Reader struct {
	Kind kinds.Kind
	// Cache may be behind, and Live, the API server, is asked where a cache cannot know.
	Cache, Live client.Reader
	Configs     *store.Store
	// Percent is how many of a hundred servers take a changed configuration at a time.
	Percent int
	// Complaints are those about pods; nil for none.
	Complaints *complaints.Store
	// Routes are HTTPRoutes; nil for those of a cluster that does not have them.
	Routes *routes.Source
	// RememberedAs is that of the writer of children (apply.Writer); nil where nothing is remembered.
	RememberedAs func(client.Object) string

	// AskProxy reads what a proxy pod tells of where its calls go; nil for nothing.
	AskProxy AskProxy

	// Claims are those of this process.
	Claims Claims
	// refusals are what refuses pods, by server and slot, and stopping since when servers stop.
	refusals, stopping *lru.Cache
	// asked is what the proxies of servers have told.
	asked *lru.Cache
	// decides says that what is read is what a rollout is decided by.
	decides bool
	// foreign is what pod templates have of others.
	foreign foreign
}

// remembered is of how many servers a process remembers something.
const remembered = 1 << 14

// NewReader returns a Reader of a kind.
func NewReader(kind kinds.Kind, cache, live client.Reader) *Reader {
	return &Reader{
		Kind: kind, Cache: cache, Live: live, Configs: store.New(), Percent: rollout.DefaultPercent,
		refusals: lru.New(remembered), stopping: lru.New(remembered), foreign: foreign{lru.New(2 * remembered)},
		Claims: Claims{lru.New(remembered)}, asked: lru.New(remembered),
	}
}

// Read reads the children of an object and its pods; of one that is not being deleted also its configurations.
// What a cache does not show of a server that stops is read live: it holds what has our label, and somebody may
// have taken that off. What still runs must not be taken for gone.
func (r *Reader) Read(
	ctx context.Context, object kinds.Object, now time.Time, slot *reconcile.LargeSlot,
) (s *Snapshot, err error) {
	objects, err := r.objects(ctx, object)
	if err != nil {
		return nil, err
	}
	objects.Complaints = r.Complaints.Of(object.GetNamespace(), kinds.Key(object))
	lost := r.Kind.Backend && objects.Backend == nil && objects.Slot2.Set == nil && kinds.BackendReplicas(object) == 0 &&
		object.GetProxyStatus().URL != ""
	if object.GetDeletionTimestamp() != nil || lost {
		if err := r.uncover(ctx, object, &objects); err != nil {
			return nil, err
		}
	}
	if objects.Leftover, err = r.leftover(ctx, client.ObjectKeyFromObject(object), object.GetUID(),
		objects.Policy); err != nil {
		return nil, err
	}
	s = Of(object, objects, now)
	s.foreign = r.foreign
	s.Stops, s.Held = r.stopsOf(s), r.Claims.Held(object.GetUID())
	if object.GetDeletionTimestamp() != nil {
		return s, nil
	}
	if s.Configs.Refs, err = r.Configs.Bind(ctx, r.Cache, object); err != nil {
		return nil, err
	}
	if s.MissingGroup, err = r.missingGroup(ctx, object); err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.Configs.Refs, func(b frame.Bound) bool { return !b.Known() }) {
		s, err = r.Contents(ctx, s, slot)
	} else {
		s.Configs, err = r.configs(ctx, s, s.Configs.Refs)
	}
	if err != nil {
		return nil, err
	}
	for _, slot := range workload.Slots {
		s.Slots[slot].Refused = r.refused(ctx, s, slot)
	}
	s.Routing = r.routing(ctx, s)
	s.RememberedAs = r.rememberedAs(s)
	return s, nil
}

// objects are read once: from a cache, and what that cuts live.
func (r *Reader) objects(ctx context.Context, server kinds.Object) (o Objects, err error) {
	seen := func(name string, obj client.Object, e error) bool {
		if err == nil && e != nil && !apierrors.IsNotFound(e) {
			err = fmt.Errorf("reading %T %s/%s: %w", obj, server.GetNamespace(), name, e)
		}
		return err == nil && e == nil
	}
	key := func(name string) client.ObjectKey {
		return client.ObjectKey{Namespace: server.GetNamespace(), Name: name}
	}
	get := func(name string, obj client.Object) bool {
		return err == nil && seen(name, obj, reconcile.Whole(ctx, r.Cache, r.Live, key(name), obj))
	}
	name := kinds.Key(server)
	o.Account = found(get, workload.RunnerName(name), &corev1.ServiceAccount{})
	o.Role = found(get, workload.RunnerName(name), &rbacv1.Role{})
	o.Binding = found(get, workload.RunnerName(name), &rbacv1.RoleBinding{})
	o.Service = found(get, workload.ProxyName(name), &corev1.Service{})
	o.Proxy = found(get, workload.ProxyName(name), &appsv1.Deployment{})
	if r.Kind.Backend {
		o.Backend = found(get, workload.BackendName(name), &appsv1.StatefulSet{})
		o.Calls = found(get, workload.BackendName(name), &corev1.Service{})
		o.Names = found(get, workload.HeadlessName(name), &corev1.Service{})
		o.Slot2 = BackendObjects{
			Set:   found(get, workload.Slot2.Name(name), &appsv1.StatefulSet{}),
			Calls: found(get, workload.Slot2.Name(name), &corev1.Service{}),
			Names: found(get, workload.Slot2.HeadlessName(name), &corev1.Service{}),
		}
		o.Policy = found(get, workload.BackendName(name), &networkingv1.NetworkPolicy{})
	}
	if err != nil {
		return Objects{}, err
	}
	labelled := []client.ListOption{
		client.InNamespace(server.GetNamespace()),
		client.MatchingLabels{workload.LabelServer: name},
	}
	list := func(what string, of schema.GroupVersion, kind string) (items []metav1.PartialObjectMetadata) {
		found := &metav1.PartialObjectMetadataList{}
		found.SetGroupVersionKind(of.WithKind(kind + "List"))
		if e := r.Cache.List(ctx, found, labelled...); err == nil && e != nil {
			err = fmt.Errorf("listing %s: %w", what, e)
		}
		return found.Items
	}
	o.RunConfigs = list("run configs", corev1.SchemeGroupVersion, "ConfigMap")
	if r.Kind.Backend {
		o.Contents = list("contents", appsv1.SchemeGroupVersion, "ControllerRevision")
	}
	if err != nil {
		return Objects{}, err
	}
	o.Route, o.Routes = r.route(ctx, key(workload.ProxyName(name)), server)
	o.Pods, err = r.pods(ctx, server.GetNamespace(), name)
	return o, err
}

// RecheckRoutes is when a server is looked at again whose HTTPRoute the cluster does not serve, or that cannot be read.
const RecheckRoutes = routes.Recheck

// route is the HTTPRoute of a server, live where the cache has a part of it. That it cannot be read ends no pass.
func (r *Reader) route(
	ctx context.Context, key client.ObjectKey, server kinds.Object,
) (*unstructured.Unstructured, routes.State) {
	route, state := r.Routes.Get(ctx, key, kinds.Key(server), MayHaveRoute(server))
	if route == nil || !reconcile.IsCut(route) {
		return route, state
	}
	whole := routes.Object()
	if err := r.Live.Get(ctx, key, whole); err != nil {
		return nil, routes.Unread
	}
	return whole, state
}

// MayHaveRoute reports whether the spec asks for an HTTPRoute, or the status tells of one.
func MayHaveRoute(server kinds.Object) bool {
	spec := server.GetProxySpec().Proxy
	return spec != nil && spec.HTTPRoute != nil ||
		meta.FindStatusCondition(server.GetProxyStatus().Conditions, v1alpha1.ConditionPublished) != nil
}

func found[T client.Object](get func(string, client.Object) bool, name string, obj T) T {
	var none T
	if !get(name, obj) {
		return none
	}
	return obj
}

// pods are those of an owner, by its key, sorted. A cache lists in any order, and of two pods in trouble the first is
// named: another one each time would be a write each time.
func (r *Reader) pods(ctx context.Context, namespace, key string) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	if err := r.Cache.List(ctx, pods, client.InNamespace(namespace),
		client.MatchingLabels{workload.LabelServer: key}); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	slices.SortFunc(pods.Items, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods.Items, nil
}

// uncover reads live the children that stop, where the cache does not show them.
func (r *Reader) uncover(ctx context.Context, server kinds.Object, o *Objects) error {
	key := kinds.Key(server)
	proxy, err := unseen(ctx, r.Live, server, workload.ProxyName(key), o.Proxy)
	backend, second, policy := o.Backend, o.Slot2.Set, o.Policy
	if r.Kind.Backend && err == nil {
		backend, err = unseen(ctx, r.Live, server, workload.BackendName(key), o.Backend)
	}
	// Only a rollout uses slot 2, and the status tells of each.
	if uses2(server) && err == nil {
		second, err = unseen(ctx, r.Live, server, workload.Slot2.Name(key), o.Slot2.Set)
	}
	// What stands before a backend is asked for once that has gone, or is about to: a deletion has many passes.
	gone := !slices.ContainsFunc([]*appsv1.StatefulSet{backend, second}, func(b *appsv1.StatefulSet) bool {
		return b != nil && b.DeletionTimestamp == nil && metav1.IsControlledBy(b, server)
	})
	if r.Kind.Backend && err == nil && gone {
		policy, err = unseen(ctx, r.Live, server, workload.BackendName(key), o.Policy)
	}
	if err != nil {
		return err
	}
	o.Hidden = proxy != o.Proxy || backend != o.Backend || second != o.Slot2.Set || policy != o.Policy
	o.Proxy, o.Backend, o.Slot2.Set, o.Policy = proxy, backend, second, policy
	return nil
}

// uses2 reports whether slot 2 may be in use.
func uses2(object kinds.Object) bool {
	server, is := object.(*v1alpha1.MCPServer)
	return is && (server.Status.Rollout != nil ||
		server.Status.Active != nil && workload.Slot(server.Status.Active.Slot) == workload.Slot2)
}

// unseen is a child of the server that the cache does not show, or what it shows.
func unseen[T any, O interface {
	*T
	client.Object
}](ctx context.Context, live client.Reader, server kinds.Object, name string, seen O) (O, error) {
	if seen != nil {
		return seen, nil
	}
	obj := O(new(T))
	switch err := live.Get(ctx, client.ObjectKey{Namespace: server.GetNamespace(), Name: name}, obj); {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading %T %s/%s: %w", obj, server.GetNamespace(), name, err)
	case err != nil, !metav1.IsControlledBy(obj, server):
		return nil, nil //nolint:nilerr // there is none, or another's
	}
	return obj, nil
}

// LiveProxy is the proxy as the API server has it, where the cache does not show one that is there.
func (r *Reader) LiveProxy(ctx context.Context, server kinds.Object) (*Proxy, error) {
	live, key := &appsv1.Deployment{},
		client.ObjectKey{Namespace: server.GetNamespace(), Name: workload.ProxyName(kinds.Key(server))}
	if err := r.Live.Get(ctx, key, live); err != nil {
		return nil, fmt.Errorf("reading Deployment %s: %w", key, err)
	}
	return new(proxyOf(server, live)), nil
}

// IsLatest reports whether the server has the claim and the plan that were read: another operator may have written
// since, and the cache not show it yet. Its event is on the way.
func (r *Reader) IsLatest(ctx context.Context, s *Snapshot) (bool, error) {
	live := r.Kind.New()
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.Object), live); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	now, was := reported(live), reported(s.Object)
	return live.GetUID() == s.Object.GetUID() && equality.Semantic.DeepEqual(now.Claim, was.Claim) &&
		equality.Semantic.DeepEqual(now.Active, was.Active) && equality.Semantic.DeepEqual(now.Rollout, was.Rollout), nil
}

// Leftover is the NetworkPolicy of an earlier server of this name, which is gone, where there is none now: somebody
// removed its finalizer, and the garbage collector is refused the policy. It is nil where there is none, and while
// pods of the backend run, whose end wakes the next pass.
func (r *Reader) Leftover(ctx context.Context, server client.ObjectKey) (*networkingv1.NetworkPolicy, error) {
	if !r.Kind.Backend {
		return nil, nil
	}
	policy := &networkingv1.NetworkPolicy{}
	key := client.ObjectKey{Namespace: server.Namespace, Name: workload.BackendName(server.Name)}
	switch err := reconcile.Whole(ctx, r.Cache, r.Live, key, policy); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading NetworkPolicy %s: %w", key, err)
	}
	return r.leftover(ctx, server, "", policy)
}

// leftover is policy if it is of an earlier server of this name. uid is that of the server that is there now, by
// the cache, empty if there is none.
func (r *Reader) leftover(
	ctx context.Context, server client.ObjectKey, uid types.UID, policy *networkingv1.NetworkPolicy,
) (*networkingv1.NetworkPolicy, error) {
	if policy == nil || policy.DeletionTimestamp != nil {
		return nil, nil
	}
	owner := metav1.GetControllerOf(policy)
	if owner == nil || owner.UID == uid || owner.Kind != r.Kind.Object.Kind || owner.Name != server.Name ||
		!strings.HasPrefix(owner.APIVersion, v1alpha1.SchemeGroupVersion.Group+"/") {
		return nil, nil
	}
	now := r.Kind.New()
	switch err := r.Live.Get(ctx, server, now); { // the cache may be behind
	case err == nil && now.GetUID() == owner.UID:
		return nil, nil
	case err == nil:
		return policy, nil // its own policy, if it has one, is about the same pods
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("reading %s %s: %w", owner.Kind, server, err)
	}
	pods, err := r.pods(ctx, server.Namespace, r.Kind.Key(server.Name))
	if err != nil || podsOf(pods).Running(workload.Backends...) > 0 {
		return nil, err
	}
	return policy, nil
}

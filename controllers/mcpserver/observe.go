package mcpserver

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/rollout"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// world is everything a pass looks at beside the server. What is nil was not
// there, or is not ours.
type world struct {
	account *corev1.ServiceAccount
	role    *rbacv1.Role
	binding *rbacv1.RoleBinding
	service *corev1.Service
	proxy   *appsv1.Deployment
	backend *appsv1.StatefulSet
	// calls and names are the backend's Services.
	calls, names *corev1.Service
	// policy is the backend's NetworkPolicy.
	policy *networkingv1.NetworkPolicy
	// ownBackend and ownPolicy say that the backend and its NetworkPolicy belong to this
	// server, and not to an earlier one of its name or to somebody else.
	ownBackend, ownPolicy bool
	// object is what was read, of which the server is the form; nil where it is the server.
	object kinds.Object
	// configs are run configs, without their data.
	configs []metav1.PartialObjectMetadata
	// shared is what the server refers to, and turns how far it is with each.
	shared frame.Set
	turns  []rollout.Turn
	// ran is the run config of the proxy that stands, where the server is to wait for one
	// of them.
	ran  *runconfig.RunConfig
	pods []corev1.Pod
	// complaints are what kubelet and others say of its pods, also of those that are gone, and
	// now is when the world is looked at.
	complaints []conditions.Complaint
	now        time.Time
	// refusal is why the API server refuses pods of the backend, if the pass
	// asked.
	refusal string
	// draining is how long the backend waits for the end of calls, 0 if it does not.
	draining time.Duration
	// conflicts are the field conflicts that the pass met before it reports.
	conflicts []*apply.Conflict
}

// observe reads the world, once: from a cache, and what that cuts live.
func observe(ctx context.Context, reader, live client.Reader, server *v1alpha1.MCPServer) (world, error) {
	w := world{}
	name := kinds.Key(server)
	var err error
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: server.Namespace, Name: name} }
	seen := func(name string, obj client.Object, e error) bool {
		if err == nil && e != nil && !apierrors.IsNotFound(e) {
			err = fmt.Errorf("reading %T %s/%s: %w", obj, server.Namespace, name, e)
		}
		return err == nil && e == nil
	}
	get := func(name string, obj client.Object) bool {
		return err == nil && seen(name, obj, reconcile.Whole(ctx, reader, live, key(name), obj))
	}
	w.account = found(get, workload.RunnerName(name), &corev1.ServiceAccount{})
	w.role = found(get, workload.RunnerName(name), &rbacv1.Role{})
	w.binding = found(get, workload.RunnerName(name), &rbacv1.RoleBinding{})
	w.service = found(get, workload.ProxyName(name), &corev1.Service{})
	w.proxy = found(get, workload.ProxyName(name), &appsv1.Deployment{})
	if kinds.Of(server).Backend {
		w.backend = found(get, workload.BackendName(name), &appsv1.StatefulSet{})
		w.calls = found(get, workload.BackendName(name), &corev1.Service{})
		w.names = found(get, workload.HeadlessName(name), &corev1.Service{})
		w.policy = found(get, workload.BackendName(name), &networkingv1.NetworkPolicy{})
	}
	if err != nil {
		return world{}, err
	}
	w.ownBackend = w.backend != nil && metav1.IsControlledBy(w.backend, server)
	w.ownPolicy = w.policy != nil && metav1.IsControlledBy(w.policy, server)
	return w, w.list(ctx, reader, server)
}

// rendered is the object that is rendered: server is a form of it.
func (w *world) rendered(server *v1alpha1.MCPServer) kinds.Object {
	if w.object != nil {
		return w.object
	}
	return server
}

func found[T client.Object](get func(string, client.Object) bool, name string, obj T) T {
	var none T
	if !get(name, obj) {
		return none
	}
	return obj
}

func (w *world) list(ctx context.Context, reader client.Reader, server *v1alpha1.MCPServer) error {
	ours := []client.ListOption{client.InNamespace(server.Namespace), client.MatchingLabels{workload.LabelServer: kinds.Key(server)}}
	configs, pods := &metav1.PartialObjectMetadataList{}, &corev1.PodList{}
	configs.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := reader.List(ctx, configs, ours...); err != nil {
		return fmt.Errorf("listing run configs: %w", err)
	}
	if err := reader.List(ctx, pods, ours...); err != nil {
		return fmt.Errorf("listing pods: %w", err)
	}
	w.configs, w.pods = configs.Items, pods.Items
	// A cache lists in any order, and of two pods in trouble the first is named:
	// another one each time would be a write each time.
	slices.SortFunc(w.pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return nil
}

// config is the run config called name, nil if there is none.
func (w *world) config(name string) *metav1.PartialObjectMetadata {
	for i := range w.configs {
		if w.configs[i].Name == name {
			return &w.configs[i]
		}
	}
	return nil
}

// carriesConfig reports whether the proxy that stands has its run config in its pod
// template.
func (w *world) carriesConfig() bool { return podtemplate.Carries(w.proxy.Spec.Template.Annotations) }

// spare is how many run configs stay that no pod mounts, while a rollout goes on.
const spare = 5

// outdated are the run configs that no pod mounts or is about to, by number. It
// is below that of what is wanted: a higher one is of content that we do not
// know, whose pods are about to mount it. Ours is what we control and what has
// the name that its revision gives: a copy is not.
//
// While a rollout goes on a pod may still be made of any content that was wanted
// since the last one ended. The lowest stays, which is of what ran then, and a
// few of the others: a rollout may never end, whatever the spec is changed to.
func (w *world) outdated(server *v1alpha1.MCPServer, current revision.Revision) []*metav1.PartialObjectMetadata {
	if !current.Valid() {
		return nil
	}
	mounted := map[revision.Revision]bool{current: true, revisionOf(w.proxy): true}
	for i := range w.pods {
		if rev, err := revision.Of(w.pods[i].Annotations); err == nil {
			mounted[rev] = true
		}
	}
	lowest, numbers := current.Generation, map[string]int64{}
	var old []*metav1.PartialObjectMetadata
	for i := range w.configs {
		rev, err := revision.Of(w.configs[i].Annotations)
		below := err == nil && rev.Valid() && rev.Generation < current.Generation
		ours := metav1.IsControlledBy(&w.configs[i], server) && w.configs[i].Name == workload.RunConfigName(kinds.Key(server), rev)
		if !below || !ours {
			continue
		}
		lowest = min(lowest, rev.Generation)
		if !mounted[rev] {
			numbers[w.configs[i].Name] = rev.Generation
			old = append(old, &w.configs[i])
		}
	}
	if revisionOf(w.proxy) == current && (w.proxyRolledOut(current, false) || w.complete()) {
		return old
	}
	slices.SortFunc(old, func(a, b *metav1.PartialObjectMetadata) int {
		return cmp.Or(cmp.Compare(numbers[a.Name], numbers[b.Name]), cmp.Compare(a.Name, b.Name))
	})
	if len(old) > 0 && numbers[old[0].Name] == lowest {
		old = old[1:]
	}
	return old[:max(0, len(old)-spare)]
}

// complete reports whether all pods exist that the Deployment may have at once:
// then no ReplicaSet of an earlier revision is about to make one.
func (w *world) complete() bool {
	d := w.proxy
	if d.Spec.Replicas == nil || d.Status.ObservedGeneration < d.Generation {
		return false
	}
	surge, pods := 0, 0
	if rolling := d.Spec.Strategy.RollingUpdate; rolling != nil && rolling.MaxSurge != nil {
		var err error
		if surge, err = intstr.GetScaledValueFromIntOrPercent(rolling.MaxSurge, int(*d.Spec.Replicas), true); err != nil {
			return false
		}
	}
	for i := range w.pods {
		p := &w.pods[i]
		if p.Labels[workload.LabelComponent] == workload.ComponentProxy && p.DeletionTimestamp == nil && !hasEnded(p) {
			pods++
		}
	}
	return pods >= int(*d.Spec.Replicas)+surge
}

// proxyRolledOut reports whether every proxy pod that counts carries rev.
// While the Deployment's status is of before its last change, was stays true:
// other content would carry another revision, so it is scaled, or repaired.
func (w *world) proxyRolledOut(rev revision.Revision, was bool) bool {
	d := w.proxy
	switch {
	case d == nil || revisionOf(d) != rev:
		return false
	case d.Status.ObservedGeneration < d.Generation:
		return was
	}
	return d.Status.UpdatedReplicas == d.Status.Replicas
}

// backendRolledOut reports whether the backend carries rev, and every pod of
// it that counts runs what has hash. What was stays true as in proxyRolledOut.
func (w *world) backendRolledOut(rev revision.Revision, hash string, was bool) bool {
	s := w.backend
	switch {
	case s == nil || readable(s.Annotations) != rev || backendHash(s) != hash:
		return false
	case s.Status.ObservedGeneration < s.Generation:
		return was
	}
	// A pod that is ending counts as one, and as one of no revision. What was ready
	// has no pods of other content: Ready goes down before its number is claimed.
	return s.Status.CurrentRevision == s.Status.UpdateRevision && (was || s.Status.UpdatedReplicas == s.Status.Replicas)
}

package main

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// reference brings servers up as operators were written before server-side apply: get, compare, create or change, under
// an optimistic lock and with a retry on conflict. It changes only what it knows, and writes only where something
// differs. It makes the same objects as Freehold, from the same builders, with the same cache. It does not delete: no
// scenario asks it to.
type reference struct {
	client.Client
	live client.Reader
	// What exists is updated as a whole, or else merge-patched.
	updatesObjects, updatesStatus bool
}

// references are the references by subject. The first writes as most operators do, the others one way only.
func references() map[string]reference {
	return map[string]reference{
		"reference":        {updatesStatus: true},
		"reference-update": {updatesObjects: true, updatesStatus: true},
		"reference-patch":  {},
	}
}

// isReference reports whether a subject writes in an old way, for which it needs more rights.
func isReference(subject string) bool {
	_, is := references()[subject]
	return is || slices.Contains(rollers[1:], subject)
}

func runReference(ctx context.Context, config *rest.Config, s settings, ready func()) error {
	mgr, err := newManager(config, s)
	if err != nil {
		return err
	}
	r := references()[s.Subject]
	r.Client, r.live = mgr.GetClient(), mgr.GetAPIReader()
	err = ctrl.NewControllerManagedBy(mgr).For(&v1alpha1.MCPServer{}).
		Owns(&corev1.ServiceAccount{}).Owns(&rbacv1.Role{}).Owns(&rbacv1.RoleBinding{}).
		Owns(&corev1.Service{}).Owns(&corev1.ConfigMap{}).Owns(&appsv1.Deployment{}).Owns(&appsv1.StatefulSet{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: s.Workers}).
		Complete(&r)
	if err != nil {
		return fmt.Errorf("registering the reference: %w", err)
	}
	return start(ctx, mgr, ready)
}

// Reconcile is one pass over one server.
func (r *reference) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	server := &v1alpha1.MCPServer{}
	if err := r.Get(ctx, req.NamespacedName, server); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if server.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	if !controllerutil.ContainsFinalizer(server, contract.Finalizer) {
		before := server.DeepCopy()
		controllerutil.AddFinalizer(server, contract.Finalizer)
		return ctrl.Result{}, r.change(ctx, server, before)
	}
	rendered, content, err := contentOf(server, nil)
	if err != nil {
		return ctrl.Result{}, err
	}
	if w := server.Status.Workload; w == nil || w.Hash != content.Workload.Hash {
		return ctrl.Result{}, r.changeStatus(ctx, server, func(s *v1alpha1.MCPServerStatus) {
			s.Workload = claimed(s.Workload, content.Proxy.SessionSecret, content.Workload.Hash)
		})
	}
	children, err := childrenOf(server, rendered, content)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, child := range children {
		if err := r.ensure(ctx, child.object); err != nil {
			return ctrl.Result{}, fmt.Errorf("ensuring %T: %w", child.object, err)
		}
	}
	proxy, backend := &appsv1.Deployment{}, &appsv1.StatefulSet{}
	if err := r.seen(ctx, server, proxy, backend); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.scale(ctx, server, backend); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.changeStatus(ctx, server, report(server, proxy, backend))
}

// rights are what the reference needs beside Freehold's, which has no use for create and update.
func rights() *rbacv1.ClusterRole {
	verbs := []string{"get", "list", "watch", "create", "update", "patch"}
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "bench-reference"}, Rules: []rbacv1.PolicyRule{
		{
			APIGroups: []string{v1alpha1.SchemeGroupVersion.Group},
			Resources: []string{"mcpservers", "mcpservers/status", "mcpservers/finalizers"}, Verbs: verbs,
		},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts", "services", "configmaps"}, Verbs: verbs},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets"}, Verbs: verbs},
		{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"delete"}},
		{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"}, Verbs: verbs},
		// Only who may act as the operator gives pods its labels.
		{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{contract.IdentityMCPServer},
			Verbs: []string{"impersonate"},
		},
	}}
}

// change writes an object that was before.
func (r *reference) change(ctx context.Context, object, before client.Object) error {
	if r.updatesObjects {
		return r.Update(ctx, object)
	}
	return r.Patch(ctx, object, locked(before))
}

// locked is a merge patch that is refused if the object has moved.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

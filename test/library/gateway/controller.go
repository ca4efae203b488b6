package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/reconcile"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// Reconciler makes the world be as a Gateway says.
type Reconciler struct {
	reconcile.Core
	reader client.Reader
}

// Register adds the controller to a manager.
func Register(mgr ctrl.Manager, applier *apply.Applier) error {
	r := &Reconciler{reader: mgr.GetClient(), Core: reconcile.NewCore(applier, mgr.GetEventRecorder("freehold-gateway"), reconcile.Kind{
		GroupVersionKind: kind, ConditionsManager: Conditions, Conditions: []string{v1alpha1.ConditionReady},
		Expected: []string{v1alpha1.ReasonReady, v1alpha1.ReasonStarting}, Managers: []ownership.Manager{Workload, Conditions},
	})}
	build := ctrl.NewControllerManagedBy(mgr).For(&Gateway{})
	for _, child := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}, &corev1.Service{}, &appsv1.Deployment{}, config("")} {
		build.Watches(child, handler.EnqueueRequestsFromMapFunc(owner))
	}
	return build.Complete(r)
}

// owner is the gateway that an object belongs to, by label.
func owner(_ context.Context, obj client.Object) []ctrl.Request {
	name, suffix := workload.NameOf(obj.GetLabels()[workload.LabelServer])
	if suffix != "gw" {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

func config(name string) *metav1.PartialObjectMetadata {
	config := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	config.SetGroupVersionKind(contract.ConfigMap.GroupVersionKind)
	return config
}

// Reconcile is one pass over one gateway.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	gateway := &Gateway{}
	if err := r.reader.Get(ctx, req.NamespacedName, gateway); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	p, wait, err := r.Begin(ctx, gateway, gateway.Status.Conditions)
	if p == nil {
		return ctrl.Result{RequeueAfter: wait}, err
	}
	of := workload.Owner{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Resource: "gateways", Suffix: "gw",
		Namespace: gateway.Namespace, Name: gateway.Name, UID: gateway.UID,
	}
	run := runconfig.RunConfig{Version: runconfig.Version, Proxy: runconfig.Proxy{Port: 8000, Path: "/mcp"}}
	rendered := workload.RenderProxy(of, gateway.Spec.Proxy, run, podtemplate.Options{RunnerImage: "freehold.dev/runner:test"})
	if was := gateway.Status.Workload; was == nil || was.Hash != rendered.Hash {
		_, err := p.Apply(ctx, Workload, gateway, claim(gateway, rendered.Hash), apply.AtVersion)
		return p.End(ctx, err)
	}
	ready, applied := r.children(ctx, p, of, gateway, rendered)
	reported := p.Report(ctx, map[string]conditions.Finding{v1alpha1.ConditionReady: ready})
	return p.End(ctx, errors.Join(applied, reported))
}

// children applies what a gateway has, and says how it fares.
func (r *Reconciler) children(ctx context.Context, p *reconcile.Pass, of workload.Owner, gateway *Gateway, rendered workload.Rendered) (conditions.Finding, error) {
	rev := revision.Revision{Generation: gateway.Status.Workload.Generation, Hash: gateway.Status.Workload.Hash}
	runConfig, err := rendered.ConfigMap(rev.Generation)
	if err != nil {
		return conditions.Finding{}, err
	}
	deployment, err := rendered.Proxy(rev.Generation)
	if err != nil {
		return conditions.Finding{}, err
	}
	key, proxy := of.Key(), &appsv1.Deployment{}
	type child struct {
		manager ownership.Manager
		name    string
		live    client.Object
		ac      runtime.ApplyConfiguration
	}
	children := []child{
		{Children, workload.RunnerName(key), &corev1.ServiceAccount{}, workload.ServiceAccount(of)},
		{Rights, workload.RunnerName(key), &rbacv1.Role{}, workload.Role(of)},
		{Rights, workload.RunnerName(key), &rbacv1.RoleBinding{}, workload.RoleBinding(of)},
		{Children, workload.ProxyName(key), &corev1.Service{}, workload.ProxyService(of, gateway.Spec.Proxy)},
		{Children, workload.ProxyName(key), proxy, deployment},
	}
	if !rendered.Short() {
		children = slices.Insert(children, 0, child{Children, *runConfig.Name, config(*runConfig.Name), runConfig})
	}
	for _, child := range children {
		switch err := r.reader.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: child.name}, child.live); {
		case client.IgnoreNotFound(err) != nil:
			return conditions.Finding{}, err
		case err != nil:
			child.live = nil // a birth
		}
		standing, err := revision.Of(proxy.Annotations)
		if err != nil || child.live == client.Object(proxy) && revision.Gate(rev, true, standing) == revision.StandBack {
			return conditions.False(v1alpha1.ReasonUpdating, "newer content stands"), err
		}
		if _, err := p.Apply(ctx, child.manager, child.live, child.ac); err != nil {
			return conditions.False(v1alpha1.ReasonApplyFailed, err.Error()), err
		}
	}
	if proxy.Status.AvailableReplicas == 0 {
		return conditions.False(v1alpha1.ReasonStarting, "waiting for a proxy pod"), nil
	}
	return conditions.True(v1alpha1.ReasonReady, fmt.Sprintf("serves at %s", workload.URL(of, gateway.Spec.Proxy, ""))), nil
}

// intent states the claim of a gateway's content.
type intent struct {
	metav1ac.TypeMetaApplyConfiguration    `json:",inline"`
	*metav1ac.ObjectMetaApplyConfiguration `json:"metadata,omitempty"`
	Status                                 Status `json:"status"`
}

// IsApplyConfiguration makes it one.
func (*intent) IsApplyConfiguration() {}

func claim(gateway *Gateway, hash string) *intent {
	in := &intent{Status: Status{Workload: &v1alpha1.WorkloadStatus{Generation: 1, Hash: hash}}}
	if was := gateway.Status.Workload; was != nil {
		in.Status.Workload.Generation = was.Generation + 1
	}
	in.WithAPIVersion(kind.GroupVersion().String()).WithKind(kind.Kind)
	in.ObjectMetaApplyConfiguration = metav1ac.ObjectMeta().WithName(gateway.Name).WithNamespace(gateway.Namespace)
	return in
}

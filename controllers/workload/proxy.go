package workload

import (
	"cmp"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// Enough to look back one step; the way back is the spec of the MCPServer.
const oldRevisions = 2

// Proxy is the proxy's Deployment under a workload generation, with its run config if that is short. The error is
// podtemplate.Problems, or that of Content.Encode.
func (r Rendered) Proxy(generation int64) (*appsv1ac.DeploymentApplyConfiguration, error) {
	if err := podtemplate.AsError(r.Problems); err != nil {
		return nil, err
	}
	unavailable := intstr.FromInt32(0)
	if len(r.Content.NotEnforced) > 0 {
		unavailable = intstr.FromString("100%")
	}
	owner, rev := r.owner, revision.Revision{Generation: generation, Hash: r.Hash}
	config := podtemplate.RunConfig{Name: RunConfigName(owner.Key(), rev)}
	if r.short {
		text, err := r.Claimed(generation).Encode()
		if err != nil {
			return nil, err
		}
		config.Text = string(text)
	}
	return child(appsv1ac.Deployment(ProxyName(owner.Key()), owner.Namespace), owner, ComponentProxy).
		WithAnnotations(rev.Annotations()).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(r.replicas).
			WithRevisionHistoryLimit(oldRevisions).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(owner.Key(), ComponentProxy))).
			// One more, none less: a single proxy is replaced without a gap. But a proxy without a protection that is now
			// required stops before its successor starts.
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType(appsv1.RollingUpdateDeploymentStrategyType).
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxSurge(intstr.FromInt32(1)).
					WithMaxUnavailable(unavailable))).
			WithTemplate(podtemplate.AtRevision(r.proxy, config, rev))), nil
}

// ProxyReplicas is spec.proxy.replicas, else the release's, else 1. It is 0 for a server that is suspended, being
// deleted, or whose backend is scaled to zero: a proxy becomes ready only when it has reached a backend.
func ProxyReplicas(object kinds.Object, release int32) int32 {
	if kinds.BackendReplicas(object) == 0 || object.GetDeletionTimestamp() != nil {
		return 0
	}
	return ptr.Deref(ptr.Deref(object.GetProxySpec().Proxy, v1alpha1.ProxySpec{}).Replicas, cmp.Or(release, 1))
}

// ScaledProxy restates what the manager owns of the live Deployment with at most so many replicas. It stops a server
// whose spec cannot be rendered, and never starts a stopped one. live must be unmodified, with its managedFields. It is
// an error if the manager owns no pod template in it, because an apply without one would remove the rest. The metadata
// of the owner's objects is stated as configured: it is not content, and a policy of the cluster may require it.
func ScaledProxy(
	live *appsv1.Deployment, owner Owner, manager string, replicas int32,
) (*appsv1ac.DeploymentApplyConfiguration, error) {
	proxy, err := appsv1ac.ExtractDeploymentFrom(live, manager, "")
	if err != nil {
		return nil, fmt.Errorf("extracting what %s owns of Deployment %s: %w", manager, live.Name, err)
	}
	if proxy.Spec == nil || proxy.Spec.Template == nil {
		return nil, fmt.Errorf("extracting what %s owns of Deployment %s: no pod template", manager, live.Name)
	}
	proxy.Spec.WithReplicas(min(replicas, ptr.Deref(proxy.Spec.Replicas, replicas)))
	maps.DeleteFunc(proxy.Labels, isTheirs)
	maps.DeleteFunc(proxy.Annotations, isTheirs)
	return Described(proxy, owner.Metadata), nil
}

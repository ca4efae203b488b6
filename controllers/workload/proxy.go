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

// oldRevisions are enough to look back one step; the way back is the spec of the
// MCPServer.
const oldRevisions = 2

// Proxy is the Deployment of the proxy, under a workload generation, with its run config
// where that is short. The error is podtemplate.Problems, or that of Content.Encode.
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
			// One more, none less: a single proxy is replaced without a gap.
			// But what serves without a protection that is now asked for stops
			// before its successor starts.
			WithStrategy(appsv1ac.DeploymentStrategy().
				WithType(appsv1.RollingUpdateDeploymentStrategyType).
				WithRollingUpdate(appsv1ac.RollingUpdateDeployment().
					WithMaxSurge(intstr.FromInt32(1)).
					WithMaxUnavailable(unavailable))).
			WithTemplate(podtemplate.AtRevision(r.proxy, config, rev))), nil
}

// ProxyReplicas is spec.proxy.replicas, where it is unset the release's, where that is
// zero 1, and 0 for a server that is suspended or being deleted, or whose backend is
// scaled to zero: a proxy is ready once it has reached a backend.
func ProxyReplicas(object kinds.Object, release int32) int32 {
	if kinds.BackendReplicas(object) == 0 || object.GetDeletionTimestamp() != nil {
		return 0
	}
	return ptr.Deref(ptr.Deref(object.GetProxySpec().Proxy, v1alpha1.ProxySpec{}).Replicas, cmp.Or(release, 1))
}

// ScaledProxy states what the manager owns of the live Deployment, with so many
// replicas, or fewer where the manager states fewer. It is for a server whose spec cannot
// be rendered and yet has to be stopped; what was stopped is not started by it. The live object must be unmodified,
// with its managedFields; where the manager owns no pod template in it, that is an error, because applying
// the little that is left would take the rest away. What the objects of the owner carry is
// no content, and is as it is to be: a policy of the cluster may ask for it.
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

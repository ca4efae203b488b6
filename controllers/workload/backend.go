package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
)

// Backend is the StatefulSet of a slot, which runs the user's image. It never states replicas: whoever scales the
// server owns them. The StatefulSet carries the revision, its pods the hash of what they run. The error is
// podtemplate.Problems, those that Render found.
func Backend(run runconfig.RunConfig, slot Slot) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	return released.backend(run, slot)
}

func (r renderings) backend(run runconfig.RunConfig, slot Slot) (*appsv1ac.StatefulSetApplyConfiguration, error) {
	template, problems := r.template(run.Backend, Labels(run.Server.Name, slot.Component()))
	if err := podtemplate.AsError(problems); err != nil {
		return nil, err
	}
	claims, err := podtemplate.Claims(run.Backend.VolumeClaimTemplates)
	if err != nil {
		return nil, err
	}
	id, rev := run.Server, revision.Revision(run.Workload)
	set := child(appsv1ac.StatefulSet(slot.Name(id.Name), id.Namespace), OwnerIn(id), slot.Component()).
		WithAnnotations(rev.Annotations()).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithServiceName(slot.HeadlessName(id.Name)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(id.Name, slot.Component()))).
			// Parallel, because a stuck pod 0 would otherwise hold back the pods that replace it.
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().
				WithType(appsv1.RollingUpdateStatefulSetStrategyType)).
			WithRevisionHistoryLimit(oldRevisions).
			WithTemplate(podtemplate.Stated(template).
				WithAnnotations(map[string]string{AnnotationBackendHash: run.Rendering.Backend})).
			WithVolumeClaimTemplates(claims...))
	if when := run.Backend.ClaimsWhenDeleted; when != "" {
		set.Spec.WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
			WithWhenDeleted(appsv1.PersistentVolumeClaimRetentionPolicyType(when)))
	}
	return set, nil
}

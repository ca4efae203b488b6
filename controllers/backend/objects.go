package backend

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// statefulSet renders the backend's StatefulSet once, because the run config never changes. The error is
// podtemplate.Problems: the operator renders content before it claims it, so only a runner and an operator of
// different versions disagree.
func (r *Runner) statefulSet(w snapshot) (child, error) {
	if r.rendered == nil {
		rendered, err := workload.Backend(r.Run, workload.Slot1)
		if err != nil {
			return child{}, err
		}
		r.rendered = rendered
	}
	// Copied as deep as the next lines write.
	intent, spec, template, pod := *r.rendered, *r.rendered.Spec, *r.rendered.Spec.Template, *r.rendered.Spec.Template.Spec
	intent.Spec, spec.Template, template.Spec = &spec, &template, &pod
	meta := *intent.ObjectMetaApplyConfiguration
	meta.Labels, meta.Annotations = maps.Clone(meta.Labels), maps.Clone(meta.Annotations)
	intent.ObjectMetaApplyConfiguration = &meta
	workload.Described(&intent, workload.RunnersObjects(w.owner))
	o := child{kind: "StatefulSet", intent: &intent}
	if w.statefulSet != nil {
		o.live = w.statefulSet
		podtemplate.ClearHostNamespaces(intent.Spec.Template, w.statefulSet.Spec.Template.Spec)
	}
	return o, nil
}

// Start identifies one start of the backend: its facts hold while it stays the same.
type Start struct {
	UID      types.UID
	Revision string
}

// hasContent reports whether the backend's pods should run this runner's content, whichever revision the StatefulSet
// carries.
func (r *Runner) hasContent(s *appsv1.StatefulSet) bool {
	return s != nil && s.Spec.Template.Annotations[workload.AnnotationBackendHash] == r.Run.Rendering.Backend
}

// content identifies what all backend pods run, whoever wrote it; empty during a rollout.
func (r *Runner) content(w snapshot) string {
	switch s := w.statefulSet; {
	case r.Run.Remote != nil:
		return r.mine().Hash
	case s == nil || s.Status.ObservedGeneration < s.Generation || s.Status.UpdatedReplicas != s.Status.Replicas:
		return ""
	default:
		return string(s.UID) + "/" + s.Status.UpdateRevision
	}
}

// started is the start of the backend with this runner's content, zero until all pods have one revision and one is
// ready. New content of the proxy alone does not change it.
func (r *Runner) started(s *appsv1.StatefulSet) Start {
	if s == nil || s.Status.ObservedGeneration < s.Generation || s.Status.UpdatedReplicas != s.Status.Replicas ||
		s.Status.ReadyReplicas == 0 {
		return Start{}
	}
	if !r.hasContent(s) {
		return Start{}
	}
	return Start{UID: s.UID, Revision: s.Status.UpdateRevision}
}

// services are the Service that the proxy calls, and the one that names each pod.
func (r *Runner) services(w snapshot) []child {
	meta := workload.RunnersObjects(w.owner)
	service, headless := r.service("Service", workload.BackendService, meta),
		r.service("headless Service", workload.HeadlessService, meta)
	if w.service != nil {
		service.live = w.service
	}
	if w.headless != nil {
		headless.live = w.headless
	}
	return []child{service, headless}
}

func (r *Runner) service(
	kind string, build func(runconfig.RunConfig, workload.Slot) *corev1ac.ServiceApplyConfiguration,
	meta podtemplate.Metadata,
) child {
	return child{
		kind: kind, intent: workload.Described(build(r.Run, workload.Slot1), meta),
		atRevision: func(rev revision.Revision) runtime.ApplyConfiguration {
			run := r.Run
			run.Workload = runconfig.Workload(rev)
			return workload.Described(build(run, workload.Slot1), meta)
		},
	}
}

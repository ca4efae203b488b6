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

// statefulSet is the backend's StatefulSet. It is rendered once, because the run
// config never changes. The error is podtemplate.Problems: the operator renders
// content before it claims a number for it, so only a runner and an operator of
// different versions disagree about that.
func (r *Runner) statefulSet(w snapshot) (child, error) {
	if r.rendered == nil {
		rendered, err := workload.Backend(r.Run)
		if err != nil {
			return child{}, err
		}
		r.rendered = rendered
	}
	// A copy as far down as the next lines write.
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

// Start names one start of the backend: as long as it is the same, so is what
// the backend says about itself.
type Start struct {
	UID      types.UID
	Revision string
}

// hasContent reports whether the backend's pods are to run this runner's content,
// whichever revision the StatefulSet carries.
func (r *Runner) hasContent(s *appsv1.StatefulSet) bool {
	return s != nil && s.Spec.Template.Annotations[workload.AnnotationBackendHash] == r.Run.Rendering.Backend
}

// content names what all pods of the backend run, whoever wrote it; empty while it is being replaced.
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

// started is the start of the backend that has this runner's content, zero
// until all its pods are of one revision and one of them is ready. Content of
// the proxy alone leaves it as it is.
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

// services are where the proxy calls, and what names each backend pod.
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
	kind string, build func(runconfig.RunConfig) *corev1ac.ServiceApplyConfiguration, meta podtemplate.Metadata,
) child {
	return child{
		kind: kind, intent: workload.Described(build(r.Run), meta),
		atRevision: func(rev revision.Revision) runtime.ApplyConfiguration {
			run := r.Run
			run.Workload = runconfig.Workload(rev)
			return workload.Described(build(run), meta)
		},
	}
}

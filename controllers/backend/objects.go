package backend

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// rendering is what a StatefulSet is rendered from: content in a slot, at a revision.
type rendering struct {
	slot    workload.Slot
	content string
	rev     revision.Revision
}

// statefulSet renders a slot's StatefulSet once, because content never changes. The error is podtemplate.Problems: the
// operator renders content before it claims it, so only a runner and an operator of different versions disagree.
func (r *Runner) statefulSet(w snapshot, slot workload.Slot, run runconfig.RunConfig) (child, error) {
	of := rendering{slot, run.Rendering.Backend, revision.Revision(run.Workload)}
	rendered, before := r.rendered[of]
	if !before {
		var err error
		if rendered, err = workload.Backend(run, slot); err != nil {
			return child{}, err
		}
		if r.rendered == nil {
			r.rendered = map[rendering]*appsv1ac.StatefulSetApplyConfiguration{}
		}
		maps.DeleteFunc(r.rendered, func(other rendering, _ *appsv1ac.StatefulSetApplyConfiguration) bool {
			return other.slot == slot
		})
		r.rendered[of] = rendered
	}
	// Copied as deep as the next lines write.
	intent, spec, template, pod := *rendered, *rendered.Spec, *rendered.Spec.Template, *rendered.Spec.Template.Spec
	intent.Spec, spec.Template, template.Spec = &spec, &template, &pod
	meta := *intent.ObjectMetaApplyConfiguration
	meta.Labels, meta.Annotations = maps.Clone(meta.Labels), maps.Clone(meta.Annotations)
	intent.ObjectMetaApplyConfiguration = &meta
	workload.Described(&intent, workload.RunnersObjects(w.owner))
	o := child{kind: kindStatefulSet, intent: &intent}
	set := w.slots[slot].statefulSet
	if workload.AsksProxies(&pod) {
		sum, err := r.proxySum(slot, set, run.Rendering.Backend)
		if err != nil {
			return child{}, err
		}
		if sum != "" { // an empty value would be written each time: none is kept
			workload.StateProxySum(&pod, sum)
		}
	}
	if set != nil {
		o.live = set
		podtemplate.ClearHostNamespaces(intent.Spec.Template, set.Spec.Template.Spec)
	}
	return o, nil
}

// Start identifies one start of the backend: its facts hold while it stays the same.
type Start struct {
	UID      types.UID
	Revision string
	// Content is the hash of what runs, empty for a server that runs elsewhere.
	Content string
	// Rollout is the id of the rollout whose candidate it is, empty where it gets the calls.
	Rollout string
	// Dropped is how often what a candidate said was dropped, since its pods were not ready: it is asked anew each time.
	Dropped int
}

// rolledOut reports whether all pods of a StatefulSet are of its template.
func rolledOut(s *appsv1.StatefulSet) bool {
	return s != nil && s.Status.ObservedGeneration >= s.Generation && s.Status.UpdatedReplicas == s.Status.Replicas
}

// started is the start of a backend with this content, zero until all pods have one revision and one is ready. New
// content of the proxy alone does not change it.
func started(s *appsv1.StatefulSet, content string) Start {
	if !rolledOut(s) || s.Status.ReadyReplicas == 0 ||
		s.Spec.Template.Annotations[workload.AnnotationBackendHash] != content {
		return Start{}
	}
	return Start{UID: s.UID, Revision: s.Status.UpdateRevision, Content: content}
}

// services are the Service of a slot that the proxy calls, and the one that names each pod.
func (r *Runner) services(w snapshot, slot workload.Slot, run runconfig.RunConfig) []child {
	meta, stands := workload.RunnersObjects(w.owner), w.slots[slot]
	service := func(
		kind string, live *corev1.Service,
		build func(runconfig.RunConfig, workload.Slot) *corev1ac.ServiceApplyConfiguration,
	) child {
		o := child{
			kind: kind, intent: workload.Described(build(run, slot), meta),
			atRevision: func(rev revision.Revision) runtime.ApplyConfiguration {
				at := run
				at.Workload = runconfig.Workload(rev)
				return workload.Described(build(at, slot), meta)
			},
		}
		if live != nil {
			o.live = live
		}
		return o
	}
	return []child{
		service(kindService, stands.service, workload.BackendService),
		service(kindHeadless, stands.headless, workload.HeadlessService),
	}
}

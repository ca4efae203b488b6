package backend

import (
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// services are where the proxy calls, and what names each backend pod.
func (r *Runner) services(w world) []object {
	service, headless := r.service("Service", workload.BackendService), r.service("headless Service", workload.HeadlessService)
	if w.service != nil {
		service.live = w.service
	}
	if w.headless != nil {
		headless.live = w.headless
	}
	return []object{service, headless}
}

func (r *Runner) service(kind string, build func(runconfig.RunConfig) *corev1ac.ServiceApplyConfiguration) object {
	return object{kind: kind, intent: build(r.Run), under: func(rev revision.Revision) runtime.ApplyConfiguration {
		run := r.Run
		run.Workload = runconfig.Workload(rev)
		return build(run)
	}}
}

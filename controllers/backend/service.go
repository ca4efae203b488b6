package backend

import "github.com/freehold-dev/freehold/controllers/workload"

// services are where the proxy calls, and what names each backend pod.
func (r *Runner) services(w world) []object {
	service := object{kind: "Service", intent: workload.BackendService(r.Run)}
	if w.service != nil {
		service.live = w.service
	}
	headless := object{kind: "headless Service", intent: workload.HeadlessService(r.Run)}
	if w.headless != nil {
		headless.live = w.headless
	}
	return []object{service, headless}
}

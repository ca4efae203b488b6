package reconcile

import (
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Log has each line of a pass name the controller, and the object by the keys that
// the runner's log has: namespace, and what the object is called, as server.
func (Core) Log(mgr ctrl.Manager, controller, called string) func(*ctrl.Request) logr.Logger {
	log := mgr.GetLogger().WithValues("controller", controller)
	return func(request *ctrl.Request) logr.Logger {
		if request == nil {
			return log
		}
		return log.WithValues("namespace", request.Namespace, called, request.Name)
	}
}

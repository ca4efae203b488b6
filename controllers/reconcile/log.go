package reconcile

import (
	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Log returns a logger whose lines name the controller and the object, by the keys of the runner's log: namespace,
// and called, such as server.
func (Core) Log(mgr ctrl.Manager, controller, called string) func(*ctrl.Request) logr.Logger {
	log := mgr.GetLogger().WithValues("controller", controller)
	return func(request *ctrl.Request) logr.Logger {
		if request == nil {
			return log
		}
		return log.WithValues("namespace", request.Namespace, called, request.Name)
	}
}

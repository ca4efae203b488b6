package reconcile

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// logging is a manager that has a log.
type logging struct {
	ctrl.Manager
	log logr.Logger
}

func (m logging) GetLogger() logr.Logger { return m.log }

func TestTheLinesOfAPassNameItsObject(t *testing.T) {
	var out strings.Builder
	mgr := logging{log: logr.FromSlogHandler(slog.NewTextHandler(&out, nil))}
	log := Core{}.Log(mgr, "mcpserver", "server")
	log(&ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "team", Name: "echo"}}).Info("refused")
	log(nil).Info("starting")
	for _, want := range []string{
		"msg=refused controller=mcpserver namespace=team server=echo\n",
		"msg=starting controller=mcpserver\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, out.String())
		}
	}
}

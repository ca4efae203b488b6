package mcpserver

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// takenBack counts writes, not fields.
var takenBack = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "freehold_fields_taken_back_total",
	Help: "Writes that took back fields which somebody had changed, by kind of object.",
}, []string{"kind"})

func init() { metrics.Registry.MustRegister(takenBack) }

// put writes as a manager, and tells who had changed what it takes back, who had
// what it takes over, and what admission makes of it.
func (r *Reconciler) put(ctx context.Context, server *v1alpha1.MCPServer, manager ownership.Manager, live client.Object, ac runtime.ApplyConfiguration, opts ...apply.Option) (apply.Outcome, error) {
	done, err := r.applier.As(manager).Put(ctx, live, ac, opts...)
	if err == nil && done.TakenBack != nil {
		takenBack.WithLabelValues(done.TakenBack.Object.Kind).Inc()
		r.event(server, corev1.EventTypeWarning, "FieldsTakenBack", "Repair", done.TakenBack.String()+"; set back")
	}
	if err == nil && done.TakenOver != nil {
		note := "took over " + done.TakenOver.String()
		if slices.Contains(done.TakenOver.From, ownership.BeforeFirstApply) {
			note += ", because its metadata.managedFields were reset; what a manifest drops before it is applied again stays: remove it with kubectl edit"
		}
		r.event(server, corev1.EventTypeNormal, "FieldsTakenOver", "Adopt", note)
	}
	if err == nil && done.Rewritten != nil {
		r.event(server, corev1.EventTypeNormal, "FieldsRewritten", "Apply", "admission of this cluster changes what Freehold applies to "+
			done.Rewritten.String()+"; Freehold keeps what admission makes of it")
	}
	r.dueIn(server, done.Again)
	return done, err
}

// dueIn notes when the server's next pass is due though nothing happens, the
// soonest of several; 0 is never.
func (r *Reconciler) dueIn(server *v1alpha1.MCPServer, after time.Duration) {
	if after > 0 {
		r.due.Add(server.UID, apply.Soonest(r.dueOf(server), after))
	}
}

func (r *Reconciler) dueOf(server *v1alpha1.MCPServer) time.Duration {
	noted, _ := r.due.Get(server.UID)
	after, _ := noted.(time.Duration)
	return after
}

// contests are those over fields of the server and its children, and how long
// they will be remembered.
func (r *Reconciler) contests(server *v1alpha1.MCPServer) ([]apply.Contest, time.Duration) {
	return r.applier.Contests(server.Namespace, func(c apply.Contest) bool { return isOf(server.Name, c) })
}

// isOf reports whether a contest is over the server or one of its children.
func isOf(server string, c apply.Contest) bool {
	switch c.Object.Kind {
	case contract.MCPServer.Kind:
		return c.Key.Name == server
	case contract.ConfigMap.Kind:
		return workload.IsRunConfigName(server, c.Key.Name)
	}
	return slices.Contains([]string{
		workload.RunnerName(server), workload.ProxyName(server), workload.BackendName(server), workload.HeadlessName(server),
	}, c.Key.Name)
}

// contended says who fights for fields of this server, in the runner's words for
// the backend's objects, which are the runner's.
func contended(server *v1alpha1.MCPServer, w world) *conditions.Finding {
	told := meta.FindStatusCondition(server.Status.Conditions, v1alpha1.ConditionBackendApplied)
	ofBackend := told != nil && told.Reason == v1alpha1.ReasonContended
	var f conditions.Finding
	switch {
	case len(w.contests) > 0:
		f = conditions.Contended(w.contests)
		if ofBackend {
			f.Message += "; and of the backend: " + told.Message
		}
	case ofBackend:
		f = conditions.True(v1alpha1.ReasonContended, told.Message)
	default:
		return nil
	}
	return &f
}

// announceContest tells once that a fight has begun.
func (r *Reconciler) announceContest(server *v1alpha1.MCPServer, found map[string]conditions.Finding) {
	f, goes := found[v1alpha1.ConditionFieldsContended]
	if goes && !meta.IsStatusConditionTrue(server.Status.Conditions, v1alpha1.ConditionFieldsContended) {
		r.event(server, corev1.EventTypeWarning, "FieldsContended", "Repair", f.Message)
	}
}

// unfought is err without the fights in it, which have a condition of their own
// and refuse nothing.
func unfought(err error) error {
	return errors.Join(slices.DeleteFunc(apply.Parts(err), func(e error) bool {
		var fought *apply.Fought
		return errors.As(e, &fought)
	})...)
}

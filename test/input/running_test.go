package input

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers"
	"github.com/freehold-dev/freehold/controllers/backend"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
	"github.com/freehold-dev/freehold/test/kit"
)

// runningEnv is a namespace in which the real operator runs, and one server that is ready.
type runningEnv struct {
	*kit.Env
	name    string
	version string
	server  *v1alpha1.MCPServer
}

// runningServer starts an operator in a namespace of its own, and a server called good, whose spec has more.
func runningServer(t *testing.T, more string) *runningEnv {
	t.Helper()
	s := newEnv(t)
	s.Operate()
	r := &runningEnv{Env: s, name: "good"}
	s.Apply(git, kit.Server(r.name, goodImage, more))
	r.run()
	r.rest()
	return r
}

// run does once what the runner in the proxy pod does: it applies the backend
// and reports. The test's pods only pretend to run.
func (r *runningEnv) run() {
	r.Helper()
	proxy := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: workload.ProxyName(r.name)}}
	r.Await(proxy, "the proxy is available",
		func() error { return none(proxy.Status.AvailableReplicas > 0, "a proxy pod") })
	decoded, err := kit.RunConfig(r.Ctx, r.Client, r.Namespace, proxy.Spec.Template.Spec.Volumes,
		proxy.Spec.Template.Annotations)
	r.Must(err, "reading the run config")
	rev, err := revision.Of(proxy.Spec.Template.Annotations)
	r.Must(err, "reading the revision")
	runner := &backend.Runner{
		Reader: r.Client, Live: r.Client, Applier: controllers.NewApplier(r.Client, r.Client),
		Run: decoded, Env: rev,
	}
	runner.Learn(backend.Facts{Answers: kit.Answers})
	sts := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: workload.BackendName(r.name)}}
	for range 3 { // applying, then reporting what came of it
		_, err := runner.Pass(r.Ctx)
		r.Must(err, "a pass of the runner")
		r.Await(sts, "the backend is ready", func() error { return none(sts.Status.ReadyReplicas > 0, "a backend pod") })
	}
}

// rest waits until all has been said about the server, and remembers it.
func (r *runningEnv) rest() {
	r.Helper()
	live := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: r.name}}
	r.Await(live, "the server is ready and all is said", func() error {
		c := meta.FindStatusCondition(live.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != live.Generation:
			return fmt.Errorf("Ready is %+v", c)
		case live.Status.URL == "" || live.Status.ReadyReplicas == nil || *live.Status.ReadyReplicas != 1:
			return fmt.Errorf("its counts are not there")
		}
		return nil
	})
	r.server, r.version = live, live.ResourceVersion
}

func none(there bool, what string) error {
	if !there {
		return fmt.Errorf("there is not %s", what)
	}
	return nil
}

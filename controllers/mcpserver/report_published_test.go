package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/routes"
)

// routed asks for an HTTPRoute, in a cluster about whose HTTPRoutes something is known.
func routed(known routes.State) edit {
	return func(s *scene) {
		s.server.Spec.Proxy = &v1alpha1.ProxySpec{HTTPRoute: &v1alpha1.ProxyHTTPRoute{
			ParentRefs: []v1alpha1.RouteParent{{Name: "public"}}, Hostnames: []string{"mcp.example.com"},
		}}
		s.world.Routes = known
	}
}

// unrouted asks for none any more.
func unrouted(s *scene) { s.server.Spec.Proxy = nil }

// route is the server's HTTPRoute, which the Gateway has accepted.
func route(s *scene) {
	s.world.Route = &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`{metadata: {name: echo-proxy, generation: 1}, status: {parents: [{
		parentRef: {name: public}, conditions: [{type: Accepted, status: "True", observedGeneration: 1}]}]}}`),
		&s.world.Route.Object)
	if err != nil {
		panic(err)
	}
	s.world.Route.SetOwnerReferences([]metav1.OwnerReference{{UID: "uid", Controller: new(true)}})
}

// serviceOf has somebody's Service under the name of the proxy's, or nobody's.
func serviceOf(uid types.UID) edit {
	return func(s *scene) {
		s.world.Service = of(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "echo-proxy"}}, uid)
		if uid == "" {
			s.world.Service = free(s.world.Service)
		}
	}
}

func TestPublished(t *testing.T) {
	taken := func(s *scene) {
		condition(v1alpha1.ConditionPublished, metav1.ConditionTrue, v1alpha1.ReasonRouteTaken, "of before")(s)
		s.server.Status.Conditions[len(s.server.Status.Conditions)-1].ObservedGeneration = s.server.Generation
	}
	next := func(s *scene) { s.server.Generation++ }
	const unknown = "Unknown RouteNotTaken: "
	const noMore = unknown + "the spec asks for no HTTPRoute any more, and "
	failed := func(err error) report.Routed { return report.Routed{Err: err} }
	for name, tc := range map[string]struct {
		scene  scene
		routed report.Routed
		want   string
	}{
		"no field": {up(), report.Routed{}, ""},
		"taken":    {up(routed(routes.Served), route), report.Routed{}, "True RouteTaken: clients call https://mcp"},
		"written just now": {
			up(routed(routes.Served), route), report.Routed{Written: true}, unknown + "HTTPRoute echo-proxy has no answer",
		},
		"asked for":                 {up(routed(routes.Pending)), report.Routed{}, ""},
		"asked for after a restart": {up(routed(routes.Pending), taken), report.Routed{}, "True RouteTaken: of before"},
		"asked for after a new host": {
			up(routed(routes.Pending), taken, next), report.Routed{}, unknown + "the operator has begun",
		},
		"no right":                 {up(routed(routes.Forbidden)), report.Routed{}, unknown + "the operator may not read"},
		"no answer of the cluster": {up(routed(routes.Unread)), report.Routed{}, unknown + "the operator cannot read"},
		"beside another's Service": {
			up(routed(routes.Served), serviceOf("b")),
			report.Routed{},
			"False NameTaken: no HTTPRoute leads to Service echo-proxy",
		},
		"the kind went":        {up(routed(routes.Served)), failed(apply.ErrGone), "False HTTPRouteNotServed: "},
		"another's":            {up(routed(routes.Served)), failed(apply.ErrForeign), "False NameTaken: "},
		"a webhook that fails": {up(routed(routes.Served)), failed(errors.New("webhook")), "False ApplyFailed: webhook"},
		"a race":               {up(routed(routes.Served), route), failed(apply.ErrStale), "True RouteTaken: "},

		"no field, and no Gateway API": {up(taken), report.Routed{}, ""},
		"no field, being looked for":   {up(routed(routes.Pending), unrouted, taken), report.Routed{}, noMore + "whether"},
		"no field, and no right": {
			up(routed(routes.Forbidden), unrouted, taken),
			report.Routed{},
			noMore + "whether there is one of before is not known: the operator may not",
		},
		"no field, and a route": {
			up(routed(routes.Served), unrouted, taken, route), report.Routed{}, noMore + "the one",
		},
		"no field, and none is left": {up(routed(routes.Served), unrouted, taken), report.Routed{}, ""},
	} {
		got := ""
		if f := report.Published(tc.scene.snap(), tc.routed); f != nil {
			got = fmt.Sprintf("%s %s: %s", f.Status, f.Reason, f.Message)
		}
		if (got == "") != (tc.want == "") || !strings.HasPrefix(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// A route that may remain is looked for again, and none leads to another's Service.
func TestTheRouteOfAPlan(t *testing.T) {
	said := condition(v1alpha1.ConditionPublished, metav1.ConditionUnknown, v1alpha1.ReasonRouteNotTaken, "")
	for name, tc := range map[string]struct {
		scene          scene
		applied, gone  bool
		looksAgainSoon bool
	}{
		"wanted":                    {up(routed(routes.Served)), true, false, false},
		"wanted where none is":      {up(routed(routes.NotServed)), false, false, true},
		"wanted where none is read": {up(routed(routes.Forbidden)), false, false, true},
		"beside our Service":        {up(routed(routes.Served), serviceOf("uid")), true, false, false},
		"beside another's":          {up(routed(routes.Served), serviceOf("b")), false, false, false},
		"before another's":          {up(routed(routes.Served), serviceOf("b"), route), false, true, false},
		"before one of nobody":      {up(routed(routes.Served), serviceOf(""), route), false, false, false},
		"no more":                   {up(routed(routes.Served), unrouted, route), false, true, false},
		"no more, and unread":       {up(routed(routes.Unread), unrouted, said), false, false, true},
		"never, and unread":         {up(routed(routes.Unread), unrouted), false, false, false},
		"no more, and no kind":      {up(routed(routes.NotServed), unrouted, said), false, false, false},
	} {
		made := tc.scene.plan()
		again := made.Wake == snapshot.RecheckRoutes
		if applied, gone := len(actions[plan.ApplyRoute](made)) > 0, len(actions[plan.RemoveRoute](made)) > 0; applied !=
			tc.applied || gone != tc.gone || again != tc.looksAgainSoon {
			t.Errorf("%s: applied %t, removed %t, looked at again %s", name, applied, gone, made.Wake)
		}
	}
}

// What keeps an HTTPRoute from being written is said of it alone: the pass ends well, so what else is refused is tried
// again as soon as before, and the route once a minute.
func TestObjects_ARefusedHTTPRouteMakesNothingElseWait(t *testing.T) {
	of := schema.GroupResource{Resource: "httproutes"}
	for _, tc := range []struct {
		refuses error
		again   time.Duration // after the first time, and then a minute
		reason  string
	}{
		{apierrors.NewForbidden(of, "echo-proxy", errors.New("no")), time.Minute, v1alpha1.ReasonApplyFailed},
		{apierrors.NewNotFound(of, "echo-proxy"), time.Minute, v1alpha1.ReasonHTTPRouteNotServed},
		{apierrors.NewInternalError(errors.New("webhook")), 10 * time.Second, v1alpha1.ReasonApplyFailed},
	} {
		r, s := settledWith(t, func(m *v1alpha1.MCPServer) { routed(routes.Served)(&scene{server: m}) })
		r.reader.Routes = servedRoutes(t)
		s.refuse = func(kind string) error {
			if kind == contract.HTTPRoute.Kind {
				return tc.refuses
			}
			return nil
		}
		for range 5 {
			result, err := r.Reconcile(t.Context(), theServer)
			if err != nil || result.RequeueAfter != tc.again {
				t.Errorf("%v: the pass ends with %v, and the route is tried again in %s", tc.refuses, err, result.RequeueAfter)
			}
			tc.again = time.Minute
		}
		said := meta.FindStatusCondition(read(s).Status.Conditions, v1alpha1.ConditionPublished)
		if said == nil || said.Status != metav1.ConditionFalse || said.Reason != tc.reason {
			t.Errorf("%v: it is said that %+v", tc.refuses, said)
		}
	}
}

// noRoutes is a cache of HTTPRoutes that holds none.
type noRoutes struct {
	cache.Cache
	cache.Informer
}

func (noRoutes) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c noRoutes) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return c, nil
}

func (noRoutes) AddEventHandler(toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	return nil, nil //nolint:nilnil // nobody looks at it
}
func (noRoutes) WaitForCacheSync(context.Context) bool { return true }
func (noRoutes) Start(context.Context) error           { return nil }

// servedRoutes are those of a cluster that serves HTTPRoutes, and has none.
func servedRoutes(t *testing.T) *routes.Source {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(contract.HTTPRoute.GroupVersionKind, meta.RESTScopeNamespace)
	source := routes.New(mapper, func(toolscache.WatchErrorHandlerWithContext) (cache.Cache, error) {
		return noRoutes{}, nil
	}, func(map[string]string) string { return "" }, time.Now)
	go source.Start(t.Context())
	for {
		if _, known := source.Get(t.Context(), client.ObjectKey{Name: "a"}, "a", true); known == routes.Served {
			return source
		}
		time.Sleep(time.Millisecond)
	}
}

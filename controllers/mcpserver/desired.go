package mcpserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/apis/runconfig"
	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// child is an object that is wanted, and what stands in its place.
type child struct {
	manager ownership.Manager
	live    client.Object
	ac      runtime.ApplyConfiguration
	// lost says that live is there, and that the server does not control it.
	lost bool
	// closes says that it protects what runs, whatever number that has.
	closes bool
}

// wanted is what a pass wants the world to be.
type wanted struct {
	// owner has what the release and the server say of all objects.
	owner    workload.Owner
	content  runconfig.RunConfig
	problems []podtemplate.Problem
	// reason is that of the problems, where nothing but references is wrong.
	reason string
	// configs and ownHash are what a claim records beside the revision.
	configs []v1alpha1.WorkloadConfig
	ownHash string
	// waitsFor is a configuration whose content it is not the server's turn to take: it
	// goes on with what it has of it.
	waitsFor *v1alpha1.WorkloadConfig
	// revision is the number that the content has or is to be given.
	revision revision.Revision
	// unclaimed are children whose number is none of this server's.
	unclaimed []string
	// identity is what the runner acts with, each resting on the one before.
	identity []child
	children []child
	proxy    *appsv1ac.DeploymentApplyConfiguration
	// kept says that proxy restates what stands, whatever its revision.
	kept bool
	// stopped says that it restates that without pods, because what stands does
	// not enforce what the spec asks for.
	stopped bool
	// byPods says that the proxy's strategy, or its number, depends on the pods that run.
	byPods bool
	// opens is the NetworkPolicy that is to go.
	opens *networkingv1.NetworkPolicy
	// unmatched are statements of spec.authzConfig that match no call.
	unmatched []string
}

// desired builds everything from the spec. It cannot fail: what cannot be
// rendered is a problem. Then nothing of the spec is wanted but the number of
// pods, and what stands stays as it is.
func desired(server *v1alpha1.MCPServer, w world, options podtemplate.Options) wanted {
	want := wanted{owner: workload.OwnerWith(server, options.Objects)}
	options.Configs = w.shared
	rendered := workload.Render(w.rendered(server), options)
	keeps := want.takesTurns(server, &w, &rendered, options)
	want.content, want.problems, want.unmatched, want.reason = rendered.Content, rendered.Problems, rendered.Unmatched, rendered.Reason
	want.ownHash = rendered.OwnHash
	if keeps {
		want.keep(server, w, options.ProxyReplicas)
		want.children = want.around(server, w)
		want.isolate(server, w, options)
		return want
	}
	if want.renderable() {
		if want.revision = revision.Next(w.revisions(server), rendered.Hash); want.revision.Generation > revision.MaxGeneration {
			want.refuse(revision.AnnotationGeneration, errors.New("this server has reached the highest workload generation: delete it and create it again, as docs/policies.md describes"))
		}
		want.content = rendered.Claimed(want.revision.Generation)
		want.record(server, w)
		want.unclaimed = w.unclaimed(server, want.revision)
		want.carry(server, w, rendered)
	}
	if !want.renderable() {
		want.keep(server, w, options.ProxyReplicas)
	}
	want.isolate(server, w, options)
	return want
}

// carry adds what carries the content.
func (want *wanted) carry(server *v1alpha1.MCPServer, w world, rendered workload.Rendered) {
	config, err := rendered.ConfigMap(want.revision.Generation)
	if err != nil {
		want.refuse("spec", err)
		return
	}
	proxy, err := rendered.Proxy(want.revision.Generation)
	if err != nil {
		want.refuse("spec", err)
		return
	}
	want.identity = want.actsWith(server, w)
	want.children = want.around(server, w)
	if !rendered.Short() {
		want.children = append(want.children, child{manager: kinds.Of(server).ChildrenManager, live: w.config(*config.Name), ac: config})
	}
	want.proxy = proxy
	want.stopFirst(w)
	want.grow(w, *proxy.Spec.Replicas)
}

// isolate wants the backend's NetworkPolicy before all that carries content, or wants
// ours to go. It depends on the spec and the release alone, so it goes out also where the spec cannot
// be rendered and content that was accepted before keeps running. What keeps running
// may then be guarded, though the spec is not, so none goes. One that the API server
// would refuse is not sent: what stands stays, until the problem in the spec is corrected.
func (want *wanted) isolate(server *v1alpha1.MCPServer, w world, options podtemplate.Options) {
	policy := workload.BackendNetworkPolicy(w.rendered(server), options)
	switch {
	case len(workload.CheckNetwork("spec.network", server.Spec.Network)) > 0:
	case policy == nil:
		if w.ownPolicy && want.renderable() {
			want.opens = w.policy
		}
	case want.renderable() || w.proxy != nil:
		want.children = slices.Concat([]child{{manager: kinds.Of(server).ChildrenManager, live: w.policy, ac: policy, closes: true}}, want.children)
	}
}

// around are the children that no content is in.
func (want *wanted) around(server *v1alpha1.MCPServer, w world) []child {
	return []child{{manager: kinds.Of(server).ChildrenManager, live: w.service, ac: workload.ProxyService(want.owner, server.Spec.Proxy)}}
}

// actsWith is what the runner needs to act. It depends on no field of the spec.
func (want *wanted) actsWith(server *v1alpha1.MCPServer, w world) []child {
	owner, kind := want.owner, kinds.Of(server)
	return []child{
		{manager: kind.ChildrenManager, live: w.account, ac: workload.ServiceAccount(owner), lost: lost(w.account, server)},
		{manager: kind.RightsManager, live: w.role, ac: workload.Role(owner), lost: lost(w.role, server)},
		{manager: kind.RightsManager, live: w.binding, ac: workload.RoleBinding(owner), lost: lost(w.binding, server)},
	}
}

func lost[T any, O interface {
	*T
	client.Object
}](live O, server *v1alpha1.MCPServer) bool {
	return live != nil && !metav1.IsControlledBy(live, server)
}

// keep wants the proxy that stands, in the number that the spec or the release says: a
// spec that cannot be rendered can still be suspended.
func (want *wanted) keep(server *v1alpha1.MCPServer, w world, release int32) {
	live := w.proxy
	want.revision, want.proxy = revisionOf(live), nil
	if live != nil || w.binding != nil {
		want.identity = want.actsWith(server, w) // also to withdraw it
	}
	if live == nil {
		return
	}
	replicas := workload.ProxyReplicas(server, release)
	if want.stopped = want.unguarded(w); want.stopped {
		replicas = 0 // what stands may serve what the spec no longer lets it
	}
	proxy, err := workload.ScaledProxy(live, want.owner, string(kinds.Of(server).ChildrenManager), replicas)
	if err != nil {
		want.refuse("spec", err)
		return
	}
	want.proxy, want.kept = proxy, true
	if want.renderable() {
		want.grow(w, replicas)
	}
}

func (want *wanted) refuse(field string, err error) {
	want.problems = append(want.problems, podtemplate.Problem{Field: field, Message: err.Error()})
}

// unguarded reports whether the proxy that stands may serve what the spec no
// longer lets it serve.
func (want *wanted) unguarded(w world) bool {
	return len(want.content.NotEnforced) > 0 || w.proxy != nil && !podtemplate.Guarded(w.proxy.Spec.Template.Annotations, want.content.Proxy)
}

// stopFirst lets a proxy that lacks a protection which is now asked for stop
// before its successor is ready, which may be never, and for as long as a pod of
// it runs.
func (want *wanted) stopFirst(w world) {
	open := want.unguarded(w)
	for i := range w.pods {
		p := &w.pods[i]
		serves := p.Labels[workload.LabelComponent] == workload.ComponentProxy && p.DeletionTimestamp == nil && !hasEnded(p)
		open = open || serves && !podtemplate.Guarded(p.Annotations, want.content.Proxy)
	}
	if open {
		want.proxy.Spec.Strategy.RollingUpdate.WithMaxUnavailable(intstr.FromString("100%"))
		want.byPods = true
	}
}

func (want *wanted) renderable() bool { return len(want.problems) == 0 }

// backendHash names what the backend's pods are to run.
func (want *wanted) backendHash() string { return want.content.Rendering.Backend }

// changes says what the wanted content makes anew, and for which configuration.
func (want *wanted) changes(server *v1alpha1.MCPServer, w world) string {
	if claimed := server.Status.Workload; claimed != nil && claimed.OwnHash == want.ownHash {
		for _, c := range want.configs {
			if c.InTurn && !slices.ContainsFunc(claimed.Configs, func(had v1alpha1.WorkloadConfig) bool {
				return had.Kind == c.Kind && had.Name == c.Name && had.Hash == c.Hash
			}) {
				return fmt.Sprintf("%s, because %s %q changed", want.replaces(w), c.Kind, c.Name)
			}
		}
	}
	return want.replaces(w)
}

func (want *wanted) replaces(w world) string {
	switch {
	case w.proxy == nil && w.object != nil && !kinds.Of(w.object).Backend:
		return "creates the proxy"
	case w.proxy == nil:
		return "creates the proxy and its backend"
	case backendHash(w.backend) != want.backendHash():
		return "replaces the pods of proxy and backend"
	}
	return "replaces the pods of the proxy"
}

// claimed reports whether the server's status carries the wanted revision.
func (want *wanted) claimed(server *v1alpha1.MCPServer) bool {
	s := server.Status.Workload
	return s != nil && want.revision == revision.Revision{Generation: s.Generation, Hash: s.Hash}
}

// clearHostNamespaces keeps the proxy's pods out of the node's namespaces, and names
// those that another manager had opened to them.
func (want *wanted) clearHostNamespaces(live *appsv1.Deployment) []string {
	if live == nil {
		return nil
	}
	return podtemplate.ClearHostNamespaces(want.proxy.Spec.Template, live.Spec.Template.Spec)
}

// scale states the backend's replicas, and nothing else of it.
func scale(server *v1alpha1.MCPServer, replicas int32) *appsv1ac.StatefulSetApplyConfiguration {
	return appsv1ac.StatefulSet(workload.BackendName(kinds.Key(server)), server.Namespace).
		WithSpec(appsv1ac.StatefulSetSpec().WithReplicas(replicas))
}

// hasByDefault reports whether a backend has so many replicas and no manager owns
// the number, as when the API server has set it at birth. Reading the fields as text
// costs a pass nothing, and where it finds too much the number is stated.
func hasByDefault(backend *appsv1.StatefulSet, replicas int32) bool {
	n := backend.Spec.Replicas
	return n != nil && *n == replicas && len(backend.ManagedFields) > 0 && !slices.ContainsFunc(backend.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource != "status" && strings.Contains(e.FieldsV1.GetRawString(), `"f:replicas"`)
	})
}

// backendReplicas is spec.replicas, 1 where it is unset, 0 while suspended.
func backendReplicas(server *v1alpha1.MCPServer) int32 {
	if server.Spec.Suspend {
		return 0
	}
	return ptr.Deref(server.Spec.Replicas, 1)
}

package plan

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
	"github.com/freehold-dev/freehold/controllers/podtemplate"
	"github.com/freehold-dev/freehold/controllers/revision"
	"github.com/freehold-dev/freehold/controllers/routes"
	"github.com/freehold-dev/freehold/controllers/workload"
)

// converge applies what stands around the proxy, then the proxy, carries the scale to the backend, and reports.
func (m *maker) converge() {
	group := &Plan{}
	if identity := m.identity(); identity != nil {
		group.always(ApplyIdentity{Children: identity})
	}
	if policy := m.policy(); policy != nil {
		group.always(ApplyChild{*policy})
	}
	if m.Phase != Invalid {
		group.always(ApplyChild{Child{
			Manager: m.s.Kind.ChildrenManager, Live: m.s.Service.Live,
			Intent: workload.ProxyService(m.owner, m.s.Object.GetProxySpec().Proxy),
		}})
	}
	switch {
	case m.kept != nil:
		group.always(*m.kept)
	case !m.Kept():
		m.content(group)
	}
	if stop := m.stop(); stop != nil {
		group.Steps = append(group.Steps, Step{*stop, Unsound})
	}
	// Also where the proxy was refused: each change of the spec has made one.
	for _, config := range m.s.OutdatedRunConfigs(m.Target) {
		group.always(RemoveRunConfig{config})
	}
	if m.Phase != Invalid && m.s.Policy().Ours() && !m.networkWrong() && m.network() == nil {
		group.always(RemovePolicy{Policy: m.s.Policy().Live})
	}
	m.always(Objects{group.Steps})
	m.route()
	if !m.Kept() {
		m.history()
	}
	for _, slot := range workload.Slots {
		backend := &m.s.Slots[slot].Backend
		if m.empties(slot) {
			continue
		}
		if replicas := m.backendReplicas(slot); backend.Ours() && m.drain == 0 && !hasByDefault(backend.Live, replicas) {
			m.always(ScaleBackend{backend.Live, replicas})
		}
	}
	for _, slot := range workload.Slots {
		if m.empties(slot) {
			m.always(EmptySlot{m.s.Slots[slot].Removable()})
		}
	}
	m.always(Report{})
}

// route applies the HTTPRoute by itself: nothing rests on it, so its refusal keeps nothing back. Where it cannot be
// read the cluster is asked again, also about one that is to go. None leads to a Service that is somebody else's.
func (m *maker) route() {
	intent := workload.ProxyHTTPRoute(m.owner, m.s.Object.GetProxySpec())
	switch {
	case m.Phase == Invalid:
	case m.s.Routes != routes.Served:
		if intent != nil || m.s.Routes != routes.NotServed && snapshot.MayHaveRoute(m.s.Object) {
			m.wake(snapshot.RecheckRoutes)
		}
	case intent != nil && !m.s.Service.Lost():
		m.always(ApplyRoute{Child{Manager: m.s.Kind.ChildrenManager, Live: m.s.Route.Live, Intent: intent}})
	// One that nothing controls is taken back where we wrote it, so a route to it stays.
	case m.s.Route.Ours() && (intent == nil || m.s.Service.Control == snapshot.Foreign):
		m.always(RemoveRoute{m.s.Route.Live})
	}
}

// content applies what carries the target, but where that is there as it is rendered, or must not be written over: the
// next pass claims a number above, or it is said what stands in the way.
func (m *maker) content(group *Plan) {
	if config := m.s.RunConfig(m.Target); !m.Digest.Short {
		name := m.named()
		if config == nil || m.s.RememberedAs[config.UID] != name {
			group.always(ApplyRunConfig{config, name})
		}
	}
	proxy, live := m.proxy(), m.s.Proxy()
	if !live.Exists() ||
		m.s.RememberedAs[live.Live.UID] != proxy.Name && revision.Gate(m.Target, true, live.Revision) != revision.StandBack {
		group.always(proxy)
	}
}

// named names what is rendered, of which a part is applied with these.
func (m *maker) named(with ...any) string { return fmt.Sprint(m.Digest.Key, m.Target, with) }

// Renders reports whether something is written that is rendered.
func (p *Plan) Renders() bool {
	return slices.ContainsFunc(p.Steps, func(step Step) bool {
		switch a := step.Action.(type) {
		case Objects:
			return (&Plan{Steps: a.Steps}).Renders()
		case ApplyProxy:
			return a.Kept == nil
		case ApplyRunConfig, StoreContent:
			return true
		}
		return false
	})
}

// fallBack is done where the claim is refused. Without its number the wanted content cannot go out, but what protects
// the content that runs does, rights that rest on what another writer has are withdrawn, the old content may have to
// stop, and why nothing moves is said.
func (m *maker) fallBack() {
	if policy := m.policy(); policy != nil {
		m.ifClaimRefused(ApplyChild{*policy})
	}
	if m.s.Binding.Exists() {
		m.ifClaimRefused(ApplyIdentity{Children: m.identity(), Untaken: true})
	}
	if stop := m.stop(); stop != nil {
		m.ifClaimRefused(*stop)
	}
	m.ifClaimRefused(Report{})
}

// identity is what the runner needs to act. It depends on no field of the spec, and on the contents that the status
// names: those that the runner keeps it may read, from the pass after their claim on, before a proxy of it starts.
// Where nothing runs that is kept it is wanted only to withdraw it.
func (m *maker) identity() []Child {
	if m.Kept() && !m.s.Proxy().Exists() && !m.s.Binding.Exists() {
		return nil
	}
	kind := m.s.Kind
	return []Child{
		{
			Manager: kind.ChildrenManager, Live: m.s.Account.Live, Intent: workload.ServiceAccount(m.owner),
			Lost: m.s.Account.Lost(),
		},
		{
			Manager: kind.RightsManager, Live: m.s.Role.Live, Intent: workload.Role(m.owner, m.keptContents()...),
			Lost: m.s.Role.Lost(),
		},
		{
			Manager: kind.RightsManager, Live: m.s.Binding.Live, Intent: workload.RoleBinding(m.owner),
			Lost: m.s.Binding.Lost(),
		},
	}
}

// keptContents are those that the runner of the target keeps. Of a spec that cannot be rendered nobody knows which
// content is its own.
func (m *maker) keptContents() []v1alpha1.BackendContent {
	server, is := m.s.Object.(*v1alpha1.MCPServer)
	if !is {
		return nil
	}
	status, own := server.Status, m.Digest.Backend
	switch m.Phase {
	case Invalid:
		own = ""
	case WaitingForConfig:
	default:
		status.Workload = &m.Claim
	}
	return workload.Kept(status, own)
}

// policy is the backend's NetworkPolicy, which goes out before all that carries content. It depends on the spec and
// the release alone, so it goes out also where the spec cannot be rendered and content that was accepted before keeps
// running. What keeps running may then be guarded, though the spec is not, so none goes. One that the API server
// would refuse is not sent: what stands stays, until the problem in the spec is corrected.
func (m *maker) policy() *Child {
	intent := m.network()
	if intent == nil || m.networkWrong() || m.Phase == Invalid && !m.s.Proxy().Exists() {
		return nil
	}
	return &Child{Manager: m.s.Kind.ChildrenManager, Live: m.s.Policy().Live, Intent: intent}
}

// proxy is the Deployment of the target. So many proxies are wanted as the spec says, or no more than there are as
// long as the Deployment controller would make others than those of the target. One that lacks a protection which is
// now asked for stops before its successor is ready, and for as long as a pod of it runs.
func (m *maker) proxy() ApplyProxy {
	a := ApplyProxy{
		Replicas: m.grow(workload.ProxyReplicas(m.s.Object, m.release.ProxyReplicas)), StopsFirst: m.open,
		Stands: m.s.Proxy().Revision == m.Target, Suspended: m.s.Object.GetProxySpec().Suspend,
	}
	for _, pod := range m.s.Pods.Of(workload.ComponentProxy, snapshot.Active) {
		a.StopsFirst = a.StopsFirst || !podtemplate.HasGuards(pod.Annotations, m.Digest.Guards)
	}
	a.Name = m.named(a.Replicas, a.StopsFirst)
	return a
}

// keep wants the proxy that stands, in the number that the spec or the release says: a
// spec that cannot be rendered can still be suspended. What may serve what the spec no longer lets it has no pods.
func (m *maker) keep() {
	proxy := m.s.Proxy()
	if m.Target = proxy.Revision; !proxy.Exists() {
		return
	}
	replicas := workload.ProxyReplicas(m.s.Object, m.release.ProxyReplicas)
	if m.open {
		replicas = 0
	}
	restated, err := workload.ScaledProxy(proxy.Live, m.owner, string(m.s.Kind.ChildrenManager), replicas)
	if err != nil {
		m.Phase, m.problems = Invalid, append(m.problems, podtemplate.Problem{Field: "spec", Message: err.Error()})
		return
	}
	if m.Phase == WaitingForConfig {
		restated.Spec.WithReplicas(m.grow(replicas))
	}
	m.kept = &ApplyProxy{
		Kept: restated, Replicas: *restated.Spec.Replicas, Stands: true, Suspended: m.s.Object.GetProxySpec().Suspend,
	}
}

// unguarded reports whether the proxy that stands may serve what the spec no longer lets it serve.
func (m *maker) unguarded() bool {
	proxy := m.s.Proxy()
	return len(m.Digest.NotEnforced) > 0 ||
		proxy.Exists() && !podtemplate.HasGuards(proxy.Live.Spec.Template.Annotations, m.Digest.Guards)
}

func (m *maker) stop() *StopProxy {
	proxy := m.s.Proxy()
	if !m.s.Object.GetProxySpec().Suspend && !m.open || !proxy.Exists() || proxy.Revision == m.Target {
		return nil
	}
	stopped, err := workload.ScaledProxy(proxy.Live, m.owner, string(m.s.Kind.ChildrenManager), 0)
	if err != nil {
		return nil // not built by us, or taken from us whole: then it is not ours to stop
	}
	return &StopProxy{proxy.Live, stopped}
}

// How many pods are asked for. A number that falls is stated at once. One that rises
// waits for the content: no pod is started of content that the spec has left.

// grow is so many proxies, or no more than there are as long as the Deployment
// controller would make others than those of the target.
func (m *maker) grow(replicas int32) int32 {
	if proxy := m.s.Proxy(); proxy.Exists() && !proxy.GrowsTo(m.Target) {
		return min(replicas, proxy.Replicas)
	}
	return replicas
}

// backendReplicas is how many replicas the backend in a slot is to have now. A StatefulSet makes pods of what it
// carries, and the runner of the target is what raises that, unless it leaves what serves alone. Nor are there more
// where the proxies of a spec that is wrong stay at zero. What has lost the calls keeps its size until its sessions
// have ended.
func (m *maker) backendReplicas(slot workload.Slot) int32 {
	backend, replicas, rollout := &m.s.Slots[slot].Backend, kinds.BackendReplicas(m.s.Object), m.s.Last.Rollout
	drains := slot != m.s.Active && rollout != nil && rollout.From != nil && slot == workload.Slot(rollout.From.Slot)
	switch {
	case m.restsAtZero():
	case drains && replicas > 0:
		return backend.Replicas
	case backend.Hash == m.Digest.Backend, slot == m.s.Active && m.isLeftAlone(backend):
		return replicas
	}
	return min(replicas, backend.Replicas)
}

// isLeftAlone reports whether no runner writes other content to the backend that gets the calls.
func (m *maker) isLeftAlone(backend *snapshot.Backend) bool {
	active, claim := m.s.Last.Active, m.s.Last.Claim
	return active != nil && backend.Hash == active.Hash &&
		claim != nil && claim.Strategy == v1alpha1.StrategySuccessive
}

func (m *maker) restsAtZero() bool { return m.kept != nil && m.kept.Replicas == 0 }

// hasByDefault reports whether a backend has so many replicas and no manager owns
// the number, as when the API server has set it at creation. Reading the fields as text
// costs a pass nothing, and where it finds too much the number is stated.
func hasByDefault(backend *appsv1.StatefulSet, replicas int32) bool {
	return ptr.Equal(backend.Spec.Replicas, &replicas) && len(backend.ManagedFields) > 0 &&
		!slices.ContainsFunc(backend.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Subresource != "status" && strings.Contains(e.FieldsV1.GetRawString(), `"f:replicas"`)
		})
}

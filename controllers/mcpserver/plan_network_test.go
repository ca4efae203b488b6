package mcpserver

import (
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/mcpserver/plan"
	"github.com/freehold-dev/freehold/controllers/mcpserver/report"
	"github.com/freehold-dev/freehold/controllers/mcpserver/snapshot"
)

// A protected server has its NetworkPolicy before anything that carries content; one
// that is not has none, and ours goes.
func TestWhoMayConnectToTheBackend(t *testing.T) {
	ours := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "echo-backend", OwnerReferences: ofEcho()}}
	theirs := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "echo-backend"}}
	guard := func(s *v1alpha1.MCPServer) {
		s.Spec.AuthzConfig = &v1alpha1.AuthzConfig{
			Policies: []v1alpha1.AuthzPolicy{{Name: "a", Policy: "permit(principal, action, resource);"}},
		}
	}
	says := func(ingress v1alpha1.BackendIngress) func(*v1alpha1.MCPServer) {
		return func(s *v1alpha1.MCPServer) { s.Spec.Network = &v1alpha1.NetworkSpec{BackendIngress: ingress} }
	}
	for name, tc := range map[string]struct {
		edits          []func(*v1alpha1.MCPServer)
		live           *networkingv1.NetworkPolicy
		proxy          bool
		makes, removes bool
		exposed        bool
	}{
		"without a protection":      {},
		"no longer with one":        {live: ours, removes: true},
		"a policy of another owner": {live: theirs},
		"policies":                  {edits: []func(*v1alpha1.MCPServer){guard}, makes: true},
		"a login": {
			edits: []func(*v1alpha1.MCPServer){func(s *v1alpha1.MCPServer) {
				s.Spec.OIDCConfigRef = &v1alpha1.OIDCConfigReference{}
			}}, proxy: true, makes: true,
		},
		"shared policies": {
			edits: []func(*v1alpha1.MCPServer){func(s *v1alpha1.MCPServer) {
				s.Spec.AuthzConfigRef = &v1alpha1.LocalReference{Name: "a"}
			}}, proxy: true, makes: true,
		},
		"a network of nothing":           {edits: []func(*v1alpha1.MCPServer){guard, says("")}, makes: true},
		"asked for without a protection": {edits: []func(*v1alpha1.MCPServer){says("ProxyOnly")}, makes: true},
		"switched off": {
			edits: []func(*v1alpha1.MCPServer){guard, says("Any")}, live: ours,
			removes: true, exposed: true,
		},
		"switched off without a protection": {
			edits: []func(*v1alpha1.MCPServer){says("Any")}, live: ours,
			removes: true,
		},
		"a value of a later release beside what runs": {
			edits: []func(*v1alpha1.MCPServer){guard, says("Namespace")},
			proxy: true, live: ours, makes: true,
		},
		"a wrong spec, and nothing runs": {edits: []func(*v1alpha1.MCPServer){guard, refusedSpec}},
		"a wrong spec beside what runs": {
			edits: []func(*v1alpha1.MCPServer){guard, refusedSpec}, proxy: true,
			makes: true,
		},
		"a wrong spec that drops the protections": {edits: []func(*v1alpha1.MCPServer){refusedSpec}, live: ours, proxy: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := echo()
			w := world{Policy: tc.live}
			for _, edit := range tc.edits {
				edit(server)
			}
			if tc.proxy {
				w.Proxy = proxyOf(current)
			}
			made := planOf(server, w, options)
			first := false
			for i, child := range childrenOf(made) {
				if policy, is := child.Intent.(*networkingv1ac.NetworkPolicyApplyConfiguration); is {
					first = i == 0 && *policy.Name == "echo-backend"
				}
			}
			removes := len(actions[plan.RemovePolicy](made)) > 0
			if first != tc.makes || removes != tc.removes {
				t.Errorf("makes the NetworkPolicy first: %t, removes it: %t; want %t, %t", first, removes, tc.makes, tc.removes)
			}
			exposed, is := report.Conditions(snapshot.Of(server, w, noon), made, nil, nil)[v1alpha1.ConditionBackendExposed]
			if is != tc.exposed || is && !strings.Contains(exposed.Message, "Service echo-backend") {
				t.Errorf("exposed: %v", exposed)
			}
		})
	}
}

// What a server leaves out, the release says.
func TestTheNetworkOfARelease(t *testing.T) {
	shut := &v1alpha1.NetworkSpec{BackendIngress: v1alpha1.BackendIngressProxyOnly}
	closed := &v1alpha1.NetworkSpec{BackendIngress: v1alpha1.BackendIngressProxyOnly, Egress: []v1alpha1.EgressRule{}}
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	for name, tc := range map[string]struct {
		spec, defaults *v1alpha1.NetworkSpec
		want           []networkingv1.PolicyType
	}{
		"a server that names nothing to connect to": {&v1alpha1.NetworkSpec{Egress: []v1alpha1.EgressRule{}}, nil, both[1:]},
		"a closed release":                          {nil, closed, both},
		"a server that is open to callers in it": {
			&v1alpha1.NetworkSpec{BackendIngress: v1alpha1.BackendIngressAny},
			closed, both[1:],
		},
		"a server that names its connections in it": {&v1alpha1.NetworkSpec{Egress: []v1alpha1.EgressRule{}}, shut, both},
		"a server that opens what a release shuts": {
			&v1alpha1.NetworkSpec{BackendIngress: v1alpha1.BackendIngressAny}, shut,
			nil,
		},
		"neither": {nil, nil, nil},
	} {
		options, server := options, echo()
		options.Network, server.Spec.Network = tc.defaults, tc.spec
		var got []networkingv1.PolicyType
		for _, child := range childrenOf(planOf(server, world{}, options)) {
			if policy, is := child.Intent.(*networkingv1ac.NetworkPolicyApplyConfiguration); is {
				got = policy.Spec.PolicyTypes
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: the NetworkPolicy is about %v, want %v", name, got, tc.want)
		}
	}
}

// What the API server would refuse in the NetworkPolicy is a problem of the spec, and is
// not sent: the content and the NetworkPolicy that stand stay.
func TestEgressThatTheAPIServerRefuses(t *testing.T) {
	for field, peer := range map[string]v1alpha1.EgressPeer{
		"podSelector.matchLabels": {
			PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"bad key!": "v a l"}},
		},
		"namespaceSelector.matchExpressions[0].operator": {
			NamespaceSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}},
			},
		},
		"ipBlock.cidr":      {IPBlock: &v1alpha1.EgressBlock{CIDR: "10.0.0.1/8"}},
		"ipBlock.except[0]": {IPBlock: &v1alpha1.EgressBlock{CIDR: "10.0.0.0/8", Except: []string{"10.0.0.0/8"}}},
	} {
		s := up()
		s.server.Spec.Network = &v1alpha1.NetworkSpec{Egress: []v1alpha1.EgressRule{{To: []v1alpha1.EgressPeer{peer}}}}
		s.world.Policy = policyOf("uid")
		made := planOf(s.server, s.world, options)
		problems := made.Verdict.Problems
		if len(problems) == 0 || !strings.Contains(problems[0].Field, "spec.network.egress[0].to[0]."+field) ||
			!strings.Contains(problems[0].Message, ": write ") {
			t.Errorf("%s: the problems are %v", field, problems)
		}
		if len(actions[plan.RemovePolicy](made)) > 0 {
			t.Errorf("%s: the NetworkPolicy that stands goes", field)
		}
		for _, child := range childrenOf(made) {
			if _, is := child.Intent.(*networkingv1ac.NetworkPolicyApplyConfiguration); is {
				t.Errorf("%s: the NetworkPolicy that stands does not stay", field)
			}
		}
	}
}

// A policy that matches no call is said, and stops nothing.
func TestAPolicyThatMatchesNoCall(t *testing.T) {
	server := echo()
	server.Spec.AuthzConfig = &v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{
		{Name: "typo", Policy: `permit(principal, action == Action::"call_tol", resource);`},
		{Name: "right", Policy: `permit(principal, action, resource is Tool);`},
	}}
	unmatched := func() (conditions.Finding, bool) {
		made := planOf(server, world{}, options)
		if !made.Accepted() {
			t.Error(made.Verdict.Problems)
		}
		f, ok := report.Conditions(snapshot.Of(server, world{}, noon), made, nil, nil)[v1alpha1.ConditionPolicyUnmatched]
		return f, ok
	}
	f, warns := unmatched()
	if !warns || !strings.HasPrefix(f.Message,
		`policy "typo", line 1, column 1: action == Action::"call_tol" matches nothing: actions are `) ||
		strings.Contains(f.Message, "right") {
		t.Error(f)
	}
	server.Spec.AuthzConfig.Policies = server.Spec.AuthzConfig.Policies[1:]
	if f, warns := unmatched(); warns {
		t.Error(f)
	}
}

// What closes the backend needs no number: it goes out where the claim is refused.
func TestARefusedClaimDoesNotLeaveTheBackendOpen(t *testing.T) {
	r, s := settled(t)
	server := read(s)
	server.Generation++
	server.Spec.AuthzConfig = &v1alpha1.AuthzConfig{
		Policies: []v1alpha1.AuthzPolicy{{Name: "a", Policy: "permit(principal, action, resource);"}},
	}
	s.put(server)
	s.refuse = func(kind string) error {
		if kind == "MCPServer" && !meta.IsStatusConditionTrue(read(s).Status.Conditions, v1alpha1.ConditionReady) {
			return apierrors.NewBadRequest("no claims today")
		}
		return nil
	}
	for range 3 {
		_, _ = r.Reconcile(t.Context(), theServer)
	}
	if read(s).Status.Workload.Generation != 1 {
		t.Fatal("the claim was taken")
	}
	if s.objects[storedKey{"NetworkPolicy", "echo-backend"}] == nil {
		t.Error("whoever reaches the backend is served without the policies")
	}
}

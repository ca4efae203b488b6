package configs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
	"github.com/freehold-dev/freehold/controllers/apply"
	"github.com/freehold-dev/freehold/controllers/conditions"
	"github.com/freehold-dev/freehold/controllers/configs/authz"
	"github.com/freehold-dev/freehold/controllers/configs/frame"
	"github.com/freehold-dev/freehold/controllers/configs/group"
	"github.com/freehold-dev/freehold/controllers/configs/oidc"
	"github.com/freehold-dev/freehold/controllers/kinds"
	"github.com/freehold-dev/freehold/controllers/rollout"
)

// referrers are so many servers; those of going are being deleted.
func referrers(n int, going ...int) (servers []kinds.Object) {
	for i := range n {
		servers = append(servers, &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%03d", i)}})
	}
	for _, i := range going {
		servers[i].SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)})
	}
	return servers
}

// The count is exact, the list bounded, and nothing of what was listed before is
// looked at: an append-only list never forgets.
func TestTheListIsComputedFromTheReferrersAlone(t *testing.T) {
	for n, last := range map[int]string{0: "", 1: "s000", 500: "s499", 501: "s499", 700: "s499"} {
		said := desired(frame.Verdict{}, referrers(n))
		listed := said.ReferencingWorkloads
		if int(*said.Workloads) != n || len(listed) != min(n, 500) {
			t.Errorf("of %d: %d counted, %d listed", n, *said.Workloads, len(listed))
		}
		if n > 0 && *listed[len(listed)-1].Name != last {
			t.Errorf("of %d: the last one listed is %s", n, *listed[len(listed)-1].Name)
		}
	}
}

func TestADeletionSaysByWhomItIsHeld(t *testing.T) {
	for name, tc := range map[string]struct {
		w    []kinds.Object
		want string
	}{
		"one": {
			referrers(1),
			"Stalled deletion waits until no workload refers to this configuration. These refer to it: MCPServer s000. Remove " +
				"the reference from each, or delete it",
		},
		"one is going": {
			referrers(2, 0),
			"Stalled deletion waits until no workload refers to this configuration. These refer to it: MCPServer s001. Remove " +
				"the reference from each, or delete it",
		},
		"all go": {
			referrers(2, 0, 1),
			"Reconciling deletion waits until no workload refers to this configuration. These refer to it and are being " +
				"deleted: MCPServer s000, s001",
		},
		"many": {referrers(9), "Stalled deletion waits until no workload refers to this configuration. These refer to it: " +
			"MCPServer s000, s001, s002, s003, s004 and others. Remove the reference from each, or delete it"},
	} {
		movement, message := holds(tc.w)
		if diff := cmp.Diff(tc.want, movement+" "+message); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	// Of many, a change of the count says nothing new, which would be a write.
	_, nine := holds(referrers(9))
	if _, ten := holds(referrers(10)); nine != ten {
		t.Errorf("with one more it says %q", ten)
	}
}

// No text of a policy stops the controller: what cannot be read is said.
func TestAPolicyThatCannotBeReadIsSaid(t *testing.T) {
	for name, tc := range map[string]struct{ text, entities, says string }{
		"right":          {text: "permit(principal, action, resource);"},
		"not Cedar":      {"\npermit(principal);", "", `policy "a", line 2, column`},
		"empty":          {" ", "", `policy "a" has no statement`},
		"half a text":    {`permit(principal == Client::"`, "", `policy "a"`},
		"no text at all": {"\x00\xff\xfe", "", `policy "a"`},
		"deep":           {"permit(principal, action, resource) when { " + strings.Repeat("(", 5000), "", `policy "a"`},
		"too large": {
			strings.Repeat(" ", 384<<10) + "permit(principal, action, resource);", "",
			"spec: more than 393216 characters",
		},
		"a wild number":   {"permit(principal, action, resource) when { 99999999999999999999999 == 1 };", "", `policy "a"`},
		"wrong entities":  {"permit(principal, action, resource);", "{", "entities"},
		"entities of nil": {"permit(principal, action, resource);", "[null]", "entities"},
	} {
		c := &v1alpha1.MCPAuthzConfig{
			Spec: v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{{Name: "a", Policy: tc.text}}, Entities: tc.entities},
		}
		err := authz.Kind{}.Check(c).Err
		if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
}

// kstatus takes an object that is Stalled for Failed, and one with Ready alone for Current.
func TestFindings(t *testing.T) {
	everywhere := conditions.True("RolledOut", "every workload that refers to this configuration has its present content")
	invalid := errors.New(`policy "a", line 1, column 2: no`)
	for name, tc := range map[string]struct {
		kind frame.Kind
		j    frame.Verdict
		want map[string]conditions.Finding
	}{
		"a group, which servers run nothing of": {group.Kind{}, frame.Verdict{}, map[string]conditions.Finding{
			"Ready": conditions.True("Valid", "the spec is valid"),
		}},
		"valid": {authz.Kind{}, frame.Verdict{}, map[string]conditions.Finding{
			"Ready":     conditions.True("Valid", "the spec is valid"),
			"RolledOut": everywhere,
		}},
		"invalid": {authz.Kind{}, frame.Verdict{Err: invalid}, map[string]conditions.Finding{
			"Ready":   conditions.False("SpecInvalid", invalid.Error()),
			"Stalled": conditions.True("SpecInvalid", invalid.Error()),
		}},
		"valid, with a word that is none": {
			authz.Kind{},
			authz.Kind{}.Check(&v1alpha1.MCPAuthzConfig{
				Spec: v1alpha1.AuthzConfig{Policies: []v1alpha1.AuthzPolicy{
					{Name: "a", Policy: `permit(principal is Person, action, resource);`},
				}},
			}),
			map[string]conditions.Finding{
				"Ready":     conditions.True("Valid", "the spec is valid"),
				"RolledOut": everywhere,
				"PolicyUnmatched": conditions.True("UnknownWords",
					`policy "a", line 1, column 1: principal is Person matches nothing: principals are Client::"NAME", in Group::"NAME"`),
			},
		},
	} {
		if diff := cmp.Diff(tc.want, findings(tc.kind, tc.j, nil, 25, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// An MCPOIDCConfig that no schema has looked at is said to be wrong.
func TestALoginWithoutAnIssuerIsSaid(t *testing.T) {
	kind := oidc.Kind{}
	if v := kind.Check(&v1alpha1.MCPOIDCConfig{}); v.Err == nil || v.Hash != "" {
		t.Errorf("it is %+v", v)
	}
	right := v1alpha1.MCPOIDCConfigSpec{OIDC: &v1alpha1.OIDCIssuer{Issuer: "https://a.example.com"}}
	if v := kind.Check(&v1alpha1.MCPOIDCConfig{Spec: right}); v.Err != nil || v.Hash == "" {
		t.Errorf("it is %+v", v)
	}
}

// A server that runs with nothing yet is not waited for: it starts with what the
// configuration says. One that runs with another configuration is.
func TestOnlyServersThatHaveItAreRolledOut(t *testing.T) {
	w := referrers(4)
	w[3].GetProxyStatus().
		Workload = &v1alpha1.WorkloadStatus{
		Generation: 1,
		Configs:    []v1alpha1.WorkloadConfig{{Kind: "MCPAuthzConfig", Name: "other", Hash: "new"}},
	}
	w[3].GetProxyStatus().Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "SpecInvalid"}}
	for i, hash := range []string{"old", "new"} {
		w[i].GetProxyStatus().
			Workload = &v1alpha1.WorkloadStatus{
			Generation: 1,
			Configs:    []v1alpha1.WorkloadConfig{{Kind: "MCPAuthzConfig", Name: "company", Hash: hash}},
		}
		w[i].GetProxyStatus().Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready"}}
	}
	r := New(authz.Kind{}, nil, nil, &apply.Applier{}, nil)
	members := func(hash string, servers []kinds.Object) []rollout.Member {
		found, err := r.members(t.Context(), "company", hash, servers)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	all := []rollout.Member{
		{Name: "s000", Phase: rollout.Waiting},
		{Name: "s001", Phase: rollout.Done},
		{Name: "s003", Phase: rollout.Apart},
	}
	if diff := cmp.Diff(all, members("new", w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for wrong, want := range map[string]metav1.ConditionStatus{"": "False", "old": "True"} {
		found := findings(r.kind, frame.Verdict{Hash: "new"}, members("new", w), 25, nil)
		if wrong != "" {
			found = findings(r.kind, frame.Verdict{Hash: wrong}, members(wrong, w[:1]), 25, nil)
		}
		if got := found["RolledOut"].Status; got != want {
			t.Errorf("RolledOut is %s, want %s", got, want)
		}
	}
}

// recorded is a queue that notes what is to be added later.
type recorded struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	added []string
}

func (q *recorded) AddAfter(r reconcile.Request, after time.Duration) {
	q.added = append(q.added, fmt.Sprint(r.NamespacedName, " ", after))
}

func (q *recorded) Add(r reconcile.Request) { q.added = append(q.added, fmt.Sprint(r.NamespacedName)) }

// While servers are born each write of the status would cause the next one.
func TestAStatusAloneWakesLater(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.MCPAuthzConfig)
		want   string
	}{
		"status":     {func(c *v1alpha1.MCPAuthzConfig) { c.Status.ObservedGeneration = 1 }, "ns/a 1s"},
		"spec":       {func(c *v1alpha1.MCPAuthzConfig) { c.Generation++ }, "ns/a"},
		"finalizers": {func(c *v1alpha1.MCPAuthzConfig) { c.Finalizers = []string{"other"} }, "ns/a"},
		"deletion": {
			func(c *v1alpha1.MCPAuthzConfig) { c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
			"ns/a",
		},
	} {
		old := &v1alpha1.MCPAuthzConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", Generation: 1}}
		changed, q := old.DeepCopy(), &recorded{}
		tc.change(changed)
		own().Update(t.Context(), event.UpdateEvent{ObjectOld: old, ObjectNew: changed}, q)
		if diff := cmp.Diff([]string{tc.want}, q.added); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAReferenceWakesWhatItNamesAndWhatItNamed(t *testing.T) {
	refers := func(policies string, more func(*v1alpha1.MCPServer)) client.Object {
		s := &v1alpha1.MCPServer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "echo", UID: types.UID("u")}}
		s.Spec.OIDCConfigRef = &v1alpha1.OIDCConfigReference{LocalReference: v1alpha1.LocalReference{Name: "login"}}
		if policies != "" {
			s.Spec.AuthzConfigRef = &v1alpha1.LocalReference{Name: policies}
		}
		if more != nil {
			more(s)
		}
		return s
	}
	live := &v1alpha1.MCPAuthzConfig{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", UID: "a",
			Finalizers: []string{"freehold.dev/mcpauthzconfig"},
		},
	}
	live.Spec.Policies = []v1alpha1.AuthzPolicy{{Name: "a", Policy: "permit(principal, action, resource);"}}
	has := func(hash, ready string) func(*v1alpha1.MCPServer) {
		return func(s *v1alpha1.MCPServer) {
			s.Status.Workload = &v1alpha1.WorkloadStatus{
				Generation: 1, ConfigRollout: true,
				Configs: []v1alpha1.WorkloadConfig{{Kind: "MCPAuthzConfig", Name: "a", Hash: hash}},
			}
			s.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionStatus(ready), Reason: "Updating"}}
		}
	}
	going := live.DeepCopy()
	going.Name, going.DeletionTimestamp = "going", &metav1.Time{Time: time.Unix(1, 0)}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(live, going).Build()
	for name, tc := range map[string]struct {
		before, after client.Object
		want          []string
	}{
		"born":              {nil, refers("a", nil), []string{"ns/a 1s"}},
		"the first":         {nil, refers("b", nil), []string{"ns/b 50ms"}},
		"born without":      {nil, refers("", nil), nil},
		"gone":              {refers("a", nil), nil, []string{"ns/a 1s"}},
		"gone from a going": {refers("going", nil), nil, []string{"ns/going 50ms"}},
		"moved":             {refers("a", nil), refers("b", nil), []string{"ns/a 1s", "ns/b 50ms"}},
		"dropped":           {refers("a", nil), refers("", nil), []string{"ns/a 1s"}},
		"going": {
			refers("a", nil),
			refers("a", func(s *v1alpha1.MCPServer) { s.DeletionTimestamp = &metav1.Time{} }),
			[]string{"ns/a 1s"},
		},
		"other changes": {
			refers("a", nil),
			refers("a", func(s *v1alpha1.MCPServer) { s.Spec.Image, s.Status.URL = "i", "u" }), nil,
		},
		"took it": {refers("a", nil), refers("a", has("old", "True")), []string{"ns/a 1s"}},
		"takes it": {
			refers("a", has("old", "True")), refers("a", has(authz.Kind{}.Check(live).Hash, "False")),
			[]string{"ns/a 1s"},
		},
		"of another kind": {
			refers("a", has("old", "True")),
			refers("a", func(s *v1alpha1.MCPServer) { has("old", "True")(s); s.Status.URL = "u" }), nil,
		},
		"another's": {refers("a", nil), refers("a", func(s *v1alpha1.MCPServer) { s.Spec.OIDCConfigRef = nil }), nil},
	} {
		q, h := &recorded{}, New(authz.Kind{}, reader, reader, &apply.Applier{}, nil).referrers()
		switch {
		case tc.before == nil:
			h.Create(t.Context(), event.CreateEvent{Object: tc.after}, q)
		case tc.after == nil:
			h.Delete(t.Context(), event.DeleteEvent{Object: tc.before}, q)
		default:
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, q)
		}
		if diff := cmp.Diff(tc.want, q.added); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

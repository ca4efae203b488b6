package writer

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/freehold-dev/freehold/apis/contract"
	"github.com/freehold-dev/freehold/apis/ownership"
	"github.com/freehold-dev/freehold/controllers/apply"
)

func TestALeafOutsideTheGrantIsRefusedByName(t *testing.T) {
	t.Parallel()
	d := under(t, granting(grant(one, "data.mine", `metadata.labels["a/b"]`)))
	live := d.there("shared")
	_ = d.sent()
	intent := d.note("shared", "mine", "1", "also", "2").
		WithLabels(map[string]string{"a/b": "1", "a/c": "2"}).WithImmutable(false)

	for name, err := range map[string]error{
		"a write": d.refused(one, live, intent), "a birth": d.refused(one, nil, d.note("new", "also", "2")),
	} {
		refused := cause[*apply.NotGranted](d, err)
		want := []string{".data.also"}
		if name == "a write" {
			want = []string{".data.also", ".immutable", ".metadata.labels.a/c"}
		}
		slices.Sort(refused.Fields)
		if !slices.Equal(refused.Fields, want) || refused.Manager != one || refused.Object != "ConfigMap" {
			t.Errorf("%s: %+v, want the fields %v", name, refused, want)
		}
	}
	d.quiet()
	d.unmoved(live)
	d.put(apply.Configured, one, live, d.note("shared", "mine", "1").WithLabels(map[string]string{"a/b": "1"}))
}

func TestWithoutAGrantNothingIsSent(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	for name, tc := range map[string]struct {
		manager ownership.Manager
		intent  interface{ IsApplyConfiguration() }
	}{
		"a manager that nobody knows":  {"nobody.freehold.dev/nothing", d.note("echo-run-1-a", "run.json", "{}")},
		"a kind that nobody may write": {contract.MCPServerChildren, corev1ac.Secret("echo-proxy", d.Namespace)},
		"another name":                 {contract.MCPServerChildren, corev1ac.Service("echo-other", d.Namespace)},
		"the runner's object":          {contract.MCPServerChildren, appsv1ac.StatefulSet("echo-backend", d.Namespace)},
		"a status that is no part": {
			contract.MCPServerChildren,
			appsv1ac.Deployment("echo-proxy", d.Namespace).WithStatus(appsv1ac.DeploymentStatus().WithReplicas(1)),
		},
	} {
		refused := cause[*apply.NotGranted](d, d.refused(tc.manager, nil, tc.intent))
		if len(refused.Fields) > 0 || refused.Manager != tc.manager {
			t.Errorf("%s: %v, want no grant at all", name, refused)
		}
	}
	d.quiet()
}

func TestOnlyAVersionedGrantSendsAResourceVersion(t *testing.T) {
	t.Parallel()
	versioned := grant(two, "data.b")
	versioned.Versioned = true
	d := under(t, granting(grant(one, "data.a"), versioned))
	live := d.there("shared")
	_ = d.sent()

	refused := cause[*apply.NotGranted](d, d.refused(one, live, d.note("shared", "a", "1"), apply.AtVersion))
	if !slices.Equal(refused.Fields, []string{".metadata.resourceVersion"}) {
		t.Errorf("refused are %v", refused.Fields)
	}
	d.quiet()

	d.put(apply.Configured, one, live, d.note("shared", "a", "1"))
	d.applied(1)
	d.is(d.refused(two, live, d.note("shared", "b", "1"), apply.AtVersion), apply.ErrStale)
	live = read(d, &corev1.ConfigMap{}, "shared")
	if _, written := live.Data["b"]; written {
		t.Error("a stale write was written")
	}
	d.put(apply.Configured, two, live, d.note("shared", "b", "1"), apply.AtVersion)
}

func TestASharedGrantYields(t *testing.T) {
	t.Parallel()
	shared := grant(one, "data.theirs", "data.mine")
	shared.Mode = ownership.Shared
	d := under(t, granting(shared, grant(two, "data.theirs")))
	live := d.there("shared")

	conflict := cause[*apply.Conflict](d, d.refused(one, live, d.note("shared", "theirs", "mine", "mine", "1")))
	if want := `field conflict: field manager "somebody" holds .data.theirs`; conflict.Error() != want ||
		conflict.Key.Name != "shared" {
		t.Errorf("it says %q of %s, want %q", conflict, conflict.Key, want)
	}
	d.unmoved(live)

	// What nobody contends is written, and an equal value is shared.
	d.put(apply.Configured, one, live, d.note("shared", "theirs", "x", "mine", "1"))
	d.Owns(live, "somebody", "data.theirs")
	d.Owns(live, string(one), "data.theirs", "data.mine")
	// An exclusive grant takes its field from both.
	live = read(d, live, "shared")
	d.put(apply.Configured, two, live, d.note("shared", "theirs", "taken"))
	if owners := d.OwnersOf(live, "data.theirs"); !slices.Equal(owners, []string{string(two)}) {
		t.Errorf("the owners are %v", owners)
	}
}

// Every grant about a server is used by a story of this package. Those about a configuration are of the same forms.
func TestTheStatementsUseEveryGrantAboutAServer(t *testing.T) {
	t.Parallel()
	d := freehold(t)
	used := map[string]bool{}
	for _, s := range d.statements(d.server("echo", "")) {
		object := ownership.Object{GroupVersionKind: d.gvk(s.empty)}
		for _, object.Subresource = range []string{"", "status"} {
			if _, ok := d.contract.Grant(s.manager, object, *s.ac.(named).GetName()); ok {
				used[fmt.Sprint(s.manager, object)] = true
			}
		}
	}
	for _, g := range d.contract.Grants {
		if g.Object == contract.HTTPRoute {
			continue // a kind that a cluster may lack has a story of its own, in test/integration
		}
		about := g.Object.Kind == contract.MCPServer.Kind || g.Owner == contract.MCPServer
		if about && !g.Once && !used[fmt.Sprint(g.Manager, g.Object)] {
			t.Errorf("%s writes %s and no story tells of it", g.Manager, g.Object)
		}
	}
}

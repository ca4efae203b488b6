package mcpserver

import (
	"slices"
	"testing"

	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// The runner may read of history what it keeps, from before a proxy of it starts until the status names it no more.
func TestPlan_TheRunnerMayReadTheContentsThatItKeeps(t *testing.T) {
	own := digestOf(current).Backend
	rollout := func(active, target, from string) edit {
		return func(s *scene) {
			s.server.Status.Active = &v1alpha1.ActiveBackend{BackendContent: v1alpha1.BackendContent{Slot: 1, Hash: active}}
			if target != "" {
				s.server.Status.Rollout = &v1alpha1.RolloutStatus{
					Target: v1alpha1.BackendContent{Slot: 2, Hash: target}, From: &v1alpha1.BackendContent{Slot: 2, Hash: from},
				}
			}
		}
	}
	unreadable := func(s *scene) { refusedSpec(s.server) }
	for name, tc := range map[string]struct {
		edits []edit
		want  []string
	}{
		"at rest":                   {[]edit{rollout(own, "", "")}, nil},
		"what serves is replaced":   {[]edit{rollout("old", "", "")}, nil},
		"its content comes up":      {[]edit{rollout("old", own, "old")}, []string{"echo-content-old"}},
		"the content before drains": {[]edit{rollout(own, own, "old")}, []string{"echo-content-old"}},
		"later content waits": {
			[]edit{rollout("new", "other", "new")}, []string{"echo-content-new"},
		},
		"the spec cannot be read": {[]edit{rollout("old", own, "old"), unreadable}, []string{"echo-content-old"}},
	} {
		identity := identityOf(up(tc.edits...).plan())
		var got []string
		for _, r := range identity[1].Intent.(*rbacv1ac.RoleApplyConfiguration).Rules {
			if slices.Contains(r.Resources, "controllerrevisions") {
				got = r.ResourceNames
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: it may read %q, want %q", name, got, tc.want)
		}
	}
}

package rollout

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// members are called a, b, c and so on, a letter of phases each: Done, Moving, Failed,
// Again, Waiting, down (o), free (S), Blocked, apart (X).
func members(phases string) []Member {
	var all []Member
	for i, p := range phases {
		all = append(all, Member{Name: string(rune('a' + i)), Phase: Phase(strings.IndexRune("DMFAWoSBX", p))})
	}
	slices.Reverse(all) // a cache lists in any order
	return all
}

func TestThePlanAdmitsTheFirstWithinTheBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		phases  string
		percent int
		want    string
		failed  string
	}{
		"nobody refers to it":                       {"", 25, "", ""},
		"at least one":                              {"WW", 25, "a", ""},
		"a quarter":                                 {"WWWWWWWW", 25, "a b", ""},
		"rounded down":                              {"WWWWWWW", 25, "a", ""},
		"the next quarter":                          {"DDWWWWWW", 25, "c d", ""},
		"one of it is ready":                        {"DMWWWWWW", 25, "c", ""},
		"all under way":                             {"MMWWWWWW", 25, "", ""},
		"more under way than there may":             {"MMMWWWWW", 25, "", ""},
		"what moves by itself is apart":             {"XXWWWWWW", 25, "c d", ""},
		"one that is down keeps its place":          {"oWWWWWWW", 25, "b", ""},
		"those that are down keep all places":       {"ooWWWWWW", 25, "", ""},
		"one that broke before is the first":        {"WWWAWWWW", 25, "d a", ""},
		"one that does not serve needs no place":    {"WWWSWWWW", 25, "a b d", ""},
		"one that is refused gets what is left":     {"DDDBWDDD", 25, "e d", ""},
		"one that is refused is not before another": {"BWWWWWWW", 25, "b c", ""},
		"nobody takes what one has failed with":     {"FWASBoWW", 100, "", "a"},
		"one failed":                                {"DMWFWWWW", 25, "", "d"},
		"two failed":                                {"DFWFWWWW", 100, "", "b"},
		"all at once":                               {"WWWWWWWW", 100, "a b c d e f g h", ""},
	} {
		t.Run(name, func(t *testing.T) {
			plan := For(members(tc.phases), tc.percent)
			if got := strings.Join(plan.Admitted, " "); got != tc.want || plan.Failed != tc.failed {
				t.Errorf("admits %q and holds for %q, want %q and %q", got, plan.Failed, tc.want, tc.failed)
			}
		})
	}
}

func TestAConfigurationSaysHowFarItIs(t *testing.T) {
	for name, tc := range map[string]struct {
		phases string
		status metav1.ConditionStatus
		reason string
		names  string
	}{
		"nobody refers to it":   {"", metav1.ConditionTrue, v1alpha1.ReasonRolledOut, ""},
		"all have it":           {"DDD", metav1.ConditionTrue, v1alpha1.ReasonRolledOut, ""},
		"some wait":             {"DWX", metav1.ConditionFalse, v1alpha1.ReasonRollingOut, "25 percent"},
		"the last is under way": {"DDM", metav1.ConditionFalse, v1alpha1.ReasonRollingOut, "25 percent"},
		"one failed":            {"DFW", metav1.ConditionFalse, v1alpha1.ReasonHeld, `MCPServer "b"`},
		"one cannot take it":    {"DBB", metav1.ConditionFalse, v1alpha1.ReasonRollingOut, `MCPServer "b"`},
		"one comes by itself":   {"DDX", metav1.ConditionFalse, v1alpha1.ReasonRollingOut, `MCPServer "c"`},
		"one is down":           {"DoW", metav1.ConditionFalse, v1alpha1.ReasonRollingOut, `MCPServer "b" does not serve`},
		"one is down later":     {"DWo", metav1.ConditionFalse, v1alpha1.ReasonRollingOut, "25 percent"},
	} {
		t.Run(name, func(t *testing.T) {
			got := RolledOut(members(tc.phases), 25)
			if got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.names) {
				t.Errorf("it says %v, want %s %s with %q", got, tc.status, tc.reason, tc.names)
			}
		})
	}
}

package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/freehold-dev/freehold/apis/v1alpha1"
)

// members are called a, b, c and so on, a letter of phases each.
func members(phases string) []Member {
	var all []Member
	for i, p := range phases {
		all = append(all, Member{Name: string(rune('a' + i)), Phase: Phase(strings.IndexRune("DWMFA", p))})
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
		"nobody refers to it":           {"", 25, "", ""},
		"at least one":                  {"WW", 25, "a", ""},
		"a quarter":                     {"WWWWWWWW", 25, "a b", ""},
		"rounded down":                  {"WWWWWWW", 25, "a", ""},
		"the next quarter":              {"DDWWWWWW", 25, "c d", ""},
		"one of it is ready":            {"DMWWWWWW", 25, "c", ""},
		"all under way":                 {"MMWWWWWW", 25, "", ""},
		"more under way than there may": {"MMMWWWWW", 25, "", ""},
		"what moves by itself is apart": {"AAWWWWWW", 25, "c d", ""},
		"one failed":                    {"DMWFWWWW", 25, "", "d"},
		"two failed":                    {"DFWFWWWW", 100, "", "b"},
		"all at once":                   {"WWWWWWWW", 100, "a b c d e f g h", ""},
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
		"some wait":             {"DWA", metav1.ConditionFalse, v1alpha1.ReasonRollingOut, "25 percent"},
		"the last is under way": {"DDM", metav1.ConditionFalse, v1alpha1.ReasonRollingOut, "25 percent"},
		"one failed":            {"DFW", metav1.ConditionFalse, v1alpha1.ReasonHeld, `MCPServer "b"`},
		"one cannot take it":    {"DAA", metav1.ConditionFalse, v1alpha1.ReasonRollingOut, `MCPServer "b"`},
	} {
		t.Run(name, func(t *testing.T) {
			got := RolledOut(members(tc.phases), 25)
			if got.Status != tc.status || got.Reason != tc.reason || !strings.Contains(got.Message, tc.names) {
				t.Errorf("it says %v, want %s %s with %q", got, tc.status, tc.reason, tc.names)
			}
		})
	}
}

// fleet are workloads as they were after each of their writes, the last one now.
type fleet [][]Workload

func (f fleet) now(i int) Workload { return f[i][len(f[i])-1] }

func (f fleet) write(i int, w Workload) { f[i] = append(f[i], w) }

// seen is the fleet as one sees it whose cache lags by any time, in half of all
// passes, but for itself: a claim is made at the version that was read.
func (f fleet) seen(r *rand.Rand, self int) []Member {
	var all []Member
	lags := r.IntN(2) == 0
	for i := range f {
		w := f.now(i)
		if lags && i != self {
			w = f[i][r.IntN(len(f[i]))]
		}
		all = append(all, w.Member(kind, name, after))
	}
	return all
}

// pass is what a controller does in one pass over a workload.
func (f fleet) pass(r *rand.Rand, i, percent int) {
	w := f.now(i)
	before := w.Conditions
	w.Conditions = nil
	admitted := For(f.seen(r, i), percent).Admits(w.Name)
	ready := before[0].Status == metav1.ConditionTrue
	switch phase := f.now(i).Member(kind, name, after).Phase; {
	case phase == Waiting && !admitted && ready:
		f.write(i, w.known().notReady(v1alpha1.ReasonRolloutPending))
	case phase == Waiting && admitted && ready:
		f.write(i, w.known().notReady(v1alpha1.ReasonUpdating))
	case phase == Waiting && admitted, phase == Moving && w.Claim.Configs[0].Hash != after:
		next := claimed(after).rolled()
		next.Name, next.Claim.Generation, next.Conditions = w.Name, 4, before
		f.write(i, next)
	case phase == Moving:
		w.Runtime = &v1alpha1.RuntimeStatus{Generation: 4}
		f.write(i, w.known().says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady))
	}
}

func (f fleet) count(phase Phase) (n int) {
	for i := range f {
		if f.now(i).Member(kind, name, after).Phase == phase {
			n++
		}
	}
	return n
}

// However old is what those see who decide, the budget holds, and each workload
// takes the content once.
func TestNoLagAdmitsMoreThanTheBudget(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		size, percent := 1+r.IntN(20), 1+r.IntN(100)
		f := make(fleet, size)
		for i := range f {
			w := claimed(before).known().says(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady)
			w.Name = fmt.Sprintf("w%02d", i)
			f.write(i, w)
		}
		for step := 0; f.count(Done) < size; step++ {
			if step > 10000 {
				t.Fatalf("seed %d: %d of %d have the content after %d steps", seed, f.count(Done), size, step)
			}
			f.pass(r, r.IntN(size), percent)
			if moving, budget := f.count(Moving), Budget(size, percent); moving > budget {
				t.Fatalf("seed %d: %d of %d are under way, and %d may be", seed, moving, size, budget)
			}
		}
		for i := range f {
			if claims := slices.CompactFunc(f[i], func(a, b Workload) bool { return a.Claim.Generation == b.Claim.Generation }); len(claims) != 2 {
				t.Errorf("seed %d: %s was claimed %d times", seed, f.now(i).Name, len(claims)-1)
			}
		}
	}
}

// A configuration whose workloads wait for their turn in another one says so, and which
// of them to ask; not while it goes on by itself.
func TestARolloutThatWaitsForAnotherConfigurationSaysWho(t *testing.T) {
	waits := func(of string) Member {
		w := claimed(before).known()
		w.Conditions = append(w.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonRolloutPending, Message: Pending(kind, of).Message,
		})
		return w.Member(kind, name, after)
	}
	elsewhere, here := waits("other"), waits(name)
	for what, tc := range map[string]struct {
		members []Member
		says    string
	}{
		"its turn elsewhere":       {[]Member{elsewhere}, `MCPServer "echo" may take this content, and waits`},
		"its turn here":            {[]Member{here}, "25 percent"},
		"another one is under way": {[]Member{elsewhere, {Name: "a", Phase: Moving}}, "25 percent"},
		"another one may go on":    {[]Member{elsewhere, {Name: "f", Phase: Waiting}, {}, {}, {}, {}, {}, {}}, "25 percent"},
		"one has failed":           {[]Member{elsewhere, {Name: "a", Phase: Failed}}, `MCPServer "a" is not ready`},
		"all others have it":       {[]Member{{}, elsewhere, {}}, `MCPServer "echo" may take`},
	} {
		if f := RolledOut(tc.members, 25); f.Status != metav1.ConditionFalse || !strings.Contains(f.Message, tc.says) {
			t.Errorf("%s: it says %v, want %q", what, f, tc.says)
		}
	}
}
